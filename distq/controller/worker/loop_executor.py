"""Where ``async def`` handlers run: in tasks of the event loop that all coroutines of a process share."""

import asyncio
import contextlib
import inspect
import math
import threading
from collections import deque
from collections.abc import Sequence
from contextvars import Context, copy_context
from sys import getrefcount
from types import CoroutineType
from typing import Any

from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.executors import NOT_STARTED, Dispatch, Executor, error_of_handler
from distq.workqueue import current
from distq.workqueue.request import Request, is_cancelled

LONGEST_ROUND = 0.005
"""Seconds for which handlers that do not wait follow one another before the loop does other work."""


class LoopExecutor(Executor):
    """A slot is a task, which reconciles one request after another, as client-go's workers do.

    To make a task for each would cost more than a handler that does little. A task ends early if a handler
    left a trace in it that the next one would see: a context variable, a callback, or a cancellation that is
    still to come. Each has a task of its own if the program set a task factory, which may prepare tasks.

    In a *round* of the loop each task makes one step.
    """

    def __init__(self, event_loop: EventLoop, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._event_loop = event_loop

    def start(self, dispatch: Dispatch) -> None:
        """Use the loop, which starts with its first user; dispatch in a thread of its own."""
        self._backlog: deque[Request] = deque()
        self._running: dict[int, tuple[Request, asyncio.Task[Any]]] = {}
        self._free = self._concurrency
        self._in_round, self._round_ends = False, 0.0
        self._shares_tasks = False
        """Whether a task may have several requests: no task factory is to see each."""
        self._context = Context()
        """The one in which tasks begin: without the variables of any handler."""
        self._loop = self._event_loop.enter()
        threading.Thread(target=dispatch, name=f"{self._name}-dispatcher", daemon=True).start()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue the requests for the loop and wake it once."""
        self._backlog.extend(requests)
        # if its handler waits, all slots are filled
        self._loop.call_soon_threadsafe(self._fill, 1, context=self._context)

    def pending(self) -> int:
        """Return how many requests wait for a task."""
        return len(self._backlog)

    def cancel_pending(self) -> list[Request]:
        """Return the requests that have no task yet."""
        taken = []
        while (request := self._next()) is not None:  # one by one: the loop takes requests meanwhile
            taken.append(request)
        return taken

    def cancel(self, request: Request) -> None:
        """Cancel the request's task."""
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._cancel, request)

    def cancel_all(self) -> None:
        """Set ``cancelled`` of every running request and cancel its task."""
        self._stopping = True
        self._loop.call_soon_threadsafe(self._cancel_running)

    def close(self) -> None:
        """Leave the loop; tasks that swallow their cancellation are left behind."""
        self._event_loop.leave()

    def _next(self) -> Request | None:
        try:
            return self._backlog.popleft()
        except IndexError:
            return None

    def _fill(self, tasks: int) -> None:
        """Start so many tasks at most, if there are requests and free slots for them."""
        for _ in range(min(tasks, self._free, len(self._backlog))):
            self._free -= 1
            self._loop.create_task(self._work())

    def _begin_round(self) -> None:
        """Fill all slots in the next round, if handlers wait by then or take too long."""
        self._in_round, self._round_ends = True, self._now() + LONGEST_ROUND
        self._shares_tasks = self._loop.get_task_factory() is None
        self._loop.call_soon(self._end_round, context=self._context)

    def _end_round(self) -> None:
        self._in_round = False
        self._fill(self._free)

    async def _work(self) -> None:
        """Reconcile requests until none is left, or a handler left a trace in this task."""
        task, may_go_on = asyncio.current_task(self._loop), True
        assert task is not None  # noqa: S101  # the one that runs this
        references = getrefcount(task)  # one more: a handler left the task to something that may cancel it
        try:
            while may_go_on and (request := self._next()) is not None:
                if self._backlog and not self._in_round:
                    self._begin_round()
                may_go_on = await self._handle(request, task) and getrefcount(task) == references
        finally:
            self._free += 1
            if self._backlog and not self._in_round:
                self._begin_round()

    async def _handle(self, request: Request, task: Any) -> bool:
        """Reconcile a request; return whether the task may have another one, if nothing refers to it now."""
        place = id(request)
        self._running[place] = request, task
        current.enter((self._name, request))
        context = copy_context()
        started, timed_out = self._now(), False
        limit: asyncio.Timeout | None = None
        result: object = NOT_STARTED
        try:
            if not is_cancelled(request, started):
                if self._spans is not None:
                    self._spans.begin(request)
                result = self._reconcile(request)  # its decorator may answer without a coroutine
                if result.__class__ is CoroutineType or inspect.isawaitable(result):
                    if self._timeout == math.inf:
                        result = await result
                    else:
                        async with asyncio.timeout(self._timeout) as limit:
                            result = await result
        except BaseException as error:  # noqa: BLE001 - outcome_of decides
            result = error_of_handler(error)
        if limit is not None and not request.cancelled.is_set() and limit.expired():
            timed_out = True
            request.cancelled.set()
        del self._running[place]
        ended = self._now()
        self._finish(request, result, ended - started, now=ended, timed_out=timed_out)
        if self._in_round and ended >= self._round_ends:
            await asyncio.sleep(0)
        if not self._shares_tasks:
            return False
        # before Python 3.13 ``uncancel`` does not take back a cancellation of the next wait
        is_marked = task.cancelling() or task._must_cancel or task._callbacks  # noqa: SLF001
        return not is_marked and copy_context() == context

    def _cancel(self, request: Request) -> None:
        if (running := self._running.get(id(request))) is not None:
            running[1].cancel()

    def _cancel_running(self) -> None:
        for request, task in list(self._running.values()):
            request.cancelled.set()
            task.cancel()
