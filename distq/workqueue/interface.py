"""The words that a queue speaks: Request, Result, the WorkQueue protocol, and the turn at its core.

``WorkQueue`` is what users and controllers see. ``TurnQueue`` adds the one private
operation from which claiming and settling are made: a *turn* settles claims and takes
new ones in a single step, so that no crash falls between the two.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from distq.clock import Clock
from distq.errors import QueueFull
from distq.metrics import MetricsProvider
from distq.redisio.scores import validate_priority
from distq.spans import SpanProvider
from distq.workqueue.cancellation import Cancelled, ClaimPeriod, LazyEvent
from distq.workqueue.rate_limiters import validate_delay


@dataclass(frozen=True)
class Request:
    """A claimed key (controller-runtime ``reconcile.Request``).

    ``attempt`` counts from 1 and grows with each failure; ``fence`` grows with each claim of
    the queue; ``enqueued_at`` is the moment since which the item was pending, seconds since the
    epoch by the server's clock. ``cancelled`` is set when the claim is no longer ours: stop then.
    ``link`` is the W3C traceparent of the span that made the item pending, where a handle that tells
    spans knows it.
    """

    key: str
    attempt: int = 1
    priority: int = 0
    fence: int = 0
    enqueued_at: float | None = None
    cancelled: threading.Event = field(default_factory=LazyEvent, compare=False, repr=False)
    link: str = field(default="", compare=False, repr=False)

    @property
    def namespace(self) -> str | None:
        """Return the part of the key before its first slash; None where there is none."""
        namespace, slash, _ = self.key.partition("/")
        return namespace if slash else None

    @property
    def name(self) -> str:
        """Return the part of the key after its first slash, or all of it."""
        namespace, slash, name = self.key.partition("/")
        return name if slash else namespace

    if not TYPE_CHECKING:  # or a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Make what a claim needs only where someone asks for it: its event."""
            period = self.__dict__.get("_period")
            if name != "cancelled" or period is None:
                raise AttributeError(f"Request has no {name}", name=name, obj=self)
            return self.__dict__.setdefault("cancelled", Cancelled(period))  # one of those that threads make

    def __getstate__(self) -> dict[str, Any]:
        """Make the event, so that a copy has the same one and learns of the claim's end, too."""
        return {**vars(self), "cancelled": self.cancelled}


def claimed_requests(
    items: Iterable[tuple[str, int, int, float, str]], fence: int, period: ClaimPeriod
) -> list[Request]:
    """Return the Requests of what one turn claimed: (key, attempt, priority, enqueued_at, link) of each.

    It fills them as their ``__init__`` would, at a third of the cost.
    """
    new, fill, requests = Request.__new__, object.__setattr__, list[Request]()
    for key, attempt, priority, since, link in items:
        request = new(Request)
        fill(
            request,
            "__dict__",
            {
                "key": key,
                "attempt": attempt,
                "priority": priority,
                "fence": fence,
                "enqueued_at": since,
                "link": link,
                "_period": period,
            },
        )
        requests.append(request)
    return requests


def waited(request: Request) -> float:
    """Return how long the item was pending before it was claimed, seconds; all by the server's clock."""
    return max(0.0, request.fence / 1e6 - (request.enqueued_at or 0.0))


def is_cancelled(request: Request, now: float) -> bool:
    """Return what ``request.cancelled.is_set()`` does, for a moment that the queue's clock just showed.

    It makes no event where none was asked for.
    """
    made = request.__dict__
    if (event := made.get("cancelled")) is not None:
        return bool(event.is_set())
    period: ClaimPeriod = made["_period"]
    return period.is_ended or (now >= period.ends_at and period.was_over(now))


@dataclass(frozen=True, slots=True)
class Success:
    """Forget the failures and end the claim."""


