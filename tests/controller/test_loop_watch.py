"""A call that holds the event loop is logged with its place, once; other work is not."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import distq
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.worker import loop_watch
from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.loop_watch import LoopWatch
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.request import Request
from tests.controller.test_manager import managing
from tests.support.eventually import eventually

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def running() -> Iterator[Run]:
    """Run coroutines on a loop of distq."""
    with EventLoop() as loop:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)


def held(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about places that hold the loop."""
    return [record.getMessage() for record in caplog.records if "holds the event loop" in record.getMessage()]


def test_the_place_that_holds_the_loop_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The line of the program's own code with the call, although the call is made several times."""

    def read() -> None:
        time.sleep(0.3)

    async def reconcile() -> None:
        for _ in range(3):
            read()
            await asyncio.sleep(0)

    with running() as run:
        run(reconcile())
        run(reconcile())
    (message,) = held(caplog)
    assert message.startswith(f"{__file__}:")
    assert "read) holds the event loop for more than 100 ms: " in message
    assert "asyncio.to_thread" in message


def test_a_program_beside_distq_is_no_part_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """Its own line is logged, also where its path begins as distq's does."""
    beside = f"{Path(distq.__file__).parent}_foos.py"

    async def reconcile() -> None:
        threading.Event().wait(0.5)

    reconcile.__code__ = reconcile.__code__.replace(co_filename=beside)
    with running() as run:
        run(reconcile())
    (message,) = held(caplog)
    assert message.startswith(f"{beside}:")


def test_a_call_of_a_library_is_logged_with_the_line_that_makes_it(caplog: pytest.LogCaptureFixture) -> None:
    """And with the line of the library in which it waits."""

    async def reconcile() -> None:
        threading.Event().wait(0.5)

    with running() as run:
        run(reconcile())
    (message,) = held(caplog)
    assert message.startswith(f"{__file__}:")
    assert "reconcile)" in message
    assert "threading.py:" in message


def test_many_short_calls_hold_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A loop that is busy for long, in one round or in many, is no loop that one call holds."""

    def work() -> None:
        time.sleep(0.004)

    async def short() -> None:
        work()

    async def busy() -> None:
        await asyncio.gather(*[short() for _ in range(100)])
        for _ in range(100):
            await asyncio.sleep(0)
            work()

    with running() as run:
        run(busy())
    assert held(caplog) == []


def test_an_idle_loop_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look from outside is enough: no call is made on it."""
    looks, woken = threading.Semaphore(0), list[str]()
    call = LoopWatch._call

    def look(watch: LoopWatch) -> Any:
        frames = call(watch)
        looks.release()
        return frames

    monkeypatch.setattr(LoopWatch, "_call", look)
    monkeypatch.setattr(LoopWatch, "_goes_on", lambda _: bool(woken.append("woken")))  # type: ignore[func-returns-value]
    with running() as run:
        run(asyncio.sleep(0))
        woken.clear()
        for _ in range(5):
            assert looks.acquire(timeout=20)
    assert len(woken) <= 1, "the first look may find the end of the coroutine"


def test_a_process_that_was_frozen_has_no_such_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its threads go on one by one; the wait took longer than any loop was looked at."""
    monkeypatch.setattr(loop_watch, "LATE", -1.0)

    async def reconcile() -> None:
        threading.Event().wait(0.5)

    with running() as run:
        run(reconcile())
    assert held(caplog) == []


def test_the_reconciles_of_a_manager_are_watched(caplog: pytest.LogCaptureFixture) -> None:
    """The place is in the log under the name distq, as a warning; the watch ends with the Manager."""

    async def reconcile(request: Request) -> None:
        threading.Event().wait(0.5)

    queue = MemoryQueue("foos")
    queue.add("a")
    with managing(Manager([Controller(queue, reconcile)], settings=Settings())):
        eventually(lambda: held(caplog))
    (record,) = [record for record in caplog.records if "holds the event loop" in record.getMessage()]
    assert (record.name, record.levelno) == ("distq", logging.WARNING)
    eventually(lambda: not any(thread.name == "distq-loop-watch" for thread in threading.enumerate()))
