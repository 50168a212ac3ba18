"""The handle of a queue: client-go's methods and distq's own, on any engine."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from distq.clock import Clock
from distq.errors import Empty, RedisUnavailable, ShutDown, Unanswered, short_tracebacks
from distq.redisio.keys import validate_key
from distq.redisio.limits import TURN_LIMIT
from distq.seconds import Duration
from distq.spans import SpanProvider
from distq.wording import duration
from distq.workqueue.aio import AsyncQueue
from distq.workqueue.announcement import Announcement
from distq.workqueue.arguments import (
    require_fleet_concurrency,
    require_fleet_concurrency_per_flow,
    require_turn,
    validate_timeout,
)
from distq.workqueue.engine import Engine, OnClaims, RateLimitedAdd, TurnSettings
from distq.workqueue.interface import Done, Outcome, Release, Result, Settlement, Turn, all_ended
from distq.workqueue.main_thread import is_given_up, run_apart
from distq.workqueue.options import QueueOptions
from distq.workqueue.outcome import outcome_of
from distq.workqueue.producer import Producer
from distq.workqueue.queue_ownership import Purpose
from distq.workqueue.request import Request

_logger = logging.getLogger("distq.queue")
_OUTAGE_PAUSE = 1.0
"""Seconds between tries of ``listen`` while Redis gives no answer."""


class _Listening(threading.local):
    """The loops of ``listen`` that this thread is in: an entry for each.

    Not by the idents of threads, which those of a forked child may get again. Another thread may end a loop.
    """

    def __init__(self) -> None:
        self.loops: list[None] = []


@short_tracebacks
class QueueHandle(Producer):
    """One process's handle of a queue, on any engine: the base of ``Queue`` and ``MemoryQueue``."""

    def __init__(self, name: str, engine: Engine, options: QueueOptions) -> None:
        super().__init__(name, engine, options)
        self.on_cancel: Callable[[Request], None] | None = None
        """Called with each request whose claim ended before it was settled, from a thread of the queue.

        It may add to this queue; calls that settle, claim or back off there raise ConfigError.
        """
        self._changed = Announcement()
        """Announced when claims have ended, and by each shutdown."""
        self._settings = TurnSettings(
            options,
            wants_links=options.spans is not None,
            on_cancel=self._cancelled,
            on_limiter_error=self._count_limiter_error,
            on_unreadable=self._count_unreadable,
            on_closed=self._changed.announce,
        )
        self._clock = options.clock
        self._listening = _Listening()
        self._shutting_down = False
        self._shut_downs = 0
        self._use(engine)

    def _use(self, engine: Engine) -> None:
        self._engine = engine
        self._session = engine.session(self._settings)
        if self._shutting_down:
            self._session.stop()

    def set_span_provider(self, spans: SpanProvider) -> None:
        """Trace adds and claims with this provider from now on, unless the handle has one."""
        super().set_span_provider(spans)
        self._settings.wants_links = True

    # Producers

    @property
    def aio(self) -> AsyncQueue:
        """The same calls of a producer for ``async def``: ``await queue.aio.add(...)``."""
        return AsyncQueue(self)

    def add_rate_limited(self, key: str) -> None:
        """Count a failure of the key and make it pending after the limiter's delay.

        The item never becomes dead by this, for any ``max_retries``. After RedisUnavailable call it again: as
        the next call of the same thread, within the claim duration, it is the same failure and counts once.
        Source: client-go util/workqueue AddRateLimited.
        """
        item = validate_key(key)
        entry = self._unanswered.take(key, self._clock.monotonic(), self.claim_duration)
        if entry is None:
            is_custom = callable(self.options.rate_limiter)  # for the others the script counts
            entry = RateLimitedAdd(key, self._engine.num_requeues(item) + 1 if is_custom else 0)
        self._settings.callbacks.refuse_turn()
        try:
            turn = run_apart(self._session.turn, [entry], 0)
        except RedisUnavailable:
            self._unanswered.keep(entry, self._clock.monotonic())
            raise
        if self._recorder is not None:
            self._recorder.backed_off(turn)

    # Consumers

    def get(self, timeout: Duration | None = None) -> Request:
        """Claim the next item; wait for one, at most ``timeout`` seconds.

        In Redis, the first call starts a thread that keeps this handle's claims alive. Raises Empty,
        ShutDown. Source: client-go util/workqueue Get.
        """
        return self._claim(None if timeout is None else validate_timeout(timeout))

    def _claim(self, timeout: float | None) -> Request:
        self._unanswered.entry = None
        return run_apart(
            self._get,
            timeout,
            undo=lambda request: self._session.take_back([], Turn([request], [], 0.0)),
            interrupt=self._session.interrupt,
        )

    def _get(self, timeout: float | None) -> Request:
        if (ahead := self._session.take_spare()) is not None:
            if self._recorder is not None:
                self._recorder.turned([], Turn([ahead], [], 0.0))
            return ahead
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while not (self._shutting_down or is_given_up()):
            turn = self._turn([], 1)
            if turn.requests:
                return turn.requests[0]
            remaining = None if deadline is None else deadline - self._clock.monotonic()
            if remaining is not None and remaining <= 0:
                raise Empty(f"queue {self.name}: nothing to claim within {duration(timeout or 0.0)}")
            self._session.wait(turn.wait, remaining)
        self._session.release_spare()  # no get comes back for it, and a drain must not wait for it
        raise ShutDown(f"queue {self.name}: this handle was shut down")

    def listen(self) -> Iterator[Request]:
        """Yield claimed items until the handle is shut down; outages of Redis are waited out.

        In Redis, the step that settles an item also claims the next one for this thread, unless there is a
        ``fleet_concurrency``, or one per flow. That claim is released when the loop ends, and within three
        seconds if the thread does not come back for it.
        """
        loops = self._listening.loops
        loops.append(None)
        try:
            while not self._shutting_down:
                try:
                    yield self._claim(None)
                except ShutDown:
                    return
                except RedisUnavailable as error:
                    _logger.warning("queue %s: %s", self.name, error)
                    self._wait_for(lambda: self._shutting_down, _OUTAGE_PAUSE)
        finally:
            loops.pop()
            run_apart(self._session.release_spare)

    def done(self, request: Request) -> bool:
        """End the claim; return False if it had ended before: then nothing changed.

        A failure record stays while the item is pending again, so that ``add_rate_limited``
        and then ``done`` backs off. Source: client-go util/workqueue Done.
        """
        return self._settle(request, Done())

    def settle(self, request: Request, outcome: Result | BaseException | None = None) -> bool:
        """End the claim with the reconcile function's result or error; return False as ``done``.

        After RedisUnavailable call it again, with the same Request, until it is answered. Raises Unanswered
        if that came too late: the session is gone, and its record of settlements with it.
        """
        return self._settle(request, outcome_of(outcome))

    def release(self, request: Request) -> bool:
        """Put the item back in its old place, without a failure; return False as ``done``."""
        return self._settle(request, Release())

    def _settle(self, request: Request, outcome: Outcome) -> bool:
        wants_next = self._listening.loops and not self._settings.limits_fleet
        # not after a release: the item would come back to this thread at once
        ahead = 1 if wants_next and outcome.__class__ is not Release else 0
        settlements = [Settlement(request, outcome)]
        if request.__class__ is not Request:  # else all types are right, and the loop pays no call
            require_turn(settlements, 0)
        self._unanswered.entry = None
        turn = run_apart(
            self._turn, settlements, 0, ahead, undo=lambda turn: self._session.take_back(settlements, turn)
        )
        (disposition,) = turn.dispositions
        if disposition.kind == "unknown":
            raise Unanswered(
                f"queue {self.name}: unknown whether {request.key} was settled: Redis did not answer, "
                "and no longer has the session. If it was not, it runs again."
            )
        if is_refused := disposition.kind == "refused":
            self._log_refused(request)
        return not is_refused

    # Shutdown is this handle's

    @property
    def shutting_down(self) -> bool:
        """Return whether this handle was shut down (client-go util/workqueue ShuttingDown)."""
        return self._shutting_down

    def shut_down(self) -> None:
        """End get, listen and running drains of this handle at once; other handles continue.

        It waits for no turn under way, so a signal handler may call it. Source: client-go util/workqueue
        ShutDown; unlike there, pending items stay for the other handles.
        """
        run_apart(self._shut_down)

    def _shut_down(self) -> None:
        self._shut_downs += 1
        self._stop_claiming()

    def shut_down_with_drain(self, timeout: Duration | None = None) -> bool:
        """Shut down, then wait for this handle's claims; return whether all ended within ``timeout`` seconds.

        Once it has returned True this handle claims nothing more. A later ``shut_down`` ends the waiting.
        Called by a custom limiter or ``on_cancel`` it does not wait: their turn can only go on afterwards.
        Source: client-go util/workqueue ShutDownWithDrain.
        """
        limit = validate_timeout(timeout)
        shut_downs = self._shut_downs
        run_apart(self._stop_claiming)
        if not self._settings.callbacks.is_in_one():
            self._wait_for(lambda: self._is_drained() or self._shut_downs != shut_downs, limit)
        return run_apart(self._is_drained)

    def _wait_for(self, predicate: Callable[[], bool], timeout: float | None) -> None:
        run_apart(
            lambda: self._changed.wait_for(lambda: is_given_up() or predicate(), timeout, self._clock),
            interrupt=self._changed.announce,
        )

    def _is_drained(self) -> bool:
        return not self._session.is_claiming() and not self._session.held()  # in this order: a claim moves on

    def _stop_claiming(self) -> None:
        self._shutting_down = True
        self._session.stop()
        self._changed.announce()

    # The core

    @property
    def fleet_concurrency(self) -> int | None:
        """How many items all handles together may hold; travels with each turn."""
        return self._settings.fleet_concurrency

    @fleet_concurrency.setter
    def fleet_concurrency(self, limit: int | None) -> None:
        require_fleet_concurrency(limit)
        self._settings.fleet_concurrency = limit

    @property
    def fleet_concurrency_per_flow(self) -> int | None:
        """How many items of one flow all handles together may hold; travels with each turn.

        The queue must be fair: a flow is a namespace there. See ``QueueOptions.fair_by``.
        """
        return self._settings.fleet_concurrency_per_flow

    @fleet_concurrency_per_flow.setter
    def fleet_concurrency_per_flow(self, limit: int | None) -> None:
        require_fleet_concurrency_per_flow(limit, self.options.fair_by)
        self._settings.fleet_concurrency_per_flow = limit

    @property
    def purpose(self) -> Callable[[], Purpose] | None:
        """The program this handle claims for; in Redis it checks the other programs before it claims."""
        return self._settings.purpose

    @purpose.setter
    def purpose(self, purpose: Callable[[], Purpose] | None) -> None:
        self._settings.purpose = purpose

    @property
    def clock(self) -> Clock:
        """Return the clock by which claims end."""
        return self._clock

    @property
    def claim_duration(self) -> float:
        """Return how long a silent handle keeps its claims, seconds."""
        return self.options.claim_duration

    def held(self) -> int:
        """Return how many claims this handle holds, those made ahead for ``listen`` included."""
        return self._session.held()

    @property
    def revive_dead_after(self) -> float | None:
        """Return the seconds after which this handle revives failed dead items; None for never."""
        return self.options.revive_dead_after

    @property
    def worker(self) -> str:
        """Return the name that ``distq workers`` shows for this handle; empty for a queue in memory."""
        return self._session.worker_name

    def is_kept_alive(self) -> bool:
        """Return whether this handle's claims are kept alive; True if they need no heartbeat."""
        return self._session.is_kept_alive()

    def turn(self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None) -> Turn:
        """Settle claims and take up to ``want`` new ones, in one step.

        At most 250 each way, ``spare`` claims apart. If more than 50 settlements are no successes, some are
        sent before in steps of their own, since one step would block Redis for too long. Raises
        RedisUnavailable while Redis does not answer: call again with the same settlements; nothing happens
        twice.

        With ``on_claims`` a turn that claims many may leave them ``spare``. The next turn gives these to its
        ``on_claims`` while Redis works, though it may fail then, or returns them if it needs no Redis. So its
        ``want`` counts them.
        """
        require_turn(settlements, want, TURN_LIMIT if on_claims is None else 2 * TURN_LIMIT)
        self._unanswered.entry = None
        turn = run_apart(
            self._turn,
            settlements,
            want,
            0,
            on_claims,
            undo=lambda turn: self._session.take_back(settlements, turn),
        )
        if not all_ended(turn.dispositions):
            for settlement, disposition in zip(settlements, turn.dispositions, strict=True):
                if disposition.kind == "refused":
                    self._log_refused(settlement.request)
        return turn

    def _turn(
        self,
        settlements: Sequence[Settlement],
        want: int,
        ahead: int = 0,
        on_claims: OnClaims | None = None,
    ) -> Turn:
        self._settings.callbacks.refuse_turn()
        handed_out: list[Request] = []
        if on_claims is not None and self._recorder is not None:
            # not measured in its midst: a slow exporter would hold the turn
            on_claims = _in_order(handed_out.extend, on_claims)
        try:
            turn = self._session.turn(settlements, want, ahead, on_claims)
        finally:  # after an error, too: claims may have ended
            self._changed.announce()
            if self._recorder is not None and handed_out:
                self._recorder.claimed(handed_out)
        if self._recorder is not None:
            self._recorder.turned(settlements, turn)
        return turn

    def _log_refused(self, request: Request) -> None:
        _logger.warning("queue %s: %s not settled: its claim had ended", self.name, request.key)

    def wait(self, seconds: float, want: int = 1) -> None:
        """Sleep until work may have come, ``interrupt`` was called, or ``seconds`` went by.

        As it comes, up to ``want`` items may be claimed, which the next turn returns.
        """
        require_turn([], want)
        seconds = validate_timeout(seconds)
        run_apart(self._session.wait, seconds, None, want, interrupt=self._session.interrupt)

    def announce_stop(self) -> None:
        """Announce that this process is stopping: if it is killed before its end, that counts as no crash."""
        self._session.announce_stop()

    def interrupt(self) -> None:
        """End a running or the next ``wait`` at once; safe from any thread."""
        run_apart(self._session.interrupt)

    def close(self) -> None:
        """Release this handle's claims and end its session; the next use opens another."""
        run_apart(self._session.close)

    def _count_limiter_error(self) -> None:
        if self._recorder is not None:
            self._recorder.limiter_failed()

    def _count_unreadable(self, items: int) -> None:
        if self._recorder is not None:
            self._recorder.unreadable(items)

    def _cancelled(self, request: Request) -> None:
        if self._recorder is not None:
            self._recorder.cancelled()
        self._changed.announce()
        if self.on_cancel is None:
            return
        try:
            with self._settings.callbacks.running():
                self.on_cancel(request)
        except Exception:  # the thread that watches the deadline has other claims to cancel
            _logger.exception("queue %s: on_cancel failed for %s", self.name, request.key)


def _in_order(first: OnClaims, second: OnClaims) -> OnClaims:
    def both(requests: Sequence[Request]) -> None:
        first(requests)
        second(requests)

    return both
