"""taskiq on a stream of Redis, with 100 tasks at a time, fetched ahead, whose parameters are not parsed."""

import asyncio
from collections.abc import Iterable, Sequence

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.peers import QUEUE, Handle

TASKS = 100


class Taskiq:
    """A broker without results."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._broker = RedisStreamBroker(url, queue_name=QUEUE)
        self._handle: Handle | None = None

        async def task(key: str) -> None:
            assert self._handle is not None
            self._handle(key)

        self._task = self._broker.task(task_name="task")(task)
        self._runner.run(self._broker.startup())  # makes the group of consumers

    def add_each(self, keys: Iterable[str]) -> None:
        """Kick one after another."""

        async def add() -> None:
            for key in keys:
                await self._task.kiq(key)

        self._runner.run(add())

    def add_many(self, keys: Sequence[str]) -> None:
        """Kick 100 at a time: it has nothing else for many."""

        async def add() -> None:
            for start in range(0, len(keys), TASKS):
                await asyncio.gather(*map(self._task.kiq, keys[start : start + TASKS]))

        self._runner.run(add())

    def work(self, handle: Handle) -> None:
        """Run a receiver."""
        self._handle = handle
        self._runner.run(
            run_receiver_task(
                self._broker,
                validate_params=False,
                max_async_tasks=TASKS,
                max_prefetch=TASKS,
            )
        )


def connect(url: str, _: str) -> Taskiq:
    """Return taskiq."""
    return Taskiq(url)
