"""From what happened to an object to the keys that it means and what to remember of it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from distq.controller.cached import handing_over
from distq.controller.cached.caching import Caching
from distq.controller.event import Event, EventType
from distq.controller.stream.known import Known
from distq.controller.stream.mapping import KeysOf
from distq.controller.watches import ResourceWatch
from distq.errors import DistqError
from distq.informer.objects import Metadata
from distq.informer.wire import RawObject, WatchEvent
from distq.redisio.object_cache import CachedObject

logger = logging.getLogger(__name__)

EVENT_TYPES: dict[str, EventType] = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


class RoutingError(DistqError):
    """A predicate, mapping or index function or a transform raised, or returned what cannot be a key."""


class Route(NamedTuple):
    """The keys to enqueue for an object, and what is known of it from then on; None: it is gone.

    Where the watch is cached, ``cached`` is what is kept of the object, or it is gone as of ``gone_at``.
    """

    name: str
    keys: Sequence[bytes]
    known: Known | None
    cached: CachedObject | None = None
    gone_at: str = ""


class Router:
    """Applies a watch's predicates and mapping; ``mapped`` means that keys are others than the objects' own.

    A filtered event leaves the keys alone that were handed over for the object before: should it vanish
    unseen, these are to be enqueued.
    """

    def __init__(self, watch: ResourceWatch, keys_of: KeysOf) -> None:
        self.failures = 0
        self.mapped = watch.mapped
        self._resource = watch.resource
        self._keys_of = keys_of
        self._predicate = watch.predicate
        self._caching = Caching.of(watch)
        self._last: dict[str, Metadata] = {}

    @property
    def cached(self) -> bool:
        """Return whether objects are kept."""
        return self._caching is not None

    def route(self, event: WatchEvent, before: Known) -> Route:
        """Return where an event of the watch leads; ``before`` is what is known of its object.

        Raises RoutingError.
        """
        obj = event.object
        kind = EVENT_TYPES[event.type]
        last = self._last.get(obj.key) if kind == "update" else None
        old = {"metadata": last} if last else None
        return self._route(Event(kind, obj, old), obj, before)

    def route_listed(self, obj: RawObject, before: Known) -> Route:
        """Return where an object leads that came with a list; raises RoutingError."""
        kind: EventType = "create" if before.version is None else "update"
        return self._route(Event(kind, obj, in_initial_list=True), obj, before)

    def unchanged(self, obj: RawObject, before: Known) -> Route | None:
        """Return what remains to be done of an object that was handed over: it belongs into the cache."""
        self.remember(obj)
        if self._caching is None:
            return None
        with self._users_code(obj):
            return Route(obj.key, (), before, self._caching.keep(obj))

    def remember(self, obj: RawObject) -> None:
        """Keep the object's metadata where a predicate compares."""
        if self._predicate.compares:
            self._last[obj.key] = obj.metadata

    def forget(self, obj: RawObject) -> None:
        """Drop the object's metadata: an event that is still to come would be compared with itself."""
        self._last.pop(obj.key, None)

    def forget_all(self) -> None:
        """Drop all metadata, for the same reason."""
        self._last.clear()

    def _route(self, event: Event, obj: RawObject, before: Known) -> Route:
        gone = event.type == "delete"
        cached, keys = self._kept_and_keys(event, obj)
        if gone:
            self.forget(obj)
        else:
            self.remember(obj)
        if keys is None:
            enqueued, kept = [], before.keys
        elif self.mapped:
            enqueued, kept = list(dict.fromkeys([*before.keys, *keys])), keys
        else:
            enqueued, kept = keys, ()
        known = None if gone else Known(obj.version, kept)
        return Route(obj.key, enqueued, known, cached, obj.version if gone and self._caching else "")

    def _kept_and_keys(self, event: Event, obj: RawObject) -> tuple[CachedObject | None, list[bytes] | None]:
        """Return what is kept of the object, None for nothing, and the event's keys, None if it is filtered.

        Predicates and mapping functions that read the cache find the object there as it is now.
        """
        with self._users_code(obj):
            cached = self._caching.keep(obj) if self._caching and event.type != "delete" else None
            stream = handing_over.current()
            if self._caching and stream:
                stream.objects[obj.key] = cached
            return cached, list(dict.fromkeys(self._keys_of(event))) if self._predicate(event) else None

    @contextmanager
    def _users_code(self, obj: RawObject) -> Iterator[None]:
        """Turn what a program's own functions raise on an object into a RoutingError."""
        try:
            yield
        except Exception as error:
            self.failures += 1
            logger.exception(
                "%s: a predicate, mapping or index function, or a transform failed on %s at version %s; "
                "the stream stands still until it works",
                self._resource,
                obj.key,
                obj.version,
            )
            raise RoutingError(f"no keys of {obj.key}: {type(error).__name__}: {error}") from error
