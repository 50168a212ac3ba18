"""A queue in this process, used as one in Redis is: for tests, and as the words of the specification."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError, Empty, ShutDown
from distq.metrics import MetricsProvider
from distq.redisio.keys import validate_key, validate_queue_name
from distq.redisio.limits import TURN_LIMIT
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
from distq.workqueue.memory.engine import MemoryEngine
from distq.workqueue.memory.entries import Now
from distq.workqueue.memory.memory_session import MemorySession
from distq.workqueue.outcome import outcome_of
from distq.workqueue.rate_limiters import (
    ItemExponentialFailureRateLimiter,
    RateLimiter,
    microseconds,
    validate_rate_limiter,
)
from distq.workqueue.recorder import Recorder
from distq.workqueue.turns import TurnSettings

_logger = logging.getLogger("distq.queue")


class MemoryQueue:
    """A handle of a queue in this process, which does what ``Queue`` does without Redis.

    Its items are its own, or those of the handle that it ``shares`` with, as if both were in
    processes of their own. Delays follow ``clock``, that of the first handle. Handles live until
    they are closed or told to ``abandon`` what they hold. Other arguments are those of ``Queue``.
    Safe for threads, not for forks.
    """

    def __init__(
        self,
        name: str,
        *,
        shares: "MemoryQueue | None" = None,
        rate_limiter: RateLimiter | None = None,
        max_retries: int | None = None,
        claim_duration: float = 30.0,
        max_length: int | None = None,
        metrics: MetricsProvider | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = validate_queue_name(name)
        if shares is not None and shares.name != name:
            raise ConfigError(f"bad shares: a handle of {shares.name}, not of {name}. Give both one name.")
        require_settings(claim_duration, max_retries, max_length)
        self.fleet_concurrency: int | None = None
        self.on_cancel: Callable[[Request], None] | None = None
        self.claim_duration = claim_duration
        self._rate_limiter = validate_rate_limiter(
            ItemExponentialFailureRateLimiter() if rate_limiter is None else rate_limiter
        )
        self._max_retries = max_retries
        self._max_length = max_length
        self._engine: MemoryEngine = shares._engine if shares is not None else MemoryEngine(clock)  # noqa: SLF001  # our own
        self._claims = MemorySession(self._engine, name, self._policy, self._cancelled)
        self._shutting_down = False
        self._shut_downs = 0
        self._recorder: Recorder | None = None
        if metrics is not None:
            self.measure(metrics)

    def measure(self, metrics: MetricsProvider) -> None:
        """Tell this provider what the handle does from now on, unless it has one already."""
        if self._recorder is None:
            self._recorder = Recorder(metrics, self.name, self._engine.clock)

    # Producers

    def add(self, *keys: str, priority: int = 0, after: float | None = None) -> int:
        """Make keys pending, now or ``after`` seconds; return how many were not pending before.

        Raises InvalidKey, QueueFull; ValueError for a priority or delay that is none.
        """
        priority = validate_priority(priority)
        delay = 0 if after is None else microseconds(after)
        items = list(dict.fromkeys(validate_key(key).decode() for key in keys))
        with self._engine.lock:
            queue, now = self._engine.state.items, self._engine.now()
            if delay > 0:
                added, fitted = queue.add_after(now, items, priority, delay, self._max_length)
            else:
                added, fitted = queue.add(now, items, priority, self._max_length)
            self._engine.changed()
        if self._recorder is not None:
            self._recorder.accepted(added, fitted, delayed=delay > 0)
        if fitted < len(items):
            raise queue_full(self.name, self._max_length, added)
        return added

    def add_after(self, key: str, delay: float) -> None:
        """Make the key pending after ``delay`` seconds; of several delays the earliest counts."""
        self.add(key, after=delay)

    def add_rate_limited(self, key: str) -> None:
        """Count a failure of the key and make it pending after the limiter's delay."""
        validate_key(key)
        with self._engine.lock:
            turn = self._claims.back_off(key, self.num_requeues(key) + 1)
            self._close_if_idle()
        if self._recorder is not None:
            self._recorder.backed_off(turn)

    def forget(self, key: str) -> None:
        """Drop the key's failure record, unless it is dead."""
        validate_key(key)
        with self._engine.lock:
            self._engine.state.items.forget([key])

    # Looking

    def num_requeues(self, key: str) -> int:
        """Return how many failures the key has."""
        validate_key(key)
        with self._engine.lock:
            record = self._engine.state.items.failures.get(key)
            return record.count if record is not None else 0

    def is_dirty(self, key: str) -> bool:
        """Return whether the key was added again while claimed."""
        validate_key(key)
        with self._engine.lock:
            items = self._engine.state.items
            return key in items.claims and isinstance(items.pending.get(key), Now)

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        with self._engine.lock:
            due_ms = self._engine.now() // 1000
            entries = self._engine.state.items.pending.values()
            return sum(isinstance(entry, Now) or entry.due_ms <= due_ms for entry in entries)

    # Consumers

    def get(self, timeout: float | None = None) -> Request:
        """Claim the next item; wait for one, at most ``timeout`` seconds. Raises Empty, ShutDown."""
        clock = self._engine.clock
        deadline = math.inf if timeout is None else clock.monotonic() + timeout
        while not self.shutting_down:
            turn = self.turn([], 1)
            if turn.requests:
                return turn.requests[0]
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                raise Empty(f"queue {self.name}: nothing to claim within {timeout:g} s")
            self.wait(min(turn.wait, remaining))
        raise ShutDown(f"queue {self.name}: this handle was shut down")

    def listen(self) -> Iterator[Request]:
        """Yield claimed items until the handle is shut down."""
        while not self.shutting_down:
            try:
                yield self.get()
            except ShutDown:
                return

    def done(self, request: Request) -> bool:
        """End the claim; return False where it had ended before, and nothing changed."""
        return self._settle(request, Done())

    def settle(self, request: Request, outcome: Result | BaseException | None = None) -> bool:
        """End the claim with what the reconcile function returned or raised; return False as ``done``."""
        return self._settle(request, outcome_of(outcome))

    def release(self, request: Request) -> bool:
        """Put the item back to where it stood, without a failure; return False as ``done``."""
        return self._settle(request, Release())

    def _settle(self, request: Request, outcome: Outcome) -> bool:
        (disposition,) = self.turn([Settlement(request, outcome)], 0).dispositions
        self._close_if_idle()
        return disposition.kind != "refused"

    # Shutdown is this handle's

    @property
    def shutting_down(self) -> bool:
        """Return whether this handle was shut down."""
        return self._shutting_down

    def shut_down(self) -> None:
        """End get and listen of this handle at once, and its running drains; others go on."""
        self._shut_downs += 1
        self._stop_claiming()

    def shut_down_with_drain(self, timeout: float | None = None) -> bool:
        """Shut down, then wait for this handle's claims; return whether all ended within ``timeout`` seconds.

        A later ``shut_down`` ends the waiting.
        """
        clock, shut_downs = self._engine.clock, self._shut_downs
        deadline = math.inf if timeout is None else clock.monotonic() + timeout
        self._stop_claiming()
        while True:
            seen, remaining = self._engine.changes, deadline - clock.monotonic()
            if not self.held() or self._shut_downs != shut_downs or remaining <= 0:
                return not self.held()
            self._claims.sleep(remaining, seen)

    def _stop_claiming(self) -> None:
        with self._engine.lock:
            self._shutting_down = True
            self._close_if_idle()
            self._engine.changed()

    # The core

    def held(self) -> int:
        """Return how many claims this handle holds."""
        return len(self._claims.held)

    def is_kept_alive(self) -> bool:
        """Return True: nothing needs to keep it alive."""
        return True

    def turn(self, settlements: Sequence[Settlement], want: int) -> Turn:
        """Settle claims and take up to ``want`` new ones in one step; see ``TurnQueue.turn``."""
        if len(settlements) > TURN_LIMIT or want > TURN_LIMIT:
            raise ValueError(
                f"a turn of {len(settlements)} settlements and {want} claims: at most {TURN_LIMIT} each way"
            )
        turn = self._claims.turn(settlements, 0 if self._shutting_down else want)
        if self._recorder is not None:
            self._recorder.turned(settlements, turn)
        for settlement, disposition in zip(settlements, turn.dispositions, strict=True):
            if disposition.kind == "refused":
                _logger.warning(
                    "queue %s: %s not settled: its claim had ended", self.name, settlement.request.key
                )
        return turn

    def wait(self, seconds: float) -> None:
        """Sleep until something changed since this thread's last turn, or ``interrupt``, or ``seconds``."""
        self._claims.wait(seconds)

    def interrupt(self) -> None:
        """End a running or the next ``wait`` at once; safe from any thread."""
        self._claims.interrupt()

    def close(self) -> None:
        """Release what this handle still holds and end its session; the next use opens another."""
        self._claims.close()

    def abandon(self) -> None:
        """Lose what this handle holds, as if its process had died and the claim duration were over.

        That counts as a crash of each item if another handle is in use. The requests are cancelled, and
        to settle them is refused.
        """
        self._claims.abandon()

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
        if self.on_cancel is not None:
            self.on_cancel(request)

    def _close_if_idle(self) -> None:
        if self._shutting_down:
            self._claims.close_if_idle()
