"""What a controller of the emulated cluster has yet to attend to."""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from distq.testing.apiserver.status import StatusError

_log = logging.getLogger(__name__)
Task = TypeVar("Task")


class Backlog(Generic[Task]):
    """Tasks in the order in which they came, each once, for a function that attends to them one by one."""

    def __init__(self, attend: Callable[[Task], None]) -> None:
        self._attend = attend
        self._tasks: dict[Task, None] = {}
        self._wake = asyncio.Event()

    def add(self, *tasks: Task) -> None:
        """Have the tasks attended to, soon after and in the background."""
        self._tasks.update(dict.fromkeys(tasks))
        self._wake.set()

    async def run(self) -> None:
        """Attend for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._tasks:
                task = next(iter(self._tasks))
                del self._tasks[task]
                try:
                    self._attend(task)
                except StatusError as error:
                    _log.warning("The emulated API server refused its own controller: %s", error)
                await asyncio.sleep(0)
