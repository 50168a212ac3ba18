"""A worker for tests to cut off from Redis and to freeze; a journal says when each reconcile ran.

    python -m tests.controller.cut_off_worker JOURNAL async|plain [freeze at]

Each line of the journal is a process, a key, and when a reconcile of it began and ended, by CLOCK_MONOTONIC.
With a place to freeze at the process stops itself there once it has claimed the key ``late``: ``reply``, when
Redis has answered, or ``turn``, when the queue has.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from distq import Controller, Manager, Queue, Request
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.workqueue.engine import OnClaims
from distq.workqueue.interface import Settlement, Turn

JOURNAL, KIND, FREEZE_AT = (*sys.argv[1:], "")[:3]
CLAIM_DURATION = 8.0
"""A tenth of it is the time to cancel, which a busy machine may need."""


@contextlib.contextmanager
def journaled(key: str) -> Iterator[None]:
    """Write down when this ran."""
    began = time.monotonic()
    _write(f"{os.getpid()} {key} {began} -")
    try:
        yield
    finally:
        _write(f"{os.getpid()} {key} {began} {time.monotonic()}")


def _write(line: str) -> None:
    with Path(JOURNAL).open("a") as journal:
        journal.write(f"{line}\n")


async def reconcile_async(request: Request) -> None:
    """Work for long, until cancelled."""
    with journaled(request.key):
        await asyncio.sleep(60)


def reconcile_plain(request: Request) -> None:
    """Work for long, and look whether to stop."""
    with journaled(request.key):
        request.cancelled.wait(60)


def _freeze(at: str) -> None:
    if at == FREEZE_AT:
        _write(f"{os.getpid()} frozen {time.monotonic()} -")
        signal.raise_signal(signal.SIGSTOP)  # this very thread; os.kill may stop another one first


class Freezing(Connection):
    """A connection whose process freezes when it was answered that ``late`` is claimed."""

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Run a script."""
        reply = super().evaluate(source, sha, arguments, *meanwhile)
        if sha == scripts.load("turn").sha and isinstance(reply, list) and b"late" in reply[5]:
            _freeze("reply")
        return reply


class FreezingQueue(Queue):
    """A queue whose process freezes when it has claimed ``late``."""

    def turn(self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None) -> Turn:
        """Settle and claim."""
        turn = super().turn(settlements, want, on_claims)
        if any(request.key == "late" for request in turn.requests):
            _freeze("turn")
        return turn


if __name__ == "__main__":
    queue = FreezingQueue("foos", Freezing(), claim_duration=CLAIM_DURATION)
    reconcile = reconcile_async if KIND == "async" else reconcile_plain
    Manager([Controller(queue, reconcile, concurrency=4)]).run(informer=False)
