"""The types of a queue: outcomes, Result, the WorkQueue protocol, and the turn at its core.

Behind all claims and settlements is one operation, a *turn*: it settles claims and takes new ones in a single
step, so that no crash can come between the two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, final

from distq.errors import QueueFull
from distq.redisio.scores import validate_priority
from distq.seconds import Duration, in_seconds
from distq.workqueue.rate_limiters import validate_delay
from distq.workqueue.request import Request


@dataclass(frozen=True, slots=True)
class Success:
    """Forget the failures and end the claim."""


@dataclass(frozen=True, slots=True)
class Done:
    """End the claim; the failure record stays while the item is pending, so that it backs off."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Count a failure and come back after the limiter's delay, or after ``delay`` seconds if given.

    ``cause`` is for custom limiters; it never leaves the process.
    """

    error: str
    traceback: str = ""
    delay: float | None = None
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Return the text of the failure record: the error on the first line, then the traceback."""
        return f"{self.error}\n{self.traceback}" if self.traceback else self.error


@dataclass(frozen=True, slots=True)
class After:
    """Come back after ``delay`` seconds, the failures forgotten unless ``keep_failures``."""

    delay: float
    priority: int | None = None
    keep_failures: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Put the item back in its old place, without a failure."""


@dataclass(frozen=True, slots=True)
class Park:
    """Make the item dead, unless something newer is pending."""

    error: str
    traceback: str = ""
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Return the text of the failure record: the error on the first line, then the traceback."""
        return f"{self.error}\n{self.traceback}" if self.traceback else self.error


Outcome = Success | Done | Retry | After | Release | Park


SUCCESS = Success()


@final
@dataclass(slots=True)
class Settlement:
    """The end of one claim, with its outcome; ``took`` is the handler's time in seconds, for the log.

    Not frozen: each item needs one, and a frozen one would cost three times as much.
    """

    request: Request
    outcome: Outcome
    took: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Disposition:
    """The state of an item after its settlement.

    ``refused``: the claim had ended before, nothing changed. ``ended``: nothing is pending.
    ``pending``: it is in the queue again. ``delayed``: it comes back at ``due``, seconds since
    the epoch by the server's clock. ``dead``: it gets no attempt by itself. ``unknown``: Redis never
    answered, and has dropped the session meanwhile. A Success is ``ended`` or ``refused``.
    """

    kind: Literal["refused", "ended", "pending", "delayed", "dead", "unknown"]
    due: float | None = None


ENDED, REFUSED = Disposition("ended"), Disposition("refused")


def all_ended(dispositions: Sequence[Disposition]) -> bool:
    """Return whether all these dispositions are ``ended``, as they nearly always are."""
    return dispositions.count(ENDED) == len(dispositions)


@dataclass(slots=True)
class Turn:
    """The result of a turn: the new claims, a disposition for each settlement in order, and a wait.

    ``wait`` is how many seconds a consumer that wants more may sleep unless it is woken. ``promoted`` counts
    the items that became pending: delayed ones that are due, items that came back without a delay, and dead
    ones that were revived; ``revived`` counts only the last. ``fence`` is the time of the turn, µs by the
    server's clock, and the fence of all its claims; 0 if no turn was made. ``spare`` counts the claims
    that no caller has yet; the next turn hands them out.

    It is not frozen: each turn would pay a call for each field.
    """

    requests: Sequence[Request]
    dispositions: Sequence[Disposition]
    wait: float
    promoted: int = 0
    revived: int = 0
    fence: int = 0
    spare: int = 0


@dataclass(frozen=True, slots=True, init=False)
class Result:
    """The return value of a reconcile function (controller-runtime ``reconcile.Result``).

    ``requeue_after`` is in seconds, 0 or more, at most ten years; ``priority`` (-900..900) goes with it, None
    keeps the item's. The failures are forgotten unless ``keep_failures`` is set: then the next failure backs
    off further (client-go: AddAfter without Forget). Raises InvalidDelay, InvalidPriority, and ValueError for
    a priority or ``keep_failures`` without ``requeue_after``.
    """

    requeue_after: float | None = None
    priority: int | None = None
    keep_failures: bool = False

    def __init__(
        self,
        requeue_after: Duration | None = None,
        priority: int | None = None,
        keep_failures: bool = False,
    ) -> None:
        if priority is not None and requeue_after is None:
            raise ValueError("bad Result: priority without requeue_after. Give both.")
        if not isinstance(keep_failures, bool):
            raise ValueError(f"bad Result: keep_failures {keep_failures!r:.80}. Give True or False.")
        if keep_failures and requeue_after is None:
            raise ValueError("bad Result: keep_failures without requeue_after. Give both.")
        delay = in_seconds(requeue_after)
        if delay is not None:
            validate_delay(delay, "Result: requeue_after")
        if priority is not None:
            validate_priority(priority)
        fill = object.__setattr__
        fill(self, "requeue_after", delay)
        fill(self, "priority", priority)
        fill(self, "keep_failures", keep_failures)


def queue_full(name: str, max_length: object, added: int, accepted: int) -> QueueFull:
    """Return the error for a queue at its ``max_length`` that accepted so many keys of a call."""
    return QueueFull(
        f"queue {name} is full: {max_length} items wait, {added} more were added. "
        "Wait, add workers, or raise max_length.",
        added=added,
        accepted=accepted,
    )


class WorkQueue(Protocol):
    """A deduplicated, delayed, rate-limited queue of keys (client-go ``workqueue.RateLimitingInterface``)."""

    @property
    def name(self) -> str:
        """Return the queue's name."""

    @property
    def shutting_down(self) -> bool:
        """Return whether this handle was shut down (client-go ``ShuttingDown``)."""

    def add(self, *keys: str, priority: int = 0, after: Duration | None = None) -> int:
        """Make keys pending, now or ``after`` seconds; return how many were not pending before."""

    def add_after(self, key: str, delay: Duration) -> None:
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

    def get(self, timeout: Duration | None = None) -> Request:
        """Claim the next item (client-go ``Get``); raise Empty after ``timeout`` seconds, or ShutDown."""

    def listen(self) -> Iterator[Request]:
        """Yield claimed items until the handle is shut down."""

    def done(self, request: Request) -> bool:
        """End the claim (client-go ``Done``); return False if it had ended before."""

    def settle(self, request: Request, outcome: Result | BaseException | None = None) -> bool:
        """End the claim with the reconcile function's result or error."""

    def release(self, request: Request) -> bool:
        """Put a claimed item back in its old place, without a failure."""

    def shut_down(self) -> None:
        """End get and listen of this handle at once (client-go ``ShutDown``)."""

    def shut_down_with_drain(self, timeout: Duration | None = None) -> bool:
        """Shut down and wait for this handle's claims; return whether all ended in time."""
