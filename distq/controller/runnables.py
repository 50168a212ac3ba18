"""Functions that a Manager runs beside its controllers (controller-runtime ``manager.Runnable``).

Each runs in a thread of its own, an ``async def`` on the event loop of reconciles. controller-runtime ends
the process if one fails. Here it is called again: data that one cannot read would end each leader in turn.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from distq.controller.functions import as_coroutine, is_async, name_of
from distq.controller.worker.event_loop import EventLoop
from distq.wording import duration

FIRST_PAUSE = 1.0
"""Seconds until a runnable that failed is called again; twice as long after each further failure."""

LONGEST_PAUSE = 300.0
"""Seconds until it is called again at most. One that ran for so long begins again with the first pause."""

Runnable = Callable[[threading.Event], object] | Callable[[], Coroutine[Any, Any, object]]
"""A plain function, which receives the Event that is set when it has to end; or an ``async def`` without
arguments, which is cancelled then."""

_logger = logging.getLogger("distq")


class Runnables:
    """The runnables that begin and end together: those of each process, or those of the leader alone.

    Safe for threads.
    """

    def __init__(self, event_loop: EventLoop) -> None:
        self._event_loop = event_loop
        self._lock = threading.Lock()
        self._runnables: list[Runnable] = []
        self._runs: list[_Run] = []
        self._is_begun = False

    def __len__(self) -> int:
        return len(self._runnables)

    def add(self, runnable: Runnable) -> None:
        """Add one; it begins at once if the others have begun."""
        with self._lock:
            self._runnables.append(runnable)
            if self._is_begun:
                self._runs.append(_Run(runnable, self._event_loop))

    def begin(self) -> None:
        """Begin all of them, in threads of their own."""
        with self._lock:
            self._is_begun, self._runs = True, []
            for runnable in self._runnables:  # one by one: those before one without a thread must end, too
                self._runs.append(_Run(runnable, self._event_loop))

    def end(self) -> None:
        """Let all of them end; return at once."""
        with self._lock:
            self._is_begun = False
            runs = list(self._runs)
        for run in runs:
            run.stop()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for their ends, ``seconds`` at most; return whether all have ended."""
        until = None if seconds is None else time.monotonic() + seconds
        for run in list(self._runs):
            run.thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return self.has_ended()

    @property
    def running(self) -> list[str]:
        """Return the names of those that have not ended."""
        return [run.name for run in list(self._runs) if run.thread.is_alive()]

    def has_ended(self) -> bool:
        """Return whether none runs."""
        return not self.running

    def left_behind(self) -> str:
        """Return the names of those that run on, or nothing."""
        names = self.running
        verb = "runs" if len(names) == 1 else "run"
        return f"{', '.join(names)} {verb} on" if names else ""


class _Run:
    """A runnable from the begin of its group to its end; it is called again after an error."""

    def __init__(self, runnable: Runnable, event_loop: EventLoop) -> None:
        self.name = name_of(runnable)
        self._runnable: Callable[..., object] = runnable
        self._arguments = [] if is_async(runnable) else [threading.Event()]
        self._event_loop = event_loop
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._task: asyncio.Task[object] | None = None
        self._pause = FIRST_PAUSE
        self.thread = threading.Thread(target=self._run, name=f"distq-runnable-{self.name}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Let it end: set its Event, or cancel its task."""
        with self._lock:
            if self._stopping.is_set():  # a second cancellation would end its cleaning up
                return
            self._stopping.set()
        for stop in self._arguments:
            stop.set()
        if (task := self._task) is not None:
            with suppress(RuntimeError):  # its loop was closed
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._call()
            except BaseException as error:  # noqa: BLE001 - it is logged
                if time.monotonic() - began >= LONGEST_PAUSE:
                    self._pause = FIRST_PAUSE
                self._failed(error)
            else:
                return

    def _call(self) -> None:
        answer = self._runnable(*self._arguments)
        if not inspect.isawaitable(answer):
            return
        with self._event_loop as loop:
            task = asyncio.run_coroutine_threadsafe(self._until_its_end(answer), loop).result()
        if not (task.cancelled() and self._stopping.is_set()):
            task.result()

    async def _until_its_end(self, answer: Awaitable[object]) -> "asyncio.Task[object]":
        """Run it as a task, and return that when it has ended, even if it takes time to be cancelled."""
        self._task = task = asyncio.ensure_future(as_coroutine(answer))
        if self._stopping.is_set():  # perhaps before there was a task to cancel
            task.cancel()
        await asyncio.wait([task])
        self._task = None
        return task

    def _failed(self, error: BaseException) -> None:
        if self._stopping.is_set():
            _logger.error("%s failed at its end", self.name, exc_info=error)
            return
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        _logger.error("%s failed; it begins again in %s", self.name, duration(pause), exc_info=error)
        self._stopping.wait(pause)
