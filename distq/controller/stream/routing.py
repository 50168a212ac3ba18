"""From what happened to an object to the keys that it means and what to remember of it."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from distq.controller.event import Event, EventType
from distq.controller.stream.known import Known
from distq.controller.stream.mapping import KeysOf
from distq.controller.watches import ResourceWatch
from distq.errors import DistqError
from distq.informer.objects import Metadata
from distq.informer.wire import RawObject, WatchEvent

logger = logging.getLogger(__name__)

EVENT_TYPES: dict[str, EventType] = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


class RoutingError(DistqError):
    """A predicate or mapping function raised, or returned what cannot be a key."""


class Route(NamedTuple):
    """The keys to enqueue for an object, and what is known of it from then on; None: it is gone."""

    name: str
    keys: Sequence[bytes]
    known: Known | None


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
        self._last: dict[str, Metadata] = {}

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
        keys = self._keys(event, obj)
        if gone := event.type == "delete":
            self.forget(obj)
        else:
            self.remember(obj)
        if keys is None:
            enqueued, kept = [], before.keys
        elif self.mapped:
            enqueued, kept = list(dict.fromkeys([*before.keys, *keys])), keys
        else:
            enqueued, kept = keys, ()
        return Route(obj.key, enqueued, None if gone else Known(obj.version, kept))

    def _keys(self, event: Event, obj: RawObject) -> list[bytes] | None:
        """Return the event's keys, None where it is filtered."""
        try:
            return list(dict.fromkeys(self._keys_of(event))) if self._predicate(event) else None
        except Exception as error:
            self.failures += 1
            logger.exception(
                "%s: a predicate or mapping function failed on %s at version %s; the stream stands still "
                "until it works",
                self._resource,
                obj.key,
                obj.version,
            )
            raise RoutingError(f"no keys of {obj.key}: {type(error).__name__}: {error}") from error
