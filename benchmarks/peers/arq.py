"""arq with 100 jobs at a time, which looks for new ones every 10 ms, for by itself it does every 500."""

import asyncio
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import arq
from arq.connections import RedisSettings

from benchmarks.peers import Handle

TASKS = 100
POLL = 0.01


class Arq:
    """arq's default queue, without results."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._pool = self._runner.run(arq.create_pool(RedisSettings.from_dsn(url)))

    def add_each(self, keys: Iterable[str]) -> None:
        """Enqueue one after another."""

        async def add() -> None:
            for key in keys:
                await self._pool.enqueue_job("task", key)

        self._runner.run(add())

    def add_many(self, keys: Sequence[str]) -> None:
        """Enqueue 100 at a time: it has nothing else for many."""

        async def add() -> None:
            for start in range(0, len(keys), TASKS):
                some = keys[start : start + TASKS]
                await asyncio.gather(*(self._pool.enqueue_job("task", key) for key in some))

        self._runner.run(add())

    def work(self, handle: Handle) -> None:
        """Run a worker, without a log line a job."""
        warnings.simplefilter("ignore", DeprecationWarning)

        async def task(_: Any, key: str) -> None:
            handle(key)

        async def work() -> None:
            await arq.Worker(
                [arq.func(task, name="task", keep_result=0)],
                redis_pool=self._pool,
                max_jobs=TASKS,
                poll_delay=POLL,
                log_results=False,
            ).async_run()

        self._runner.run(work())


def connect(url: str, _: str) -> Arq:
    """Return arq."""
    return Arq(url)