@dataclass(frozen=True, slots=True)
class Done:
    """End the claim; the failure record stays while something is pending, so that it backs off."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Count a failure and come back after the limiter's delay, or ``delay`` seconds where given.

    ``cause`` is for custom limiters; it never leaves the process.
    """

    error: str
    traceback: str = ""
    delay: float | None = None
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Return what is remembered of the failure: the error on the first line, the traceback after it."""
        return f"{self.error}\n{self.traceback}" if self.traceback else self.error


@dataclass(frozen=True, slots=True)
class After:
    """Come back after ``delay`` seconds, the failures forgotten unless ``keep_failures``."""

    delay: float
    priority: int | None = None
    keep_failures: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Put the item back where it stood, without a failure."""


@dataclass(frozen=True, slots=True)
class Park:
    """Move the item to the dead, unless something newer is pending."""

    error: str
    traceback: str = ""
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Return what is remembered of the failure: the error on the first line, the traceback after it."""
        return f"{self.error}\n{self.traceback}" if self.traceback else self.error


Outcome = Success | Done | Retry | After | Release | Park


SUCCESS = Success()


@dataclass(slots=True)
class Settlement:
    """The end of one claim, and how it ended; ``took`` is how long it was worked on, seconds, for the log.

    Each item needs one, and a frozen one would cost three times as much.
    """

    request: Request
    outcome: Outcome
    took: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Disposition:
    """What became of a settled item.

    ``refused``: the claim had ended before, nothing changed. ``ended``: nothing is pending.
    ``pending``: it stands in the queue again. ``delayed``: it comes back at ``due``, seconds since
    the epoch by the server's clock. ``parked``: it is among the dead. Of Success and Done
    it is ``ended`` or ``refused``. ``unknown``: Redis never answered, and forgot the session
    meanwhile.
    """

    kind: Literal["refused", "ended", "pending", "delayed", "parked", "unknown"]
    due: float | None = None


ENDED, REFUSED = Disposition("ended"), Disposition("refused")


def all_ended(dispositions: Sequence[Disposition]) -> bool:
    """Return whether nothing of these items is pending and none was refused, as nearly always."""
    return dispositions.count(ENDED) == len(dispositions)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn did: the new claims, a disposition for each settlement in order, and how long to wait.

    ``wait`` is in seconds: how long a consumer that wants more may sleep unless it is woken.
    ``promoted`` counts the items that became pending: delayed ones, what came back without a delay, and
    dead ones, which ``revived`` counts alone. ``fence`` is when it was, µs by the server's clock, and the
    fence of what it claimed; 0 where no turn was made.
    """

    requests: Sequence[Request]
    dispositions: Sequence[Disposition]
    wait: float
    promoted: int = 0
    revived: int = 0
    fence: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile function may return (controller-runtime ``reconcile.Result``).

    ``requeue_after`` seconds, 0 or more, at most ten years; ``priority`` (-900..900) goes with it and is kept
    when None. The failures are forgotten, but with ``keep_failures``: then the next failure backs off
    further (client-go: AddAfter without Forget). Raises InvalidDelay, InvalidPriority, and ValueError for
    a priority or ``keep_failures`` alone.
    """

    requeue_after: float | None = None
    priority: int | None = None
    keep_failures: bool = False

    def __post_init__(self) -> None:
        if self.priority is not None and self.requeue_after is None:
            raise ValueError("bad Result: priority without requeue_after. Give both.")
        if not isinstance(self.keep_failures, bool):
            raise ValueError(f"bad Result: keep_failures {self.keep_failures!r:.80}. Give True or False.")
        if self.keep_failures and self.requeue_after is None:
            raise ValueError("bad Result: keep_failures without requeue_after. Give both.")
        if self.requeue_after is not None:
            validate_delay(self.requeue_after, "Result: requeue_after")
        if self.priority is not None:
            validate_priority(self.priority)


def queue_full(name: str, max_length: object, added: int) -> QueueFull:
    """Return the error for a queue at its ``max_length``, into which ``added`` keys of the call went."""
    return QueueFull(
        f"queue {name} is full: {max_length} items wait, {added} more were added. "
        "Wait, add workers, or raise max_length.",
        added=added,
    )


class WorkQueue(Protocol):
    """A deduplicated, delayed, rate-limited queue of keys (client-go ``workqueue.RateLimitingInterface``)."""

    @property
    def name(self) -> str:
        """Return the queue's name."""

    @property
    def shutting_down(self) -> bool:
        """Return whether this handle was shut down (client-go ``ShuttingDown``)."""

    def add(self, *keys: str, priority: int = 0, after: float | None = None) -> int:
        """Make keys pending, now or ``after`` seconds; return how many were not pending before."""

    def add_after(self, key: str, delay: float) -> None:
        """Make the key pending after ``delay`` seconds (client-go ``AddAfter``)."""

    def add_rate_limited(self, key: str) -> None:
        """Count a failure of the key and make it pending after the limiter's delay."""

    def forget(self, key: str) -> None:
        """Drop the key's failure record (client-go ``Forget``)."""

    def num_requeues(self, key: str) -> int:
        """Return how many failures the key has (client-go ``NumRequeues``)."""

    def is_dirty(self, key: str) -> bool:
        """Return whether the key was added again while claimed."""

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""

    def get(self, timeout: float | None = None) -> Request:
        """Claim the next item (client-go ``Get``); raise Empty after ``timeout`` seconds, or ShutDown."""

    def listen(self) -> Iterator[Request]:
        """Yield claimed items until the handle is shut down."""

    def done(self, request: Request) -> bool:
        """End the claim (client-go ``Done``); return False where it had ended before."""

    def settle(self, request: Request, outcome: Result | BaseException | None = None) -> bool:
        """End the claim with what the reconcile function returned or raised."""

    def release(self, request: Request) -> bool:
        """Put a claimed item back to the front, without a failure."""

    def shut_down(self) -> None:
        """End get and listen of this handle at once (client-go ``ShutDown``)."""

    def shut_down_with_drain(self, timeout: float | None = None) -> bool:
        """Shut down and wait for this handle's claims; return whether all ended in time."""


