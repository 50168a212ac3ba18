"""From what happened to an object to the keys that it means and what to remember of it."""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from distq.clock import Clock
from distq.controller.cached import handing_over
from distq.controller.cached.caching import Caching, KeptObject
from distq.controller.event import Event, EventType
from distq.controller.stream.failure_log import FailureLog
from distq.controller.stream.known import Known
from distq.controller.stream.last_seen import LastSeen
from distq.controller.stream.mapping import KeysOf, key_of_name
from distq.controller.watches import ResourceWatch, Watches, title
from distq.errors import ApiError, CacheNotSynced, DistqError, LeaseLost, RedisError
from distq.informer.sink import PositionMoved
from distq.informer.stored_object import StoredObject
from distq.informer.wire import RawObject, WatchEvent
from distq.redisio.object_cache import CachedObject
from distq.workqueue.interface import Park
from distq.workqueue.outcome import error_text, traceback_text

LONGEST_IDENTITY = 600
"""Bytes of what tells a watch from others in the names of parked objects; a key has 1024 in all."""

EVENT_TYPES: dict[str, EventType] = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


class RoutingError(DistqError):
    """A program's own function failed on an object, and the stream is to stop before it."""


class Unrouted(NamedTuple):
    """What is parked of an object that a function of the watch failed on, and why.

    The item is empty where the object's name cannot be in one: then nothing is.
    """

    item: bytes
    why: str


class Route(NamedTuple):
    """The keys to enqueue for an object, and what is known of it from then on; None: it is gone.

    Where the watch is cached, ``cached`` is what is kept of the object, or it is gone as of ``gone_at``.
    ``unrouted``: a function failed on it.
    """

    name: str
    keys: Sequence[bytes]
    known: Known | None
    cached: CachedObject | None = None
    gone_at: str = ""
    unrouted: Unrouted | None = None


Replaced = StoredObject | RawObject | None
"""What the cache had of an object before it is handed over anew, None where nothing, or nobody asks."""


