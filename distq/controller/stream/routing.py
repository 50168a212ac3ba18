"""From what happened to an object to the keys that it means and what to remember of it."""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from distq.clock import Clock
from distq.controller.cached import event_context
from distq.controller.cached.caching import Caching, KeptObject
from distq.controller.event import Event, EventType
from distq.controller.stream.failure_log import FailureLog
from distq.controller.stream.known import Known
from distq.controller.stream.last_seen import LastSeen
from distq.controller.stream.mapping import KeysOf, key_of_name
from distq.controller.watches import ResourceWatch, Watches, title
from distq.errors import ApiError, CacheNotSynced, DistqError, RedisError
from distq.informer.json_depth import Unreadable
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

    def leave_out(self, obj: RawObject) -> None:
        """Say and count that an object is left out, of which neither name nor version can be read."""
        self._count()
        self._log.left_out(obj, "all")

    def route(self, event: WatchEvent, before: Known, replaced: Replaced = None) -> Route:
        """Return where an event of the watch leads; ``before`` is what is known of its object.

        Raises RoutingError, and what ended the stream in the midst of it.
        """
        obj = event.object
        kind = EVENT_TYPES[event.type]
        old = self.last_seen.old(obj) if kind == "update" else None
        return self._route(Event(kind, obj, old), obj, before, replaced)

    def route_listed(self, obj: RawObject, before: Known, replaced: Replaced = None) -> Route:
        """Return where an object leads that came with a list; raises as ``route`` does."""
        kind: EventType = "update" if before.version else "create"
        return self._route(Event(kind, obj, in_initial_list=True), obj, before, replaced)

    def route_vanished(self, name: str, before: Known, replaced: Replaced, gone_at: str) -> Route:
        """Return where an object leads that a list shows no longer; raises RoutingError."""
        self.routed_at = self._monotonic()
        item = key_of_name(name)
        gone_at = gone_at if item else ""  # else the cache never had it
        if not self.mapped:
            return Route(name, item, None, gone_at=gone_at)
        self._begin(name, None, gone_at)
        keys = list(dict.fromkeys([*before.keys, *self._keys_of_replaced(replaced)]))
        return Route(name, keys, None, gone_at=gone_at)

    def unchanged(self, obj: RawObject, before: Known) -> Route | None:
        """Return what remains to be done of an object that was handed over: it belongs into the cache."""
        self.routed_at = self._monotonic()
        kept = self._kept(obj)
        problem = kept.problem if kept else None
        if problem is None:
            problem = self._remember(obj)
        if problem is not None:
            unrouted, cached = self._unrouted_by(problem, obj), kept.object if kept else None
            return Route(obj.key, (), Known("", before.keys), cached, unrouted=unrouted)
        return Route(obj.key, (), before, kept.object) if kept else None

    def _route(self, event: Event, obj: RawObject, before: Known, replaced: Replaced) -> Route:
        self.routed_at = self._monotonic()
        if event.type == "delete":
            return self._route_deleted(event, obj, before, replaced)
        self._say_what_is_left_out(obj)
        kept = self._kept(obj)
        keys, problem = self._keys_or_problem(event, obj, kept)
        unrouted = None if problem is None else self._unrouted_by(problem, obj)
        enqueued, meant = self._enqueued_and_meant(keys, before, replaced)
        known = Known("" if unrouted else obj.version, meant)
        return Route(obj.key, enqueued, known, kept.object if kept else None, unrouted=unrouted)

    def _route_deleted(self, event: Event, obj: RawObject, before: Known, replaced: Replaced) -> Route:
        """Return where a deletion leads: it is the last event of its object, so it parks nothing.

        Where a function fails on it, a reconcile too many is harmless, and one too few is not.
        """
        keys, problem = self._keys_or_problem(event, obj, None)
        self.last_seen.forget(obj)
        if problem is not None:
            self._pass_or_stop(problem, obj)
            self._log.deleted(problem, obj)
            enqueued = before.keys if self.mapped else key_of_name(obj.key)
        else:
            enqueued, _ = self._enqueued_and_meant(keys, before, replaced)
        gone_at = obj.version if self._caching and self._caching.can_keep(obj) else ""
        return Route(obj.key, enqueued, None, gone_at=gone_at)

    def _enqueued_and_meant(
        self, keys: list[bytes] | None, before: Known, replaced: Replaced
    ) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return what to enqueue, and what to remember as handed over; no keys: neither is new."""
        if keys is None:
            return [], before.keys
        if not self.mapped:
            return keys, ()
        return list(dict.fromkeys([*before.keys, *self._keys_of_replaced(replaced), *keys])), keys

    def _kept(self, obj: RawObject) -> KeptObject | None:
        """Return what the cache keeps of an object, None where it takes none, or not this one."""
        return self._caching.keep(obj) if self._caching and self._caching.can_keep(obj) else None

    def _say_what_is_left_out(self, obj: RawObject) -> None:
        """Say and count that an object has no key, or no place in the cache."""
        if not self.mapped and not key_of_name(obj.key):
            self._count()
            self._log.left_out(obj, "the queue")
        elif self._caching and not self._caching.can_keep(obj):
            self._count()
            self._log.left_out(obj, "the cache")

    def _keys_or_problem(
        self, event: Event, obj: RawObject, kept: KeptObject | None
    ) -> tuple[list[bytes] | None, BaseException | None]:
        """Return the event's keys, None if it is filtered; or what a function, or our own look, failed with.

        Predicates and mapping functions that read the cache find the object there as it is now. What was
        handed over is what the next event is compared with, so one that fails leaves that as it was.
        """
        self._begin(obj.key, kept.object if kept else None, obj.version)
        if kept is not None and kept.problem is not None:
            return None, kept.problem
        try:
            keys = list(dict.fromkeys(self._keys_of(event))) if self._predicate(event) else None
        except BaseException as error:  # noqa: BLE001 - the program's own functions, which may call sys.exit
            return None, error
        return keys, None if event.type == "delete" else self._remember(obj)

    def _remember(self, obj: RawObject) -> BaseException | None:
        """Remember what is handed over; return why that cannot be, as of metadata of a wrong type."""
        try:
            self.last_seen.remember(obj)
        except Exception as error:  # noqa: BLE001 - it concerns this object alone
            return error
        return None

    def _keys_of_replaced(self, replaced: Replaced) -> Sequence[bytes]:
        """Return the keys of an object as it was; none where a function fails: it did so then, too."""
        if replaced is None or not self._asks_of_replaced:
            return []
        try:
            return self._keys_of(Event("update", replaced.decode()))
        except BaseException as error:
            _unwind()
            if _is_outage(error):
                raise self._stopped_by(error, replaced) from error
            return []

    def _begin(self, name: str, cached: CachedObject | None, version: str) -> None:
        stream = event_context.current()
        if self._caching and stream:
            if key_of_name(name):
                stream.begin(name, cached, version)
            else:
                stream.begin_unkept()

    def _unrouted_by(self, error: BaseException, obj: RawObject) -> Unrouted:
        """Return what is parked, or raise RoutingError where the stream is to stop."""
        self._pass_or_stop(error, obj)
        self._log.parked(error, obj)
        why = Park(f"{title(self._watch)}: {error_text(error)}", traceback_text(error)).text
        return Unrouted(next(iter(key_of_name(self._parked_as + obj.key)), b""), why)

    def _pass_or_stop(self, error: BaseException, obj: RawObject) -> None:
        """Count a failure that the stream passes; raise where it is to stop, or has ended."""
        _unwind()
        if self._watch.on_error == "stop" or _is_outage(error):
            raise self._stopped_by(error, obj) from error
        self._count()

    def _stopped_by(self, error: BaseException, obj: RawObject | StoredObject) -> RoutingError:
        self._count()
        self._log.stopped(error, obj)
        return RoutingError(f"no keys of {obj.key}: {error_text(error)}")

    def _count(self) -> None:
        self.failures += 1
        self._failed()


def _unwind() -> None:
    """Raise what ended the stream itself, if it did so while a function read the cache."""
    if stream := event_context.current():
        stream.unwind()


def _is_outage(error: BaseException) -> bool:
    """Return whether a later try may succeed though the object stays as it is."""
    if isinstance(error, ValueError) and isinstance(error.__cause__, Exception):  # of an index function
        error = error.__cause__
    if isinstance(error, Unreadable):
        return False
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
