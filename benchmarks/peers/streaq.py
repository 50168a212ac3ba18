"""streaq with 100 tasks at a time, without results and without a log line a task."""

import asyncio
from collections.abc import Iterable, Sequence

import streaq

from benchmarks.peers import QUEUE, Handle

TASKS = 100


class Streaq:
    """A worker, by which tasks are added, too."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._worker = streaq.Worker(redis_url=url, queue_name=QUEUE, concurrency=TASKS)
        self._handle: Handle | None = None

        async def task(key: str) -> None:
            assert self._handle is not None
            self._handle(key)

        self._task = self._worker.task(name="task", silent=True, ttl=0)(task)

    def add_each(self, keys: Iterable[str]) -> None:
        """Enqueue one after another."""

        async def add() -> None:
            async with self._worker:
                for key in keys:
                    await self._task.enqueue(key)

        self._runner.run(add())

    def add_many(self, keys: Sequence[str]) -> None:
        """Enqueue in one pipeline."""

        async def add() -> None:
            async with self._worker:
                await self._worker.enqueue_many([self._task.enqueue(key) for key in keys])

        self._runner.run(add())

    def work(self, handle: Handle) -> None:
        """Run the worker."""
        self._handle = handle
        self._worker.run_sync()


def connect(url: str, _: str) -> Streaq:
    """Return streaq."""
    return Streaq(url)
