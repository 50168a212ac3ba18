"""From an event of an object to the keys to enqueue, and the state of the object to remember."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from distq.clock import Clock
from distq.controller.cached import event_context
from distq.controller.cached.caching import Caching, KeptObject
from distq.controller.event import Event, EventType
from distq.controller.stream.committer import Committer, Known
from distq.controller.stream.failures import FailureLog
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
"""Bytes of a watch's identity in the names of its dead objects; a key has 1024 in all."""


class RoutingError(DistqError):
    """A program's own function failed on an object, and the stream is to stop before it."""


class Unrouted(NamedTuple):
    """The dead item of an object that a function of the watch failed on, and why.

    The item is empty if no item can have the object's name: then nothing is dead.
    """

    item: bytes
    why: str


class Route(NamedTuple):
    """The keys to enqueue for an object, and its new entry of the known set; None: it is gone.

    Where the watch is cached, ``cached`` is the object's entry of the cache, or it is gone as of ``gone_at``.
    ``unrouted``: a function failed on it.
    """

    name: str
    keys: Sequence[bytes]
    known: Known | None
    cached: CachedObject | None = None
    gone_at: str = ""
    unrouted: Unrouted | None = None


Replaced = StoredObject | RawObject | None
"""An object in the cache before it is handed over anew, None if there is none, or it is not needed."""


