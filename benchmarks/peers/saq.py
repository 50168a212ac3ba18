"""SAQ with 100 jobs at a time, whose results are not kept."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import saq

from benchmarks.peers import QUEUE, Handle

TASKS = 100
CONNECTIONS = 1000
"""The most that its pool may open: with redis-py's 100 so many tasks find none left."""

_NO_RESULT = -1
"""A ``ttl`` by which nothing is kept of a job that has ended."""


class Saq:
    """SAQ's queue in Redis."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._queue = saq.Queue.from_url(f"{url}?max_connections={CONNECTIONS}", name=QUEUE)

    def add_each(self, keys: Iterable[str]) -> None:
        """Enqueue one after another."""

        async def add() -> None:
            for key in keys:
                await self._queue.enqueue("task", item=key, ttl=_NO_RESULT)

        self._runner.run(add())

    def add_many(self, keys: Sequence[str]) -> None:
        """Enqueue 100 at a time: it has nothing else for many."""

        async def add() -> None:
            for start in range(0, len(keys), TASKS):
                some = keys[start : start + TASKS]
                await asyncio.gather(*(self._queue.enqueue("task", item=key, ttl=_NO_RESULT) for key in some))

        self._runner.run(add())

    def work(self, handle: Handle) -> None:
        """Run a worker."""

        async def task(_: Any, *, item: str) -> None:
            handle(item)

        async def work() -> None:
            await saq.Worker(self._queue, functions=[("task", task)], concurrency=TASKS).start()

        self._runner.run(work())


def connect(url: str, _: str) -> Saq:
    """Return SAQ."""
    return Saq(url)
