"""A worker whose reconciles take a while: ``python -m benchmarks.timed_workers URL [namespace]``.

It says of each item but those of the busy namespace how long it waited, ms: from the time by Redis' clock
since which it is pending to the beginning of its reconcile. The second argument is what the queue is fair by.
"""

import sys
import time

from distq import Controller, Manager, Request

QUEUE = "neighbours"

BUSY = "busy"
"""The namespace that has a backlog."""

SLOTS, TAKES = 4, 0.02
"""Reconciles at a time; seconds of each."""


def reconcile(request: Request) -> None:
    """Say how long the item waited, and take a while."""
    namespace = request.key.partition("/")[0]
    if namespace != BUSY and request.enqueued_at is not None:
        _say("heard", namespace, 1000 * (time.time() - request.enqueued_at))
    time.sleep(TAKES)


def main(url: str, fair_by: str = "") -> None:
    """Work until the process is killed."""
    controller = Controller(QUEUE, reconcile, concurrency=SLOTS, fair_by=fair_by or None)
    Manager([controller], redis=url, on_start=lambda: _say("ready")).run(informer=False)


def _say(*words: object) -> None:
    """Say it in one piece: several threads do."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