@runtime_checkable
class TurnQueue(WorkQueue, Protocol):
    """What a controller's dispatcher needs of a queue; made of turns alone."""

    on_cancel: Callable[[Request], None] | None
    """Called with each request whose claim ended before it was settled, from a thread of the queue."""

    fleet_concurrency: int | None
    """How many items all handles together may hold; travels with each turn."""

    @property
    def claim_duration(self) -> float:
        """Return how long a silent handle keeps its claims, seconds."""

    @property
    def clock(self) -> Clock:
        """Return the clock by which claims end."""

    def turn(self, settlements: Sequence[Settlement], want: int) -> Turn:
        """Settle claims and take up to ``want`` new ones, in one step.

        At most 250 each way. Of more than 50 settlements that are no successes some go before, in steps
        of their own, since one step would keep Redis for too long. Raises RedisUnavailable while there is
        no answer: call again with the same settlements; nothing happens twice.
        """

    def wait(self, seconds: float) -> None:
        """Sleep until work may have come, ``interrupt`` was called, or ``seconds`` went by."""

    def interrupt(self) -> None:
        """End a running or the next ``wait`` at once; safe from any thread."""

    @property
    def revive_dead_after(self) -> float | None:
        """Return after how many seconds this handle revives what failures parked; None for never."""

    @property
    def worker(self) -> str:
        """Return the name under which people see this handle (``distq workers``); empty where they cannot."""

    def is_kept_alive(self) -> bool:
        """Return whether this handle's claims are kept alive, if it needs that."""

    def announce_stop(self) -> None:
        """Say that this process was told to stop: if it is killed before it is done, that is no crash."""

    def set_metrics_provider(self, metrics: MetricsProvider) -> None:
        """Report to this provider what the handle does from now on, unless the handle has one."""

    def set_span_provider(self, spans: SpanProvider) -> None:
        """Trace adds and claims with this provider from now on, unless the handle has one."""

    def close(self) -> None:
        """Release what this handle still holds and end its session."""
