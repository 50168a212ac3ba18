"""What a leader's stream is just handing over: predicates and mapping functions see it, Redis not yet."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import NamedTuple, Self

from distq.redisio.object_cache import CachedObject


class Place(NamedTuple):
    """Which cache it is: the queue that a watch feeds, what no other watch has, and where it looks."""

    queue: str
    identity: str
    namespace: str | None


Publish = Callable[[str, CachedObject | None, str], None]
"""Puts an object of this name into its cache; None is one that is gone as of the version."""


class EventContext:
    """The objects of the commits that a stream prepares, None for those that are gone.

    A context, in which its thread hands them over until ``stopped`` ends all waiting. It also knows for which
    cache its stream waits in the midst of that, since a stream that waits for itself, through others or not,
    would wait for ever.
    """

    def __init__(self, place: Place, stopped: threading.Event, publish: Publish | None = None) -> None:
        self.place = place
        self.stopped = stopped
        self.objects: dict[str, CachedObject | None] = {}
        self._publish = publish
        self._ended: BaseException | None = None
        self._unpublished: tuple[str, CachedObject | None, str] | None = None

    def __enter__(self) -> Self:
        self._outer: Token[EventContext | None] = _current.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _current.reset(self._outer)

    def begin(self, name: str, cached: CachedObject | None, version: str) -> None:
        """Hand over an object, which its predicates and mapping function find here."""
        self.objects[name], self._unpublished = cached, (name, cached, version)

    def begin_unkept(self) -> None:
        """Hand over an object that the cache does not take: there is nothing to publish."""
        self._unpublished = None

    def publish(self) -> None:
        """Put the object into its cache, before its predicates or mapping function read another one.

        What is not yet in that one leads to a reconcile later on, which then finds this object. Were both
        read before either is there, neither would see the other.
        """
        unpublished, self._unpublished = self._unpublished, None
        if self._publish and unpublished:
            try:
                self._publish(*unpublished)
            except BaseException as error:
                self._ended = error
                raise

    def unwind(self) -> None:
        """Raise again what ended the stream while a function read the cache, whatever that made of it."""
        if self._ended is not None:
            raise self._ended

    def waits_for_itself(self, place: Place) -> bool:
        """Return whether that cache is complete no sooner than this stream goes on, be it through others."""
        waits = [(stream.place, awaited) for stream, awaited in list(_waits.items())]
        reached = [place]
        for each in reached:  # which grow meanwhile
            reached += [to for by, to in waits if by == each and to not in reached]
        return self.place in reached

    @contextmanager
    def waiting_for(self, place: Place) -> Iterator[None]:
        """Let others know for what it waits meanwhile."""
        _waits[self] = place
        try:
            yield
        finally:
            del _waits[self]


_waits: dict[EventContext, Place] = {}
"""For which cache each stream waits; of one place there may be two, of a term that ended and the next."""

_current: ContextVar[EventContext | None] = ContextVar("distq_event_context", default=None)


def is_waiting(place: Place) -> bool:
    """Return whether the stream of that cache waits for another cache now."""
    return any(stream.place == place for stream in list(_waits))


def current() -> EventContext | None:
    """Return what this thread is handing over, None outside of predicates and mapping functions."""
    return _current.get()
