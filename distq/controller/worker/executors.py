"""Where handlers run: the interface of all executors, and the threads for plain functions.

Requests come in batches and wait here for a free slot; one callback receives the outcome of each. There is no
future and no lock per item, so that a handler which does next to nothing still runs at the speed of batches.

The thread that dispatches is one of the executor's. Where slots are free it hands that over to another, and
runs the first request of a turn itself: so an item that comes to an idle worker waits for no second thread.
"""

import asyncio
import enum
import inspect
import logging
import math
import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, cast

from distq.clock import Clock
from distq.controller.controller import Reconcile
from distq.controller.worker.slot import Slot
from distq.controller.worker.worker_spans import WorkerSpans
from distq.errors import ConfigError
from distq.wording import a_type, duration
from distq.workqueue import current
from distq.workqueue.interface import SUCCESS, Outcome, Release, Retry, Settlement
from distq.workqueue.outcome import error_text, outcome_of, stack_text
from distq.workqueue.request import Request, is_cancelled

WARN_EVERY = 60.0
"""Seconds between warnings about a plain handler past its reconciliation timeout."""

NOT_STARTED = asyncio.CancelledError("not started")
"""In place of the result of a handler that did not begin."""
NOT_AWAITED = object()
"""In place of a coroutine that a handler returned."""

_logger = logging.getLogger("distq")


LOST = Release()
"""The outcome of a request whose claim ended while its handler ran: nothing of it may be settled."""

Dispatch = Callable[[], Request | None]
"""Makes turns until its thread has a request to run; returns None once all is over."""


class _Task(enum.Enum):
    """The tasks of a thread beside running handlers."""

    DISPATCH = enum.auto()


class Executor(ABC):
    """``concurrency`` slots for handlers, and the requests that wait for one (as ``concurrent.futures``).

    ``on_finished`` is called from the handler's thread; so is ``on_unusable``, with the error of a reconcile
    function that cannot be used at all.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        concurrency: int,
        *,
        timeout: float | None,
        max_hold: float | None = None,
        clock: Clock,
        on_finished: Callable[[Settlement], None],
        on_unusable: Callable[[ConfigError], None] = lambda _: None,
        spans: WorkerSpans | None = None,
    ) -> None:
        self._name = name
        self._reconcile = cast("Callable[[Request], Any]", reconcile)
        self._concurrency = concurrency
        self._timeout = math.inf if timeout is None else timeout
        self._max_hold = math.inf if max_hold is None else max_hold
        self._now = clock.monotonic
        self._on_finished = on_finished
        self._on_unusable = on_unusable
        self._spans = spans
        self._stopping = False

    @abstractmethod
    def start(self, dispatch: Dispatch) -> None:
        """Start the threads; one of them calls ``dispatch``."""

    hands_over = False
    """Whether several threads can dispatch, one at a time."""

    def hand_over(self, requests: Sequence[Request]) -> None:
        """Let another thread dispatch, and run these requests as ``submit`` does."""
        raise NotImplementedError

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Run the handler for each request as soon as a slot is free."""

    @abstractmethod
    def pending(self) -> int:
        """Return how many requests wait for a slot."""

    @abstractmethod
    def cancel_pending(self) -> list[Request]:
        """Return the requests that wait for a slot, which will not run."""

    @abstractmethod
    def cancel(self, request: Request) -> None:
        """Stop the handler of a request whose ``cancelled`` was set, as far as that is possible."""

    @abstractmethod
    def cancel_all(self) -> None:
        """Stop every running handler; their results are still settled."""

    def check_overdue(self) -> float:
        """Look after plain handlers past the timeout; return the seconds until the next check."""
        return math.inf

    def overdue(self) -> float:
        """Return for how many seconds plain handlers past the timeout have had every slot."""
        return 0.0

    def slots(self) -> int:
        """Return how many slots requests can have: not those of handlers whose requests were taken."""
        return self._concurrency

    @abstractmethod
    def close(self) -> None:
        """End the threads; handlers that do not stop are left behind."""

    def _finish(self, request: Request, result: object, took: float, *, now: float, timed_out: bool) -> None:
        """Make an outcome of the handler's result or error, and hand it on."""
        outcome: Outcome = SUCCESS
        is_over = is_cancelled(request, now)
        if result is not None or timed_out or is_over:
            outcome = self._decide(result, timed_out=timed_out, is_over=is_over)
        if self._spans is not None:
            self._spans.end(request, None if outcome is LOST else outcome)
        self._on_finished(Settlement(request, outcome, took))

    def _decide(self, result: object, *, timed_out: bool, is_over: bool) -> Outcome:
        if inspect.isawaitable(result):
            self._refuse(result)
            result = NOT_AWAITED
        if timed_out:
            timeout = TimeoutError(duration(self._timeout))
            timeout.__cause__ = result if isinstance(result, BaseException) else None
            return _outcome(timeout)
        if is_over and not self._stopping:
            return LOST
        # a handler that ended because distq stopped it is no failure of its item
        was_stopped = is_over and isinstance(result, asyncio.CancelledError | GeneratorExit)
        return Release() if result is NOT_AWAITED or was_stopped else _outcome(result)

    def _refuse(self, awaitable: object) -> None:
        """Report a handler that returned an awaitable instead of its result: it does so for each item."""
        if inspect.iscoroutine(awaitable):
            awaitable.close()  # it did not begin, and need not be warned of
        returned = f"its reconcile function returned {a_type(awaitable)}, which distq does not await"
        remedy = "Make it async def and await what it calls; decorators need functools.wraps."
        self._on_unusable(ConfigError(f"cannot run {self._name}: {returned}. {remedy}"))


