"""One's own writes, laid over a cache that has not received them (client-go tools/cache MutationCache)."""

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass

from distq.client.objects import Object
from distq.clock import SYSTEM_CLOCK, Clock
from distq.informer.indexer import Indexer, Objects, index_values
from distq.informer.objects import is_older
from distq.informer.stored_object import DeletedFinalStateUnknown, StoredObject, store_object

CAPACITY = 100
"""Writes that are remembered at most, the one not used for the longest time goes first; and deletions."""


@dataclass(frozen=True, slots=True)
class _Mutation:
    """The answer to a write, and when it came."""

    written: StoredObject
    uid: str
    since: float


class MutationCache:
    """Read a cache as if it had seen the writes of this process.

    ``mutation(obj)`` notes the answer to a write; until the cache has it, or ``ttl`` seconds went by, the
    newer of the two is returned. With ``include_adds`` objects that the cache does not have at all are
    there, too. Call ``on_add_or_update`` and ``on_delete`` from a handler of the cache's informer. Safe for
    threads. Source: client-go tools/cache MutationCache.
    """

    def __init__(
        self,
        indexer: Indexer,
        *,
        ttl: float = 300.0,
        include_adds: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._indexer = indexer
        self._ttl = ttl
        self._include_adds = include_adds
        self._clock = clock
        self._lock = threading.Lock()
        self._mutations: OrderedDict[str, _Mutation] = OrderedDict()
        # The uids; apart, since deletions of objects that others wrote must not push writes out.
        self._deleted: deque[str] = deque(maxlen=CAPACITY)

    def mutation(self, obj: Object) -> None:
        """Note an object from the answer to a write, unless a newer state of it is known, or its deletion."""
        stored, uid = store_object(obj), _uid(obj)
        with self._lock:
            if uid in self._deleted:
                return
            known = self._live(stored.key)
            if known is None or is_older(known.written.version, stored.version):
                self._mutations[stored.key] = _Mutation(stored, uid, self._clock.monotonic())
                self._mutations.move_to_end(stored.key)
                if len(self._mutations) > CAPACITY:
                    self._mutations.popitem(last=False)

    def get_by_key(self, key: str) -> Object | None:
        """Return the newer of the cached and the written object of a key."""
        with self._lock:
            newer = self._newer(key, self._indexer.stored(key))
        return newer.decode() if newer else None

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index of the cache has under a value, or would have after the writes.

        An object that a write took out of the value is left out. Raises ConfigError for an unknown index.
        """
        with self._lock:
            found = {stored.key: stored for stored in self._indexer.stored_by_index(name, value)}
            keys = dict.fromkeys([*self._mutations, *found])  # their order, so that looking changes none
            newest = [self._newer(key, found.get(key) or self._indexer.stored(key)) for key in keys]
        function = self._indexer.get_indexers()[name]
        objects = [stored.decode() for stored in newest if stored]
        return [obj for obj in objects if value in index_values(function, obj)]

    def on_add_or_update(self, obj: Object) -> None:
        """Forget a written object once the cache has it, or a newer one."""
        stored = store_object(obj)
        with self._lock:
            known = self._mutations.get(stored.key)
            if known and not is_older(stored.version, known.written.version):
                del self._mutations[stored.key]

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """Forget the writes of a deleted object, also one whose answer comes later."""
        if isinstance(obj, DeletedFinalStateUnknown):
            obj = obj.obj
        stored, uid = store_object(obj), _uid(obj)
        with self._lock:
            if uid:
                self._deleted.append(uid)
            known = self._mutations.get(stored.key)
            # then the write was of an object that was created later under this name
            anew = known and known.uid != uid and is_older(stored.version, known.written.version)
            if known and not anew:
                del self._mutations[stored.key]

    def _newer(self, key: str, cached: StoredObject | None) -> StoredObject | None:
        known = self._live(key)
        if known is None:
            return cached
        if cached is None:
            return known.written if self._include_adds else None
        return known.written if is_older(cached.version, known.written.version) else cached

    def _live(self, key: str) -> _Mutation | None:
        known = self._mutations.get(key)
        if known is not None and self._clock.monotonic() - known.since > self._ttl:
            del self._mutations[key]
            return None
        if known is not None:
            self._mutations.move_to_end(key)
        return known


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))
