"""Moves work between a controller's queue and its handlers.

It makes *turns*: one step settles the finished items and claims the next ones. It never claims more than
there are free slots, save for handlers so quick that the surplus starts within milliseconds; items that do
not are released again. It waits until an outage of Redis is over, and keeps the settlements.
"""

import functools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from distq.controller.controller import Controller
from distq.controller.functions import is_async
from distq.controller.worker.claim_pace import CLAIM_AHEAD, QUICK, ClaimPace
from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.executors import LOST, Executor, ThreadExecutor
from distq.controller.worker.loop_executor import LoopExecutor
from distq.controller.worker.patient_turns import PatientTurns
from distq.controller.worker.reconcile_recorder import ReconcileRecorder
from distq.controller.worker.worker_spans import WorkerSpans
from distq.errors import ConfigError, LayoutTooNew, NoSlotLeft, RedisError
from distq.metrics import ACTIVE_WORKERS, MAX_CONCURRENT, MetricsProvider, Sample
from distq.redisio.limits import TURN_LIMIT
from distq.spans import SpanProvider
from distq.wording import counted, duration
from distq.workqueue.interface import Release, Settlement
from distq.workqueue.request import Request

CANCEL_TIME = 1.0
"""Seconds that cancelled async handlers get to clean up once the grace period is over."""

SOON = 0.001
"""Seconds that quick handlers get for a result before Redis is waited for: to end a wait there costs more."""

UNHEEDED = 10.0
"""Seconds past the timeout, when they are asked to stop, until reconciles that have all slots are a reason to
start the process again."""

_logger = logging.getLogger("distq")