class Router:
    """Applies a watch's predicates and mapping; ``mapped`` means that keys are others than the objects' own.

    A filtered event leaves the keys alone that were handed over for the object before: should it vanish
    unseen, these are to be enqueued. A mapping function may know of more by now: what came since, and read
    of the object in the cache. So it is asked about what is ``replaced``, too. An object that a function
    failed on counts as not handed over: whoever lists tries it again. ``parked_as`` stands before its name
    where that is parked, see ``parked_as_of``.
    """

    def __init__(
        self,
        watch: ResourceWatch,
        queue: str,
        keys_of: KeysOf,
        parked_as: str,
        *,
        failed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.failures = 0
        self.routed_at = -math.inf
        """The monotonic time at which the last object came."""
        self.mapped = watch.mapped
        self._watch = watch
        self._keys_of = keys_of
        self._parked_as = parked_as
        self._failed = failed
        self._monotonic = clock.monotonic
        self._log = FailureLog(title(watch), queue, clock)
        self._predicate = watch.predicate
        self._caching = Caching.of(watch)
        whole = self._caching is not None and self._caching.is_whole
        self._asks_of_replaced = whole and isinstance(watch, Watches)
        self.last_seen = LastSeen(self._predicate.compared)

    @property
    def cached(self) -> bool:
        """Return whether objects are kept."""
        return self._caching is not None

    def replaced(
        self, names: Sequence[str], cached_of: Callable[[Sequence[str]], Sequence[CachedObject]]
    ) -> dict[str, Replaced]:
        """Return what the cache has of objects, whole, where the mapping function is asked about it."""
        if self._caching is None or not self._asks_of_replaced:
            return {}
        found = map(self._caching.whole, cached_of(names))
        return {stored.key: stored for stored in found if stored is not None}

    def route(self, event: WatchEvent, before: Known, replaced: Replaced = None) -> Route:
        """Return where an event of the watch leads; ``before`` is what is known of its object.

        Raises RoutingError.
        """
        obj = event.object
        kind = EVENT_TYPES[event.type]
        old = self.last_seen.old(obj) if kind == "update" else None
        return self._route(Event(kind, obj, old), obj, before, replaced)

    def route_listed(self, obj: RawObject, before: Known, replaced: Replaced = None) -> Route:
        """Return where an object leads that came with a list; raises RoutingError."""
        kind: EventType = "update" if before.version else "create"
        return self._route(Event(kind, obj, in_initial_list=True), obj, before, replaced)

    def route_vanished(self, name: str, before: Known, replaced: Replaced, gone_at: str) -> Route:
        """Return where an object leads that a list shows no longer; raises RoutingError."""
        self.routed_at = self._monotonic()
        if not self.mapped:
            return Route(name, key_of_name(name), None, gone_at=gone_at)
        self._begin(name, None, gone_at)
        keys = list(dict.fromkeys([*before.keys, *self._keys_of_replaced(replaced)]))
        return Route(name, keys, None, gone_at=gone_at)

    def unchanged(self, obj: RawObject, before: Known) -> Route | None:
        """Return what remains to be done of an object that was handed over: it belongs into the cache."""
        self.routed_at = self._monotonic()
        self.last_seen.remember(obj)
        if self._caching is None:
            return None
        kept = self._caching.keep(obj)
        if kept.problem is None:
            return Route(obj.key, (), before, kept.object)
        unrouted = self._unrouted_by(kept.problem, obj)
        return Route(obj.key, (), Known("", before.keys), kept.object, unrouted=unrouted)

    def _route(self, event: Event, obj: RawObject, before: Known, replaced: Replaced) -> Route:
        self.routed_at = self._monotonic()
        gone = event.type == "delete"
        kept = None if gone or self._caching is None else self._caching.keep(obj)
        gone_at = obj.version if gone and self._caching else ""
        keys, unrouted = self._keys_or_problem(event, obj, kept)
        if gone:
            self.last_seen.forget(obj)
        elif unrouted is None:  # else what was handed over before it is still what the next is compared with
            self.last_seen.remember(obj)
        if unrouted is not None:
            enqueued, meant = before.keys if gone else [], before.keys
        elif keys is None:
            enqueued, meant = [], before.keys
        elif self.mapped:
            left = self._keys_of_replaced(replaced)
            enqueued, meant = list(dict.fromkeys([*before.keys, *left, *keys])), keys
        else:
            enqueued, meant = keys, ()
        known = None if gone else Known("" if unrouted else obj.version, meant)
        return Route(obj.key, enqueued, known, kept.object if kept else None, gone_at, unrouted)

    def _keys_or_problem(
        self, event: Event, obj: RawObject, kept: KeptObject | None
    ) -> tuple[list[bytes] | None, Unrouted | None]:
        """Return the event's keys, None if it is filtered; or what is parked, where a function fails.

        Predicates and mapping functions that read the cache find the object there as it is now.
        """
        self._begin(obj.key, kept.object if kept else None, obj.version)
        if kept and kept.problem:
            return None, self._unrouted_by(kept.problem, obj)
        try:
            return list(dict.fromkeys(self._keys_of(event))) if self._predicate(event) else None, None
        except (PositionMoved, LeaseLost):
            raise  # the stream's own: the object was to be shown
        except Exception as error:  # noqa: BLE001 - the program's own functions
            return None, self._unrouted_by(error, obj)

    def _keys_of_replaced(self, replaced: Replaced) -> Sequence[bytes]:
        """Return the keys of an object as it was; none where a function fails: it did so then, too."""
        if replaced is None or not self._asks_of_replaced:
            return []
        try:
            return self._keys_of(Event("update", replaced.decode()))
        except (PositionMoved, LeaseLost):
            raise
        except Exception as error:
            if _is_outage(error):
                raise self._stopped_by(error, replaced) from error
            return []

    def _begin(self, name: str, cached: CachedObject | None, version: str) -> None:
        stream = handing_over.current()
        if self._caching and stream:
            stream.begin(name, cached, version)

    def _unrouted_by(self, error: Exception, obj: RawObject) -> Unrouted:
        """Return what is parked, or raise RoutingError where the stream is to stop."""
        if self._watch.on_error == "stop" or _is_outage(error):
            raise self._stopped_by(error, obj) from error
        return self._parked_by(error, obj)

    def _stopped_by(self, error: Exception, obj: RawObject | StoredObject) -> RoutingError:
        self._count()
        self._log.stopped(error, obj)
        return RoutingError(f"no keys of {obj.key}: {type(error).__name__}: {error}")

    def _parked_by(self, error: Exception, obj: RawObject) -> Unrouted:
        self._count()
        self._log.parked(error, obj)
        why = Park(f"{title(self._watch)}: {error_text(error)}", traceback_text(error)).text
        return Unrouted(next(iter(key_of_name(self._parked_as + obj.key)), b""), why)

    def _count(self) -> None:
        self.failures += 1
        self._failed()


def _is_outage(error: Exception) -> bool:
    """Return whether a later try may succeed though the object stays as it is."""
    if isinstance(error, ValueError) and isinstance(error.__cause__, Exception):  # of an index function
        error = error.__cause__
    if isinstance(error, ApiError):
        return error.status in {0, 429} or error.status >= 500
    return isinstance(error, RedisError | CacheNotSynced)


def parked_as_of(watch: ResourceWatch, identity: str) -> str:
    """Return what stands before the names of a watch's objects where they are parked.

    Nothing where they are the queue's keys; else what no other watch has, and no key begins with.
    """
    if not watch.mapped:
        return ""
    words = " ".join(identity.split()).removeprefix("/")
    if len(words.encode()) > LONGEST_IDENTITY:
        words = f"{watch.resource} {hashlib.sha256(words.encode()).hexdigest()[:16]}"
    return f"{words}: "
