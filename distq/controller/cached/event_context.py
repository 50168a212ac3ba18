"""The objects that a leader's stream is handing over: its predicates and mapping functions see them first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import NamedTuple, Self

from distq.redisio.object_cache import CachedObject


class Place(NamedTuple):
    """Identifies a cache: the queue that a watch feeds, the watch's identity, and its namespace."""

    queue: str
    identity: str
    namespace: str | None


Publish = Callable[[str, CachedObject | None, str], None]
"""Puts an object of this name into its cache; None is one that is gone as of the version."""


class EventContext:
    """The objects of the commits that a stream prepares, None for those that are gone.

    A context, in which its thread hands them over; ``stopped`` ends all waiting. It also notes the cache for
    which its stream waits meanwhile: a stream that waits for itself, directly or through others, would wait
    for ever.
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

        An object that is missing from the other cache leads to a reconcile later, which then finds this
        object. If both caches were read before either object is in them, neither reconcile would see both.
        """
        unpublished, self._unpublished = self._unpublished, None
        if self._publish and unpublished:
            try:
                self._publish(*unpublished)
            except BaseException as error:
                self._ended = error
                raise

    def unwind(self) -> None:
        """Raise again the error that ended the stream while a function read a cache and perhaps hid it."""
        if self._ended is not None:
            raise self._ended

    def waits_for_itself(self, place: Place) -> bool:
        """Return whether that cache waits for this stream to go on, directly or through others."""
        # a copy: other streams begin and end to wait meanwhile
        waits = [(stream.place, awaited) for stream, awaited in list(_waits.items())]
        reached = [place]
        for each in reached:  # the loop appends to it
            reached += [to for by, to in waits if by == each and to not in reached]
        return self.place in reached

    @contextmanager
    def waiting_for(self, place: Place) -> Iterator[None]:
        """Note, for others, the cache for which it waits in the block."""
        _waits[self] = place
        try:
            yield
        finally:
            del _waits[self]


_waits: dict[EventContext, Place] = {}
"""The cache for which each stream waits; a place may have two streams, of an ended term and of the next."""

_current: ContextVar[EventContext | None] = ContextVar("distq_event_context", default=None)


def is_waiting(place: Place) -> bool:
    """Return whether the stream of that cache waits for another cache now."""
    return any(stream.place == place for stream in list(_waits))


def current() -> EventContext | None:
    """Return the context of this thread, None outside of predicates and mapping functions."""
    return _current.get()
