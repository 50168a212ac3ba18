"""Where ``async def`` handlers run: as tasks of the event loop that all coroutines of a process share."""

import asyncio
import contextlib
import inspect
import math
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.executors import NOT_STARTED, Dispatch, Executor, error_of_handler
from distq.workqueue import current
from distq.workqueue.interface import Request, is_cancelled


class LoopExecutor(Executor):
    """A slot is a task, made when a request gets its turn."""

    def __init__(self, event_loop: EventLoop, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._event_loop = event_loop

    def start(self, dispatch: Dispatch) -> None:
        """Use the loop, which starts with its first user; dispatch in a thread of its own."""
        self._backlog: deque[Request] = deque()
        self._running: dict[int, tuple[Request, asyncio.Task[Any]]] = {}
        self._free, self._is_filling = self._concurrency, False
        self._loop = self._event_loop.enter()
        threading.Thread(target=dispatch, name=f"{self._name}-dispatcher", daemon=True).start()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue the requests for the loop and wake it once."""
        self._backlog.extend(requests)
        self._loop.call_soon_threadsafe(self._fill)

    def pending(self) -> int:
        """Return how many requests wait for a task."""
        return len(self._backlog)

    def cancel_pending(self) -> list[Request]:
        """Return the requests that have no task yet."""
        taken = []
        try:
            while True:  # one by one, because the loop takes requests meanwhile
                taken.append(self._backlog.popleft())
        except IndexError:
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

    def _fill(self) -> None:
        """Give requests to free slots."""
        if self._is_filling:  # an eager task begins, and may end, within create_task: no recursion
            return
        self._is_filling = True
        try:
            while self._free:
                request = self._backlog.popleft()
                self._free -= 1
                self._loop.create_task(self._handle(request))
        except IndexError:
            pass
        finally:
            self._is_filling = False

    async def _handle(self, request: Request) -> None:
        task, place = asyncio.current_task(self._loop), id(request)
        assert task is not None  # noqa: S101  # the one that runs this
        # not at create_task: a task cancelled before its first step would never report
        self._running[place] = request, task
        current.enter((self._name, request))  # a task has a context of its own
        started, timed_out = self._now(), False
        limit: asyncio.Timeout | None = None
        result: object = NOT_STARTED
        try:
            if not is_cancelled(request, started):
                if self._spans is not None:
                    self._spans.begin(request)
                result = self._reconcile(request)  # its decorator may answer without a coroutine
                if inspect.isawaitable(result):
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
        self._free += 1
        ended = self._now()
        self._finish(request, result, ended - started, now=ended, timed_out=timed_out)
        if self._backlog:
            self._fill()

    def _cancel(self, request: Request) -> None:
        if (running := self._running.get(id(request))) is not None:
            running[1].cancel()

    def _cancel_running(self) -> None:
        for request, task in list(self._running.values()):
            request.cancelled.set()
            task.cancel()
