"""A claimed key. A worker makes one for each item, so it has slots, and its event is made when it is read."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import Any, cast

from distq.workqueue.cancellation import Cancelled, ClaimPeriod, LazyEvent


class _Events(dict[str, Cancelled]):
    """The events of one turn's claims, by key. Each is made when it is first read: most claims need none."""

    __slots__ = ("period",)

    def __init__(self, period: ClaimPeriod) -> None:
        self.period = period


class _Slots:
    """The slots of a Request. A worker makes and reads one for each item, and slots cost less than a dict."""

    __slots__ = ("__weakref__", "_cancelled", "attempt", "enqueued_at", "fence", "key", "link", "priority")
    _cancelled: threading.Event | _Events
    """Its own event; or, of a claim, the events of its turn."""


@dataclass(frozen=True)
class Request(_Slots):
    """A claimed key (controller-runtime ``reconcile.Request``).

    ``attempt`` counts from 1 and grows with each failure. ``fence`` grows with each turn of the queue: of
    two claims of a key the later one has the higher fence. ``enqueued_at`` is when the item became pending,
    seconds since the epoch by the server's clock. ``cancelled`` is set once this process has lost the claim:
    stop then. ``link`` is the W3C traceparent of the span that made the item pending, if the handle has a
    SpanProvider and the span is known.
    """

    __slots__ = ()

    key: str
    attempt: int = 1
    priority: int = 0
    fence: int = 0
    enqueued_at: float | None = None
    cancelled: threading.Event = field(default_factory=LazyEvent, compare=False, repr=False)
    link: str = field(default="", compare=False, repr=False)

    @property
    def namespace(self) -> str | None:
        """Return the part of the key before its first slash; None if it has no slash."""
        namespace, slash, _ = self.key.partition("/")
        return namespace if slash else None

    @property
    def name(self) -> str:
        """Return the part of the key after its first slash, or the whole key."""
        namespace, slash, name = self.key.partition("/")
        return name if slash else namespace

    def __getstate__(self) -> dict[str, Any]:
        """Create the event, so that a copy shares it and sees the claim's end."""
        return getattr(self, "__dict__", {}) | {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the fields to those of the original."""
        for name, value in state.items():
            object.__setattr__(self, name, value)


def _cancelled(request: Request) -> threading.Event:
    """Return the event, which is set once this process has lost the claim."""
    one = request._cancelled  # noqa: SLF001  # this module's own, here and below
    if not isinstance(one, _Events):
        return one
    # setdefault is one step: threads that race get the same event, and so does a signal handler
    return one.get(request.key) or one.setdefault(request.key, Cancelled(one.period))


def _set_cancelled(request: Request, event: threading.Event) -> None:
    object.__setattr__(request, "_cancelled", event)


for _hides_slot in "attempt", "priority", "fence", "enqueued_at", "link":
    delattr(Request, _hides_slot)  # a default; __init__ has its own copy
Request.cancelled = property(_cancelled, _set_cancelled)  # type: ignore[assignment]


class _Claim(_Slots):
    """A Request while its fields are set. A Request is frozen, so to set its own takes twice as long."""

    __slots__ = ()

    def __init__(  # noqa: PLR0917  # ``map`` gives them by position
        self,
        key: str,
        attempt: int,
        priority: int,
        enqueued_at: float,
        link: str,
        fence: int,
        events: _Events,
    ) -> None:
        self.key = key
        self.attempt = attempt
        self.priority = priority
        self.enqueued_at = enqueued_at
        self.link = link
        self.fence = fence
        self._cancelled = events
        self.__class__ = Request  # type: ignore[assignment]  # has the same slots


def claimed_requests(
    keys: Sequence[str],
    attempts: Iterable[int],
    priorities: Iterable[int],
    enqueued_at: Iterable[float],
    links: Iterable[str],
    *,
    fence: int,
    period: ClaimPeriod,
) -> list[Request]:
    """Return the Requests of one turn's claims. Each argument is a column, and only ``keys`` has to end."""
    columns = keys, attempts, priorities, enqueued_at, links, repeat(fence), repeat(_Events(period))
    return cast("list[Request]", list(map(_Claim, *columns)))


def waited(request: Request) -> float:
    """Return how many seconds the item was pending before its claim, by the server's clock."""
    return max(0.0, request.fence / 1e6 - (request.enqueued_at or 0.0))


def is_cancelled(request: Request, now: float) -> bool:
    """Return ``request.cancelled.is_set()``, given the time that the queue's clock just showed.

    It creates no event.
    """
    events: Any = request._cancelled  # noqa: SLF001
    if events.__class__ is not _Events or (events and request.key in events):
        return request.cancelled.is_set()
    period: ClaimPeriod = events.period
    return period.is_ended or (now >= period.ends_at and period.was_over(now))