class Dispatcher:
    """Runs one controller's handlers on the items of its queue.

    ``on_failure`` receives errors that end the process: a layout that is too new, a broken queue, or a
    reconcile function that cannot be used. ``on_settled`` receives, with the queue's name, each settlement
    that is no success. ``event_loop`` is for an ``async def``, shared or one of its own.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        concurrency: int | None = None,
        fleet_concurrency: int | None = None,
        fleet_concurrency_per_flow: int | None = None,
        metrics: MetricsProvider | None = None,
        spans: SpanProvider | None = None,
        event_loop: EventLoop | None = None,
        on_failure: Callable[[BaseException], None] = lambda _: None,
        on_settled: Callable[[str, Settlement], None] = lambda *_: None,
    ) -> None:
        self._name = controller.name
        self._queue = controller.queue
        self._concurrency = concurrency or controller.concurrency
        self._fleet_concurrency = fleet_concurrency or controller.fleet_concurrency
        per_flow = fleet_concurrency_per_flow or controller.fleet_concurrency_per_flow
        self._queue.fleet_concurrency_per_flow = per_flow
        self._on_failure = on_failure
        self._recorder: ReconcileRecorder | None = None
        if metrics is not None:
            self._recorder = ReconcileRecorder(metrics, self._name, controller.reconciliation_timeout)
        worker_spans = None
        if spans is not None:
            worker_spans = WorkerSpans(spans, self._name)
            self._queue.set_span_provider(spans)
        kind: Callable[..., Executor] = ThreadExecutor
        if is_async(controller.reconcile):
            if controller.max_hold is not None:
                raise ConfigError(
                    f"bad max_hold of {self._name}: its reconcile is async def. Use reconciliation_timeout."
                )
            kind = functools.partial(LoopExecutor, event_loop or EventLoop())
        self._executor = kind(
            self._name,
            controller.reconcile,
            self._concurrency,
            timeout=controller.reconciliation_timeout,
            max_hold=controller.max_hold,
            clock=self._queue.clock,
            on_finished=self._on_finished,
            on_unusable=self._end,
            spans=worker_spans,
        )
        self._finished: deque[Settlement] = deque()
        self._in_hand = 0
        # items claimed ahead count for the fleet
        is_limited = self._fleet_concurrency is not None or per_flow is not None
        self._pace = ClaimPace(self._concurrency, claims_ahead=not is_limited)
        self._changed = threading.Event()
        self._waiting_for: Literal["", "results", "work"] = ""
        self._enough = 0
        """How many requests may wait for slots when the next turn is made: so handlers go on meanwhile."""
        self._busy_since = math.inf
        """Since when its thread goes on without a wait; never, while it waits."""
        self._swap = threading.Lock()
        self._stopping = threading.Event()
        self._turns = PatientTurns(
            self._name,
            self._queue,
            stopping=self._stopping,
            recorder=self._recorder,
            spans=worker_spans,
            on_claims=self._enqueue,
            on_settled=on_settled,
        )
        self._all_settled = self._gave_up = False
        self._thread: threading.Thread | None = None
        """The thread that dispatches; the executor has one more than slots, and they take turns at it."""
        self._has_started = False
        self._ended = threading.Event()
        self._left_to_wait: float | None = None
        """The ``wait`` of the thread that dispatched before: see ``_wait``."""

    @property
    def in_progress(self) -> int:
        """Return how many claimed requests have not been settled."""
        return self._in_hand + self._turns.spare + self._turns.settling

    @property
    def has_claimed(self) -> bool:
        """Return whether it ever claimed anything."""
        return self._pace.submitted > 0

    def gauges(self) -> list[Sample]:
        """Return how many handlers may run, and how many do."""
        busy = 0
        if not self.has_ended():
            busy = self._in_hand - self._executor.pending() - len(self._finished)
        labels = (self._name,)
        return [
            (MAX_CONCURRENT, labels, self._concurrency),
            # bounded, because the three numbers are of three moments
            (ACTIVE_WORKERS, labels, min(max(0, busy), self._concurrency)),
        ]

    def problem(self) -> str:
        """Return why this dispatcher does not work although it should, or nothing."""
        if self._stopping.is_set() or self._thread is None:
            return ""
        if not self._thread.is_alive():
            return f"{self._name}: its dispatcher ended"
        if not self._queue.is_kept_alive():
            return f"{self._name}: its heartbeat ended"
        return self._hung() if self._executor.overdue() > UNHEEDED else ""

    def standstills(self) -> Iterator[tuple[str, float]]:
        """Yield for how many seconds its thread has not gone on, while it neither waited nor asked Redis."""
        if not (self.has_ended() or self._stopping.is_set()):
            went_on_at = max(self._busy_since, self._turns.tried_at)
            yield f"{self._name}: its dispatcher", time.monotonic() - went_on_at

    def unready(self) -> str:
        """Return why no item can be reconciled now, or nothing."""
        return self._hung() if self._executor.overdue() > 0 and not self._stopping.is_set() else ""

    def _hung(self) -> str:
        slots = counted(self._concurrency, "slot")
        return f"{self._name}: reconciles past their timeout have all of its {slots}"

    def start(self) -> None:
        """Start claiming; the queue must be bound to a connection."""
        self._queue.on_cancel = self._executor.cancel
        self._queue.fleet_concurrency = self._fleet_concurrency
        self._executor.start(self._dispatch)
        self._has_started = True

    def shut_down(self, grace: float) -> None:
        """Stop claiming at once and give running handlers ``grace`` seconds; return at once.

        A second call can only shorten the grace period.
        """
        # first: the dispatcher goes by it as soon as it is stopping
        self._turns.deadline = min(self._turns.deadline, time.monotonic() + grace)
        self._stopping.set()
        self._changed.set()
        self._queue.announce_stop()  # a kill at the end of the grace period is no crash of its items
        self._queue.interrupt()

    def cancel(self) -> None:
        """Cancel running handlers, from any thread; the dispatcher does it, too, if Redis answers it."""
        with suppress(RuntimeError):  # its event loop was closed
            self._executor.cancel_all()

    def has_ended(self) -> bool:
        """Return whether the shutdown is over, or it was never started."""
        return self._ended.is_set() or not self._has_started

    def left_behind(self) -> str:
        """Return the items that were neither settled nor released, for a message, or nothing."""
        if self._all_settled:
            return ""
        after = f"comes back after {duration(self._queue.claim_duration)}"
        running = f" ({counted(self.in_progress, 'item')} in progress)" if self.in_progress else ""
        return f"what {self._name} had claimed{running} {after}"

    def _end(self, error: BaseException) -> None:
        """Stop claiming, and report why; from a handler's thread, and once."""
        with self._swap:
            ended = self._stopping.is_set()
            self.shut_down(math.inf)
        if not ended:
            self._on_failure(error)

    # --- the thread that dispatches ---

    def _dispatch(self) -> Request | None:
        """Make turns until this thread has a request to run, while another one goes on; None at the end."""
        self._thread, self._busy_since = threading.current_thread(), time.monotonic()
        phases: Sequence[Callable[[], Request | None]] = self._claim_and_settle, self._drain
        own = None
        try:
            for phase in phases:
                try:
                    own = phase()
                except Exception as error:  # noqa: BLE001 - the manager raises it
                    self._fail(error)
                if own is not None:
                    return own
        finally:
            if own is None:  # else another thread dispatches by now
                self._ended.set()
        return None

    def _claim_and_settle(self) -> Request | None:
        if self._in_hand:
            self._wait(self._left_to_wait)
        while not self._stopping.is_set():
            if self._queue.shutting_down:
                _logger.info("%s: its queue was shut down", self._name)
                self._stopping.set()
            elif own := self._step():
                return own
        return None

    def _fail(self, error: Exception) -> None:
        self._gave_up = isinstance(error, RedisError)
        if isinstance(error, RedisError) and not isinstance(error, LayoutTooNew):
            _logger.warning("%s: Redis is still away; what was claimed comes back by itself", self._name)
        else:
            self._on_failure(error)

    def _step(self) -> Request | None:
        """Make a turn, and return a request that this thread runs itself; else wait for more to do."""
        self._busy_since = time.monotonic()
        settlements = self._collect() if self._finished else []
        if self._in_hand and self._pace.is_stale(self._executor.pending()):
            self._settle(self._cancel_pending())
        in_hand = self._in_hand + self._turns.spare
        want = self._pace.want(self._executor.slots(), in_hand, settles=bool(settlements))
        wait = None
        if settlements or want:
            turn = self._turns.make(settlements, want)
            if self._stopping.is_set():
                self._settle(_releases(turn.requests))
                return None
            wait = turn.wait if len(turn.requests) + turn.spare < want else None
            if own := self._submit(turn.requests, wait):
                return own
        if self._executor.pending() or not self._finished:
            self._enqueue(self._turns.take_spare())
        # else all handlers have ended, so the next turn is due, and Redis works while these are read
        if not self._in_hand and self._executor.slots() == 0:
            slots = counted(self._concurrency, "slot")
            raise NoSlotLeft(
                f'{self._name}: reconciles past max_hold have all of its {slots}. See "distq items".'
            )
        self._wait(wait)
        return None

    def _wait(self, wait: float | None) -> None:
        """Sleep until there is something to do; ``wait`` is the queue's if it had less than wanted."""
        overdue = self._executor.check_overdue() if self._in_hand else math.inf
        if self._turns.spare:
            return
        pending = self._executor.pending()
        self._enough = self._pace.ahead // 2 if wait is None else 0
        if pending > self._enough:
            self._wait_for_results(CLAIM_AHEAD)  # no longer: the requests may become stale
        elif wait is None:
            if not self._pace.want(self._executor.slots(), self._in_hand, settles=False):
                self._wait_for_results(CLAIM_AHEAD if pending else overdue)
        elif not (self._in_hand and self._pace.is_quick and self._wait_for_results(SOON)):
            self._wait_for_work(min(wait, overdue))

    def _wait_for_results(self, seconds: float) -> bool:
        """Sleep until handlers finished; return whether any did."""
        self._waiting_for = "results"  # before the look: a handler that ends after it wakes this thread
        if self._executor.pending() > self._enough or not self._finished:
            self._busy_since = math.inf
            self._changed.wait(min(seconds, threading.TIMEOUT_MAX))  # an infinite time is an error there
            self._busy_since = time.monotonic()
        self._waiting_for = ""
        self._changed.clear()
        return bool(self._finished)

    def _wait_for_work(self, seconds: float) -> None:
        """Sleep until work may have come or a handler finished."""
        self._waiting_for = "work"  # before the look, as for results
        if not self._finished:
            self._busy_since = math.inf
            self._queue.wait(seconds, self._pace.want(self._executor.slots(), self._in_hand, settles=False))
            self._busy_since = time.monotonic()
        self._waiting_for = ""

    def _on_finished(self, finished: Settlement) -> None:
        """Note a handler's outcome, from its thread; wake the dispatcher unless more follow at once."""
        self._finished.append(finished)
        if not self._waiting_for:
            return
        more_follows = finished.took < QUICK and self._executor.pending() > self._enough
        if self._waiting_for == "work" or not more_follows:
            with self._swap:  # one thread alone: a second interrupt would end the next wait
                waiting_for, self._waiting_for = self._waiting_for, ""
            if waiting_for == "work":
                self._queue.interrupt()
            else:
                self._changed.set()

    def _submit(self, requests: Sequence[Request], wait: float | None) -> Request | None:
        """Run the requests; if an idle thread can dispatch instead of this one, return the first of them."""
        if not requests:
            return None
        # as many threads are idle as slots are free: each item in hand has at most one
        if not self._executor.hands_over or self._in_hand + len(requests) > self._executor.slots():
            self._enqueue(requests)
            return None
        self._count(requests)
        self._left_to_wait = wait
        own, *others = requests
        self._executor.hand_over(others)  # last: from here on the other thread goes on
        return own

    def _enqueue(self, requests: Sequence[Request]) -> None:
        if requests:
            self._count(requests)
            self._executor.submit(requests)

    def _count(self, requests: Sequence[Request]) -> None:
        self._in_hand += len(requests)
        self._pace.submit(len(requests))

    def _collect(self) -> list[Settlement]:
        """Take the outcomes of handlers, at most a batch."""
        finished = [self._finished.popleft() for _ in range(min(len(self._finished), TURN_LIMIT))]
        if not finished:
            return []
        self._in_hand -= len(finished)
        self._pace.learn([each.took for each in finished])
        if self._recorder is not None:
            self._recorder.finished(finished)
        return [each for each in finished if each.outcome is not LOST]

    def _cancel_pending(self) -> list[Settlement]:
        """Give back requests that found no slot, such as those claimed ahead milliseconds ago."""
        self._pace.forget_submissions()
        pending = self._executor.cancel_pending()
        self._in_hand -= len(pending)
        return _releases([*pending, *self._turns.take_spare()])

    def _settle(self, settlements: Sequence[Settlement]) -> None:
        """Settle any number of claims without taking new ones."""
        for start in range(0, len(settlements), TURN_LIMIT):
            self._turns.make(settlements[start : start + TURN_LIMIT], 0)

    def _drain(self) -> None:
        """Release requests that did not start, let others finish, and cancel them after the grace period."""
        self._settle(self._cancel_pending())
        self._settle_running(lambda: self._turns.deadline - time.monotonic())
        if self._in_hand:
            self._executor.cancel_all()
            cancelled_at = time.monotonic()
            self._settle_running(lambda: cancelled_at + CANCEL_TIME - time.monotonic())
        self._queue.close()
        self._all_settled = not self._gave_up  # not before: close may raise
        self._executor.close()

    def _settle_running(self, left: Callable[[], float]) -> None:
        """Settle the outcomes of handlers until none runs or no time is ``left``."""
        while self._in_hand and (seconds := left()) > 0:
            self._wait_for_results(min(seconds, self._executor.check_overdue()))
            self._settle(self._collect())


def _releases(requests: Sequence[Request]) -> list[Settlement]:
    """Return the settlements of requests that did not start; those of lost claims need none."""
    return [Settlement(request, Release()) for request in requests if not request.cancelled.is_set()]
