"""From what happened to an object to the keys that it means and what to remember of it."""

import logging
from dataclasses import dataclass

from distq.controller.event import Event
from distq.controller.stream.batch import known_line, parse_known, possible_keys
from distq.controller.watches import KeysOf, ResourceWatch
from distq.errors import DistqError
from distq.informer.objects import Metadata
from distq.informer.wire import RawObject
from distq.redisio.keys import validate_key

logger = logging.getLogger(__name__)


class RoutingError(DistqError):
    """A predicate or mapping function raised, or gave what cannot be a key."""


@dataclass(frozen=True, slots=True)
class Route:
    """The keys to enqueue, and the known set's line; None: the object is gone."""

    keys: list[str]
    line: str | None


class Router:
    """Applies a watch's predicates and mapping.

    A filtered event leaves the keys alone that were handed over for the object before: should it vanish
    unseen, these are what must hear of it.
    """

    def __init__(self, watch: ResourceWatch, keys_of: KeysOf) -> None:
        self.failures = 0
        self._watch = watch
        self._keys_of = keys_of
        self._predicate = watch.predicate
        self._last: dict[str, Metadata] = {}

    def route(self, event: Event, obj: RawObject, before: list[str]) -> Route:
        """Return where an event leads; ``before`` are the mapped keys last handed over for its object."""
        try:
            keys = self._new_keys(event)
        except Exception as error:
            self.failures += 1
            logger.exception(
                "%s: a predicate or mapping function failed on %s at version %s; the stream stands still "
                "until it works",
                self._watch.resource,
                obj.key,
                obj.version,
            )
            raise RoutingError(f"no keys of {obj.key}: {type(error).__name__}: {error}") from error
        self.remember(obj, gone=event.type == "delete")
        if keys is None:
            enqueued, kept = [], before
        elif self._watch.mapped:
            enqueued, kept = list(dict.fromkeys([*before, *keys])), keys
        else:
            enqueued, kept = keys, []
        return Route(enqueued, None if event.type == "delete" else known_line(obj.version, kept))

    def keys_of_known(self, name: str, line: str) -> list[str]:
        """Return the keys that must hear of a known object that vanished."""
        return parse_known(line)[1] if self._watch.mapped else possible_keys([name])

    def last(self, obj: RawObject) -> Metadata | None:
        """Return the metadata that the object had before, where a predicate needs it and it is known."""
        return self._last.get(obj.key)

    def remember(self, obj: RawObject, *, gone: bool = False) -> None:
        """Keep the object's metadata where a predicate compares."""
        if not self._predicate.compares:
            return
        if gone:
            self._last.pop(obj.key, None)
        else:
            self._last[obj.key] = obj.metadata

    def forget(self) -> None:
        """Drop all metadata: an event that comes again would be compared with itself."""
        self._last.clear()

    def _new_keys(self, event: Event) -> list[str] | None:
        """Return the event's keys, None where it is filtered."""
        if not self._predicate(event):
            return None
        keys = list(dict.fromkeys(self._keys_of(event)))
        if not self._watch.mapped:
            return possible_keys(keys)
        for key in keys:
            validate_key(key)
        return keys