class Router:
    """Applies a watch's predicates and mapping.

    ``mapped_keys`` is None if the keys are the objects' own. ``parked_as``: see ``parked_as_of``. ``failed``
    is called with each failure that is counted.
    """

    def __init__(
        self,
        watch: ResourceWatch,
        queue: str,
        mapped_keys: KeysOf | None,
        parked_as: str,
        *,
        failed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.routed_at = -math.inf
        """The monotonic time at which the last object came."""
        self.mapped = mapped_keys is not None
        self.caching = Caching.of(watch)
        self._watch = watch
        self._mapped_keys = mapped_keys
        self._parked_as = parked_as
        self._monotonic = clock.monotonic
        self.failures = FailureLog(title(watch), queue, clock, failed)
        self._predicate = watch.predicate if watch.predicates else None
        compared = self._predicate.compared if self._predicate else ""
        self.compares = bool(compared)
        whole = self.caching is not None and self.caching.is_whole
        self._asks_of_replaced = whole and isinstance(watch, Watches)
        keeps_by_functions = self.caching is not None and (not whole or bool(self.caching.indexers))
        self._has_readers = self.mapped or self._predicate is not None or keeps_by_functions
        """Whether functions of the program are called with its objects, and may read caches meanwhile."""
        self.last_seen = LastSeen(compared)

    def replaced(self, names: Iterable[str], committer: Committer) -> dict[str, Replaced]:
        """Return these objects of the cache, whole, if the mapping function is called with them."""
        if self.caching is None or not self._asks_of_replaced:
            return {}
        found = map(self.caching.whole, committer.cached_of(list(dict.fromkeys(names))))
        return {stored.key: stored for stored in found if stored is not None}

    def recall(self, events: Sequence[WatchEvent], committer: Committer) -> None:
        """Let predicates compare with objects that the last leader handed over, if the cache has them."""
        if self.caching is None or not self.caching.is_whole:
            return
        unknown = self.last_seen.unknown(events)
        for cached in committer.handed_over(list(unknown)):
            if last := self.caching.whole(cached):
                self.last_seen.recall(last, unknown[last.key])

    def route(
        self,
        kind: EventType,
        obj: RawObject,
        before: Known,
        replaced: Replaced = None,
        *,
        in_list: bool = False,
    ) -> Route:
        """Return the route of an object from an event or a list; ``before`` is its entry of the known set.

        Raises RoutingError, and an error that ended the stream meanwhile.
        """
        self.routed_at = self._monotonic()
        own = [] if self.mapped and self.caching is None else key_of_name(obj.key)  # else it is no use
        if kind == "delete":
            return self._route_deleted(obj, own, before, replaced)
        kept = self._kept(obj, own) if self.caching is not None else None
        if not own and not self.mapped:
            self.failures.left_out(obj, "the queue")
        elif self.caching is not None and kept is None:
            self.failures.left_out(obj, "the cache")
        old = self.last_seen.old(obj) if self.compares and kind == "update" and not in_list else None
        keys, problem = self._keys_or_problem(Event(kind, obj, old, in_list), obj, own, kept)
        if problem is None and self.compares:  # the next event is compared with what was handed over
            problem = self._remember(obj)
        unrouted = None if problem is None else self._unrouted_by(problem, obj)
        # a filtered event keeps the former keys: should the object vanish unseen, these are enqueued
        meant = () if not self.mapped else before.keys if keys is None else keys
        # without a version it counts as not handed over, and the next list tries it again
        known = Known("" if unrouted else obj.version, meant)
        if self.mapped and keys is not None:
            keys = self._and_earlier(keys, before, replaced)
        return Route(obj.key, keys or (), known, kept.object if kept else None, unrouted=unrouted)

    def route_listed(self, obj: RawObject, before: Known, replaced: Replaced = None) -> Route:
        """Return the route of an object that came with a list; raises as ``route`` does."""
        return self.route("update" if before.version else "create", obj, before, replaced, in_list=True)

    def route_vanished(self, name: str, before: Known, replaced: Replaced, gone_at: str) -> Route:
        """Return the route of an object that a list shows no longer; raises RoutingError."""
        self.routed_at = self._monotonic()
        own = key_of_name(name)
        gone_at = gone_at if own and self.caching else ""  # else the cache never had it
        if not self.mapped:
            return Route(name, own, None, gone_at=gone_at)
        self._begin(name, own, None, gone_at)
        return Route(name, self._and_earlier((), before, replaced), None, gone_at=gone_at)

    def unchanged(self, obj: RawObject, before: Known) -> Route | None:
        """Return the route of an object that was handed over already: into the cache; None without one."""
        self.routed_at = self._monotonic()
        kept = self._kept(obj, key_of_name(obj.key))
        cached, problem = kept or (None, None)
        if problem is None:
            problem = self._remember(obj)
        if problem is not None:
            unrouted = self._unrouted_by(problem, obj)
            return Route(obj.key, (), Known("", before.keys), cached, unrouted=unrouted)
        return Route(obj.key, (), before, cached) if cached else None

    def _route_deleted(self, obj: RawObject, own: list[bytes], before: Known, replaced: Replaced) -> Route:
        """Return the route of a deletion: it is the last event of its object, so it makes no item dead."""
        keys, problem = self._keys_or_problem(Event("delete", obj), obj, own, None)
        self.last_seen.forget(obj)
        if problem is not None:
            self._pass_or_stop(problem, obj)
            self.failures.deleted(problem, obj)
            # an extra reconcile is harmless, a lost one is not
            keys = before.keys if self.mapped else own
        elif self.mapped and keys is not None:
            keys = self._and_earlier(keys, before, replaced)
        gone_at = obj.version if self._can_keep(obj, own) else ""
        return Route(obj.key, keys or (), None, gone_at=gone_at)

    def _and_earlier(self, keys: Sequence[bytes], before: Known, replaced: Replaced) -> Sequence[bytes]:
        """Return the keys that a mapped object means, after those that it meant before."""
        # the replaced object may mean more keys by now: of objects that came later, and read it in the cache
        return list(dict.fromkeys([*before.keys, *self._keys_of_replaced(replaced), *keys]))

    def _can_keep(self, obj: RawObject, own: list[bytes]) -> bool:
        """Return whether a cache takes an object: its name is a key of Redis, and its version a number."""
        return bool(self.caching and own) and obj.version.isascii() and obj.version.isdigit()

    def _kept(self, obj: RawObject, own: list[bytes]) -> KeptObject | None:
        return self.caching.keep(obj) if self.caching and self._can_keep(obj, own) else None

    def _keys_or_problem(
        self, event: Event, obj: RawObject, own: list[bytes], kept: KeptObject | None
    ) -> tuple[Sequence[bytes] | None, BaseException | None]:
        """Return the event's keys, None if it is filtered; or the error of a function, or of our own look."""
        if self.caching is not None and self._has_readers:  # functions find the object as it is now
            self._begin(obj.key, own, kept.object if kept else None, obj.version)
        if kept is not None and kept.problem is not None:
            return None, kept.problem
        try:
            if self._predicate and not self._predicate(event):
                return None, None
            return (list(dict.fromkeys(self._mapped_keys(event))) if self._mapped_keys else own), None
        except BaseException as error:  # noqa: BLE001 - the program's own functions, which may call sys.exit
            return None, error

    def _remember(self, obj: RawObject) -> BaseException | None:
        """Remember the object for comparisons; return the error if it cannot be, as for bad metadata."""
        try:
            self.last_seen.remember(obj)
        except Exception as error:  # noqa: BLE001 - it concerns this object alone
            return error
        return None

    def _keys_of_replaced(self, replaced: Replaced) -> Sequence[bytes]:
        """Return the keys of an object as it was; none if the function fails: it failed then, too."""
        if replaced is None or not self._asks_of_replaced or self._mapped_keys is None:
            return []
        try:
            return self._mapped_keys(Event("update", replaced.decode()))
        except BaseException as error:
            _unwind()
            if _is_outage(error):
                raise self._stopped_by(error, replaced) from error
            return []

    def _begin(self, name: str, own: list[bytes], cached: CachedObject | None, version: str) -> None:
        """Show the functions of a cached watch its object, or that it is gone as of the version."""
        if self.caching and (stream := event_context.current()):
            if own:
                stream.begin(name, cached, version)
            else:
                stream.begin_unkept()

    def _unrouted_by(self, error: BaseException, obj: RawObject) -> Unrouted:
        """Return the dead item, or raise RoutingError if the stream is to stop."""
        self._pass_or_stop(error, obj)
        self.failures.dead(error, obj)
        why = Park(f"{title(self._watch)}: {error_text(error)}", traceback_text(error)).text
        return Unrouted(next(iter(key_of_name(self._parked_as + obj.key)), b""), why)

    def _pass_or_stop(self, error: BaseException, obj: RawObject) -> None:
        """Raise if the stream is to stop at a failure, or has ended."""
        _unwind()
        if self._watch.on_error == "stop" or _is_outage(error):
            raise self._stopped_by(error, obj) from error

    def _stopped_by(self, error: BaseException, obj: RawObject | StoredObject) -> RoutingError:
        self.failures.stopped(error, obj)
        return RoutingError(f"no keys of {obj.key}: {error_text(error)}")


def _unwind() -> None:
    """Raise the error that ended the stream itself while a function read the cache, if any."""
    if stream := event_context.current():
        stream.unwind()


def _is_outage(error: BaseException) -> bool:
    """Return whether a later try may succeed though the object stays as it is."""
    if isinstance(error, ValueError) and isinstance(error.__cause__, Exception):  # of an index function
        error = error.__cause__
    if isinstance(error, Unreadable):
        return False
    if isinstance(error, ApiError):
        status: object = error.status  # a function may have put anything there
        return isinstance(status, int) and (status in {0, 429} or status >= 500)
    return isinstance(error, RedisError | CacheNotSynced)


def parked_as_of(watch: ResourceWatch, identity: str) -> str:
    """Return the prefix of the names of a watch's dead objects.

    Empty if the names are the queue's keys; else a text that no other watch has, and with which no key
    begins.
    """
    if not watch.mapped:
        return ""
    words = " ".join(identity.split()).removeprefix("/")
    if len(words.encode()) > LONGEST_IDENTITY:
        words = f"{watch.resource} {hashlib.sha256(words.encode()).hexdigest()[:16]}"
    return f"{words}: "