def error_of_handler(error: BaseException) -> BaseException:
    """Return the error with a traceback that begins in the handler, instead of in the frame here."""
    trace = error.__traceback__
    return error.with_traceback(trace.tb_next or trace) if trace else error


def _outcome(result: Any) -> Outcome:
    """Return the outcome, also of an error that cannot be shown."""
    try:
        return outcome_of(result, interruptible=False)  # signals go to the main thread, to the manager
    except Exception:  # noqa: BLE001 - of the error's own class; it must not end the slot's thread
        return outcome_of(RuntimeError(f"{type(result).__name__}, which fails to describe itself"))


class ThreadExecutor(Executor):
    """A thread for each slot, and one that dispatches; idle threads wait on one queue of requests."""

    _slots: Sequence[Slot] = ()
    """None before the start, when a probe may look already."""

    def start(self, dispatch: Dispatch) -> None:
        """Start a thread for each slot, and one more to dispatch."""
        self._dispatch = dispatch
        self.hands_over = self._concurrency > 1  # a single slot keeps its thread
        self._backlog: queue.SimpleQueue[Request | _Task | None] = queue.SimpleQueue()
        self.pending = self._backlog.qsize  # type: ignore[method-assign]  # itself: each item asks for it
        self._slots = [Slot() for _ in range(self._concurrency + 1)]
        self._next_check = -math.inf
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"{self._name}-{number}", daemon=True)
            for number, slot in enumerate(self._slots, 1)
        ]
        for thread in self._threads:
            thread.start()
        self._backlog.put(_Task.DISPATCH)  # not before: if a thread cannot be started, nothing is claimed

    def hand_over(self, requests: Sequence[Request]) -> None:
        """Let an idle thread dispatch, and queue the requests for the others."""
        self._backlog.put(_Task.DISPATCH)
        self.submit(requests)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue the requests for the threads."""
        for request in requests:
            self._backlog.put(request)

    def pending(self) -> int:
        """Return how many requests wait for a thread."""
        return self._backlog.qsize()

    def cancel_pending(self) -> list[Request]:
        """Return the requests that no thread has taken."""
        taken = []
        try:
            while isinstance(request := self._backlog.get_nowait(), Request):
                taken.append(request)
        except queue.Empty:
            pass
        return taken

    def cancel(self, request: Request) -> None:
        """Do nothing: a plain handler has ``request.cancelled`` to ask."""

    def overdue(self) -> float:
        """Return for how many seconds handlers past the timeout have had every slot."""
        started = [slot.started for slot in self._slots if slot.request is not None]
        if len(started) < self._concurrency:
            return 0.0
        return max(0.0, self._now() - max(started) - self._timeout)

    def slots(self) -> int:
        """Return how many slots requests can have: not those of handlers whose requests were taken."""
        if self._max_hold == math.inf:
            return self._concurrency
        return self._concurrency - sum(slot.request is not None and slot.is_decided for slot in self._slots)

    def cancel_all(self) -> None:
        """Set ``cancelled`` of every running request."""
        self._stopping = True
        for slot in self._slots:
            if (request := slot.request) is not None:
                request.cancelled.set()

    def check_overdue(self) -> float:
        """Ask handlers past the timeout to stop; take their requests from those past ``max_hold``."""
        now = self._now()
        if now >= self._next_check:
            looks = [self._look_after(slot, now) for slot in self._slots]
            # with the limits: so a slot that begins until then is looked at in time, too
            self._next_check = now + min(self._timeout, self._max_hold, *looks)
        return self._next_check - now

    def _look_after(self, slot: Slot, now: float) -> float:
        """Return the seconds until the next check of this slot."""
        timeout, max_hold = self._timeout, self._max_hold
        request, age = slot.request, now - slot.started
        if request is None or slot.is_decided:
            return min(timeout, max_hold)
        if age >= max_hold:
            if slot.decide(request):
                self._give_up(request, slot, age)
            return min(timeout, max_hold)
        if age < timeout:
            return min(timeout, max_hold) - age
        if now - slot.warned >= WARN_EVERY:
            if not slot.cancel(request, now):
                return min(timeout, max_hold)
            self._warn(request, age)
        return min(slot.warned + WARN_EVERY - now, max_hold - age)

    def _warn(self, request: Request, age: float) -> None:
        _logger.warning(
            "%s %s still runs after %s, past its timeout of %s; it keeps its claim and slot",
            self._name,
            request.key,
            duration(age),
            duration(self._timeout),
        )

    def _give_up(self, request: Request, slot: Slot, age: float) -> None:
        """Let the request fail, with where its handler is; the handler keeps the slot until it returns."""
        request.cancelled.set()
        timeout = TimeoutError(f"still runs after {duration(age)}, past max_hold: its claim ended")
        outcome = Retry(error_text(timeout), stack_text(slot.stack(below=__file__)), cause=timeout)
        _logger.warning(
            "%s %s %s; it keeps its slot\n%s", self._name, request.key, timeout, outcome.traceback
        )
        self._on_finished(Settlement(request, outcome, age))

    def close(self) -> None:
        """Let the threads end; those still in a handler end after it."""
        for _ in self._threads:
            self._backlog.put(None)
        for thread, slot in zip(self._threads, self._slots, strict=True):
            # this thread is one of them, the one that dispatches
            if slot.request is None and thread is not threading.current_thread():
                thread.join()

    def _work(self, slot: Slot) -> None:
        """Reconcile requests. A quick handler's items pay for each step here, so their path has few."""
        slot.thread, forks = threading.get_ident(), _forks.count
        reconcile, now, spans = self._reconcile, self._now, self._spans
        enter, is_watched = current.enter, min(self._timeout, self._max_hold) < math.inf
        dispatches = _Task.DISPATCH  # read once: in Python 3.11 that takes longer than a quick handler
        while (request := self._backlog.get()) is not None:
            # in a context without the variables that handlers set in the thread's
            if request is dispatches and (request := Context().run(self._dispatch)) is None:
                return
            started = now()
            if is_watched:  # else no check takes a request, and an item needs no lock
                slot.begin(request, started)
            else:
                slot.request = request
            result: object = NOT_STARTED
            if not is_cancelled(request, started):
                enter((self._name, request))
                if spans is not None:
                    spans.begin(request)
                try:
                    result = reconcile(request)
                except BaseException as error:  # noqa: BLE001 - outcome_of decides
                    result = error_of_handler(error)
            if _forks.count != forks:
                return  # the child of a fork in the handler: the requests are its parent's
            # before the clock is read: a check cancels nothing that ended in time
            if is_watched:
                decides = slot.end()
            else:
                decides, slot.request = True, None
            ended = now()
            took = ended - started
            if decides:
                self._finish(request, result, took, now=ended, timed_out=took >= self._timeout)
            else:
                self._returned_late(request, took)
            result = None  # an error's traceback must not outlive its item

    def _returned_late(self, request: Request, took: float) -> None:
        """Report a handler past ``max_hold`` that returned: its request was taken from it."""
        if self._spans is not None:
            self._spans.end(request, None)
        after = duration(took)
        _logger.warning("%s %s returned after %s; its slot is free", self._name, request.key, after)


class _Forks:
    """How often this process is a child of itself."""

    count = 0

    def note(self) -> None:
        self.count += 1


_forks = _Forks()
os.register_at_fork(after_in_child=_forks.note)
