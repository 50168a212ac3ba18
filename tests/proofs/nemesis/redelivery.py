"""How long after a kill -9 the items of a process run elsewhere."""

import contextlib
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from distq import Queue
from distq.errors import ShutDown
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.guard import Guard
from tests import ROOT
from tests.support.eventually import eventually
from tests.support.redis_servers import server_of

QUEUE = "redelivery"
CLAIM_DURATION = 3.0
SWEEP = 1.0
"""Seconds: the next turn or heartbeat of any session notices a lapse, a third of the claim's duration."""
MARGIN = 0.5
AT_A_TIME = 20


@dataclass(frozen=True)
class Redelivery:
    """Seconds from the kill of a process until another one had its item, and what is required of the p99."""

    kills: int
    lost: int
    p50: float
    p99: float
    longest: float
    bar: float = CLAIM_DURATION + SWEEP + MARGIN

    @property
    def passed(self) -> bool:
        """Return whether nothing was lost, and the bar is kept."""
        return not self.lost and self.p99 <= self.bar

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"redelivery": asdict(self), "pass": self.passed}

    def as_text(self) -> str:
        """Return it for people."""
        return (
            f"redelivery after kill -9: {self.kills} kills, lost {self.lost}, p50 {self.p50:.2f} s, "
            f"p99 {self.p99:.2f} s (at most {self.bar:g} s), longest {self.longest:.2f} s"
        )


class _Takers:
    """Handles that take over the items of others, and note when."""

    def __init__(self, url: str, count: int) -> None:
        self.taken: dict[str, float] = {}
        self._queues = [Queue(QUEUE, url, claim_duration=CLAIM_DURATION) for _ in range(count)]
        self._threads = [threading.Thread(target=self._take, args=(queue,)) for queue in self._queues]
        for thread in self._threads:
            thread.start()

    def _take(self, queue: Queue) -> None:
        while True:
            try:
                request = queue.get()
            except ShutDown:
                return
            self.taken[request.key] = time.monotonic()
            queue.settle(request)

    def end(self) -> None:
        """Stop taking."""
        for queue in self._queues:
            queue.shut_down()
        for thread in self._threads:
            thread.join()
        for queue in self._queues:
            queue.close()


def measure(kills: int, kind: str, chance: random.Random) -> Redelivery:
    """Kill so many processes, each in the midst of its item, some at a time."""
    waits: list[float] = []
    with Guard("redelivery") as guard, EmbeddedValkey(server=server_of(kind), guard=guard) as server:
        for number in itertools.count():
            waits += _round(server.url, f"round-{number}", guard, chance)
            if len(waits) >= kills:
                break
    known = sorted(wait for wait in waits if wait < math.inf)
    return Redelivery(
        kills=len(waits),
        lost=len(waits) - len(known),
        p50=round(_quantile(known, 0.5), 3),
        p99=round(_quantile(known, 0.99), 3),
        longest=round(known[-1], 3),
    )


def _round(url: str, name: str, guard: Guard, chance: random.Random) -> list[float]:
    """Let processes claim an item each, kill them, and return after how long others had the items."""
    producer = Queue(QUEUE, url)
    keys = [f"{name}/{number}" for number in range(AT_A_TIME)]
    program = [sys.executable, "-m", "tests.proofs.nemesis.holders", str(AT_A_TIME), str(CLAIM_DURATION)]
    with subprocess.Popen(
        program,
        cwd=ROOT,
        env={**os.environ, "DISTQ_REDIS_URL": url, **guard.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holders:
        assert holders.stdout is not None
        producer.add(*keys)
        lines = [holders.stdout.readline().split() for _ in keys]
        held = {key: int(pid) for pid, key in lines}
        takers = _Takers(url, 3)
        time.sleep(CLAIM_DURATION / 3)  # each has beaten since, at another moment
        killed: dict[str, float] = {}
        for key, pid in held.items():
            os.kill(pid, signal.SIGKILL)
            killed[key] = time.monotonic()
            time.sleep(chance.uniform(0, 0.1))
        with contextlib.suppress(AssertionError):  # what is missing is lost
            eventually(lambda: len(takers.taken) == len(keys), timeout=60)
        takers.end()
        assert holders.stdin is not None
        holders.stdin.close()
    producer.close()
    waits = [takers.taken.get(key, math.inf) - at for key, at in killed.items()]
    return [wait for wait in waits if wait > 0]  # on a busy machine a claim may have ended before


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]
