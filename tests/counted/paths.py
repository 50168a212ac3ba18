"""The paths of an item, walked in one thread, so that a run counts what the run before it counted."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from distq.controller.controller import Controller, Reconcile
from distq.controller.worker.dispatcher import Dispatcher
from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.executors import ThreadExecutor
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request

ITEMS = 5000


def keys(count: int = ITEMS) -> list[str]:
    """Return keys as objects have them."""
    return [f"namespace-{number % 50}/object-{number:06}" for number in range(count)]


class Calls:
    """Counts the calls of functions, of Python's and of C, that this thread makes."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is called within the block."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, _: FrameType, event: str, __: Any) -> None:
        if event in {"call", "c_call"}:
            self.count += 1


def apart(work: Callable[[], None]) -> None:
    """Do it in a thread: the main one lets a helper make its calls, which is not counted with it."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


class DispatcherInStep(Dispatcher):
    """A dispatcher whose handlers run in the thread of its turns, when it would wait for results."""

    def settle_all(self, queue: Queue) -> None:
        """Make turns until nothing is left."""
        self._step()
        while self._in_hand or self._finished:
            self._step()
        queue.close()


class ThreadDispatcherInStep(DispatcherInStep):
    """One with a single slot."""

    def drain(self, queue: Queue) -> None:
        """Reconcile all that waits."""
        self._executor.start(lambda: None)
        slot = self._executor._slots[0]  # type: ignore[attr-defined]
        self._executor._backlog.put(None)  # type: ignore[attr-defined]  # ends the slot's thread
        for thread in self._executor._threads:  # type: ignore[attr-defined]
            thread.join()
        self._slot = slot
        self.settle_all(queue)

    def _wait(self, wait: float | None) -> None:
        del wait
        executor = self._executor
        assert isinstance(executor, ThreadExecutor)
        executor._backlog.put(None)
        executor._work(self._slot)


class LoopInStep(EventLoop):
    """An event loop without a thread of its own."""

    def enter(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs when it is asked to."""
        self._loop = asyncio.new_event_loop()
        return self._loop

    def leave(self) -> None:
        """Close the loop."""
        self._loop.close()

    def run_once(self) -> None:
        """Run what is ready."""
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()


class LoopDispatcherInStep(DispatcherInStep):
    """One with an event loop."""

    def drain(self, queue: Queue, loop: LoopInStep) -> None:
        """Reconcile all that waits."""
        self._executor.start(lambda: None)
        self._in_step = loop
        self.settle_all(queue)
        loop.leave()

    def _wait(self, wait: float | None) -> None:
        del wait
        self._in_step.run_once()


def drain(queue: Queue) -> None:
    """Let one slot reconcile all items of a queue, with a function that does nothing."""

    def reconcile(request: Request) -> None:
        del request

    ThreadDispatcherInStep(Controller(queue, reconcile), concurrency=1).drain(queue)


def drain_async(queue: Queue) -> None:
    """Let a hundred tasks reconcile all items of a queue, with an ``async def`` that does nothing."""

    async def reconcile(request: Request) -> None:
        del request

    _drain_on_loop(queue, reconcile)


def drain_waiting(queue: Queue) -> None:
    """Do the same with one that waits once."""

    async def reconcile(request: Request) -> None:
        del request
        await asyncio.sleep(0)

    _drain_on_loop(queue, reconcile)


def _drain_on_loop(queue: Queue, reconcile: Reconcile) -> None:
    loop = LoopInStep()
    LoopDispatcherInStep(Controller(queue, reconcile), concurrency=100, event_loop=loop).drain(queue, loop)


def loop(queue: Queue) -> None:
    """Settle all items of a queue in a loop of one's own."""
    left = queue.depth()
    for request in queue.listen():
        queue.settle(request)
        left -= 1
        if not left:
            break
    queue.close()


def add_singly(queue: Queue) -> None:
    """Add keys one by one."""
    for key in keys():
        queue.add(key)


def add_together(queue: Queue) -> None:
    """Add keys by one call."""
    queue.add(*keys())


def commands_of(connection: Connection) -> int:
    """Return how many commands the server ran so far, those of scripts among them."""
    lines = connection.execute("INFO", "commandstats").decode().splitlines()
    calls = {line.partition(":")[0]: int(line.partition("calls=")[2].partition(",")[0]) for line in lines[1:]}
    return sum(count for name, count in calls.items() if name.startswith("cmdstat_"))


def scripts_of(connection: Connection) -> int:
    """Return how many scripts the server ran so far."""
    found = connection.execute("INFO", "commandstats").decode().partition("cmdstat_evalsha:calls=")[2]
    return int(found.partition(",")[0] or 0)
