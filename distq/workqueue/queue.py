"""The queue that many processes share (client-go util/workqueue RateLimitingInterface, through Redis)."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import Empty, RedisError, RedisUnavailable, ShutDown, short_tracebacks
from distq.metrics import MetricsProvider
from distq.redisio.connection import Connection, shared_connection
from distq.redisio.keys import validate_key, validate_queue_name
from distq.redisio.queue_store import QueueStore, batches
from distq.redisio.records import FailureRecord
from distq.redisio.scores import validate_priority
from distq.workqueue.interface import (
    Done,
    Outcome,
    Release,
    Request,
    Result,
    Settlement,
    Turn,
    queue_full,
    require_settings,
)
from distq.workqueue.outcome import outcome_of
from distq.workqueue.rate_limiters import (
    ItemExponentialFailureRateLimiter,
    RateLimiter,
    microseconds,
    validate_rate_limiter,
)
from distq.workqueue.recorder import Recorder
from distq.workqueue.redis_session import RedisSession
from distq.workqueue.turns import Backoff, TurnSettings

_logger = logging.getLogger("distq.queue")
_OUTAGE_PAUSE = 1.0
"""Seconds between tries of ``listen`` while Redis gives no answer."""


@short_tracebacks
class Queue:
    """A handle of a queue in Redis: deduplicated, prioritised, delayed, rate-limited, shared by processes.

    ``redis`` is a Connection, a URL, or None for the process's shared one. ``max_retries`` failures
    park an item, None never does. A process that is silent for ``claim_duration`` seconds loses its
    claims; keep it well above the pauses of your processes, and the same in all of them. Producers get
    QueueFull beyond ``max_length`` items ready, dirty or delayed. ``metrics`` hears what this handle
    does. Safe for threads, and after a fork.
    """

    def __init__(
        self,
        name: str,
        redis: Connection | str | None = None,
        *,
        rate_limiter: RateLimiter | None = None,
        max_retries: int | None = None,
        claim_duration: float = 30.0,
        max_length: int | None = None,
        metrics: MetricsProvider | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = validate_queue_name(name)
        require_settings(claim_duration, max_retries, max_length)
        self.fleet_concurrency: int | None = None
        self.on_cancel: Callable[[Request], None] | None = None
        self._rate_limiter = validate_rate_limiter(
            ItemExponentialFailureRateLimiter() if rate_limiter is None else rate_limiter
        )
        self._max_retries = max_retries
        self._claim_duration = claim_duration
        self._max_length: int | str = "" if max_length is None else max_length
        self._clock = clock
        self._recorder: Recorder | None = None
        if metrics is not None:
            self.measure(metrics)
        self._connection = Connection(redis) if isinstance(redis, str) else redis
        self._owns_connection = redis is not None
        self._session: RedisSession | None = None
        self._store: QueueStore | None = None
        self._lock = threading.Lock()
        self._shutting_down = threading.Event()
        self._settled = threading.Condition()
        self._shut_downs = 0

    def bind(self, connection: Connection) -> None:
        """Use this connection from now on, unless the queue was made with one of its own.

        What the handle still holds elsewhere is released, or lapses where Redis does not answer.
        """
        if self._owns_connection or connection is self._connection:
            return
        with contextlib.suppress(RedisError):
            self.close()
        self._connection, self._store, self._session = connection, None, None

    def measure(self, metrics: MetricsProvider) -> None:
        """Tell this provider what the handle does from now on, unless it has one already."""
        if self._recorder is None:
            self._recorder = Recorder(metrics, self.name, self._clock)

    @property
    def connection(self) -> Connection:
        """Return the way to Redis that this queue uses."""
        return self._connection or shared_connection()

    # Producers

    def add(self, *keys: str, priority: int = 0, after: float | None = None) -> int:
        """Make keys pending, now or ``after`` seconds; return how many were not pending before.

        Higher ``priority`` (-900..900) goes first. More than 1000 keys go in several steps. Adding is
        always accepted, by a handle that was shut down, too: the queue is everybody's. Raises
        InvalidKey, QueueFull. Source: client-go util/workqueue Add, AddAfter.
        """
        priority = validate_priority(priority)
        delay = 0 if after is None else microseconds(after)
        inputs: dict[str, Any] = {"priority": priority, "max_length": self._max_length}
        if delay > 0:
            inputs["delay"] = delay
        added = 0
        for batch in batches(keys):
            new, fitted = self._redis.run("add_after" if delay > 0 else "add", items=batch, **inputs)
            added += new
            if self._recorder is not None:
                self._recorder.accepted(new, fitted, delayed=delay > 0)
            if fitted < len(batch):
                raise queue_full(self.name, self._max_length, added)
        return added

    def add_after(self, key: str, delay: float) -> None:
        """Make the key pending after ``delay`` seconds; of several delays the earliest counts.

        A later plain add supersedes the delay. Source: client-go util/workqueue AddAfter.
        """
        self.add(key, after=delay)

    def add_rate_limited(self, key: str) -> None:
        """Count a failure of the key and make it pending after the limiter's delay.

        It parks nothing, whatever ``max_retries`` says. Source: client-go util/workqueue AddRateLimited.
        """
        validate_key(key)
        attempt = self.num_requeues(key) + 1 if callable(self._rate_limiter) else 0
        turn = self._turns.turn([Backoff(key, attempt)], 0)
        if self._recorder is not None:
            self._recorder.backed_off(turn)

    def forget(self, key: str) -> None:
        """Drop the key's failure record, unless it is dead (client-go util/workqueue Forget)."""
        self._redis.run("forget", items=[validate_key(key)])

    # Looking

    def num_requeues(self, key: str) -> int:
        """Return how many failures the key has (client-go util/workqueue NumRequeues)."""
        (record,) = self._redis.read(("HGET", "failures", validate_key(key)))
        return FailureRecord.parse(record).count if record else 0

    def is_dirty(self, key: str) -> bool:
        """Return whether the key was added again while claimed."""
        (score,) = self._redis.read(("ZSCORE", "dirty", validate_key(key)))
        return score is not None

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        due_before = (int(self._redis.now() * 1000) + 1) * 2048
        return sum(
            self._redis.read(
                ("ZCARD", "ready"), ("ZCARD", "dirty"), ("ZCOUNT", "delayed", "-inf", f"({due_before}")
            )
        )

    # Consumers

    def get(self, timeout: float | None = None) -> Request:
        """Claim the next item; wait for one, at most ``timeout`` seconds.

        The first call starts a thread that keeps this handle's claims alive. Raises Empty, ShutDown.
        Source: client-go util/workqueue Get.
        """
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while not self.shutting_down:
            turn = self.turn([], 1)
            if turn.requests:
                return turn.requests[0]
            remaining = None if deadline is None else deadline - self._clock.monotonic()
            if remaining is not None and remaining <= 0:
                raise Empty(f"queue {self.name}: nothing to claim within {timeout:g} s")
            self._turns.wait(turn.wait, remaining)
        raise ShutDown(f"queue {self.name}: this handle was shut down")

    def listen(self) -> Iterator[Request]:
        """Yield claimed items until the handle is shut down; outages of Redis are waited out."""
        while not self.shutting_down:
            try:
                yield self.get()
            except ShutDown:
                return
            except RedisUnavailable as error:
                _logger.warning("queue %s: %s", self.name, error)
                self._clock.wait(self._shutting_down, _OUTAGE_PAUSE)

    def done(self, request: Request) -> bool:
        """End the claim; return False where it had ended before, and nothing changed.

        A failure record stays while something of the item is pending, so that ``add_rate_limited``
        and then ``done`` backs off. Source: client-go util/workqueue Done.
        """
        return self._settle(request, Done())

    def settle(self, request: Request, outcome: Result | BaseException | None = None) -> bool:
        """End the claim with what the reconcile function returned or raised; return False as ``done``."""
        return self._settle(request, outcome_of(outcome))

    def release(self, request: Request) -> bool:
        """Put the item back to where it stood, without a failure; return False as ``done``."""
        return self._settle(request, Release())

    # Shutdown is this handle's

    @property
    def shutting_down(self) -> bool:
        """Return whether this handle was shut down (client-go util/workqueue ShuttingDown)."""
        return self._shutting_down.is_set()

    def shut_down(self) -> None:
        """End get and listen of this handle at once, and its running drains; others go on.

        It waits for no turn under way, so a signal's handler may call it. Source: client-go util/workqueue
        ShutDown; what waits is left to the other handles.
        """
        with self._settled:
            self._shut_downs += 1
            self._settled.notify_all()
        self._stop_claiming()

    def shut_down_with_drain(self, timeout: float | None = None) -> bool:
        """Shut down, then wait for this handle's claims; return whether all ended within ``timeout`` seconds.

        A later ``shut_down`` ends the waiting. Source: client-go util/workqueue ShutDownWithDrain.
        """
        shut_downs = self._shut_downs
        self._stop_claiming()
        with self._settled:
            self._settled.wait_for(lambda: not self.held() or self._shut_downs != shut_downs, timeout)
            return not self.held()

    def _stop_claiming(self) -> None:
        self._shutting_down.set()
        if self._session is not None:
            self._session.end()
            self._session.close_when_idle()

    # The core

    @property
    def claim_duration(self) -> float:
        """Return how long a silent handle keeps its claims, seconds."""
        return self._claim_duration

    def held(self) -> int:
        """Return how many claims this handle holds."""
        return len(self._session.held()) if self._session is not None else 0

    def is_kept_alive(self) -> bool:
        """Return whether the thread that keeps this handle's claims alive runs, if one is needed."""
        return self._session is None or self._session.is_kept_alive()

    def turn(self, settlements: Sequence[Settlement], want: int) -> Turn:
        """Settle claims and take up to ``want`` new ones in one step; see ``TurnQueue.turn``."""
        turn = self._turns.turn(settlements, want)
        if self._recorder is not None:
            self._recorder.turned(settlements, turn)
        for settlement, disposition in zip(settlements, turn.dispositions, strict=True):
            if disposition.kind == "refused":
                _logger.warning(
                    "queue %s: %s not settled: its claim had ended", self.name, settlement.request.key
                )
        if settlements:
            with self._settled:
                self._settled.notify_all()
        return turn

    def wait(self, seconds: float) -> None:
        """Sleep until work may have come, ``interrupt`` was called, or ``seconds`` went by."""
        self._turns.wait(seconds)

    def interrupt(self) -> None:
        """End a running or the next ``wait`` at once; safe from any thread."""
        self._turns.interrupt()

    def close(self) -> None:
        """Release what this handle still holds and end its session; the next use opens another."""
        if self._session is not None:
            self._session.close()

    def _settle(self, request: Request, outcome: Outcome) -> bool:
        (disposition,) = self.turn([Settlement(request, outcome)], 0).dispositions
        return disposition.kind != "refused"

    @property
    def _redis(self) -> QueueStore:
        if self._store is None:
            self._store = QueueStore(self.connection, self.name)
        return self._store

    @property
    def _turns(self) -> RedisSession:
        if self._session is None:
            with self._lock:
                self._session = self._session or self._new_session()
            if self.shutting_down:  # since before a shutdown could see this session, perhaps
                self._session.end()
        return self._session

    def _new_session(self) -> RedisSession:
        return RedisSession(
            self._redis,
            policy=self._policy,
            claim_duration=self._claim_duration,
            on_cancel=self._cancelled,
            clock=self._clock,
        )

    def _policy(self) -> TurnSettings:
        return TurnSettings(
            self._rate_limiter, self._max_retries, self.fleet_concurrency, self._count_limiter_error
        )

    def _count_limiter_error(self) -> None:
        if self._recorder is not None:
            self._recorder.limiter_failed()

    def _cancelled(self, request: Request) -> None:
        if self._recorder is not None:
            self._recorder.cancelled(request)
        with self._settled:
            self._settled.notify_all()
        if self.on_cancel is not None:
            self.on_cancel(request)
