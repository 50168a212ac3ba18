"""A cache whose objects grow old (client-go tools/cache NewTTLStore)."""

import threading
from collections.abc import Iterable

from distq.client.objects import Object
from distq.clock import SYSTEM_CLOCK, Clock
from distq.informer.indexer import Keys, Objects
from distq.informer.stored_object import StoredObject, store_object


class ExpirationCache:
    """Objects by key, each for ``ttl`` seconds after it was put in; 0 or less is for ever.

    An expired object is dropped when it is looked at. Safe for threads.
    Source: client-go tools/cache ExpirationCache.
    """

    def __init__(self, ttl: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._ttl = ttl
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[StoredObject, float]] = {}

    def add(self, obj: Object) -> None:
        """Keep an object, young again. Raises ValueError for one without a name."""
        stored = store_object(obj)
        with self._lock:
            self._objects[stored.key] = stored, self._clock.monotonic()

    def update(self, obj: Object) -> None:
        """Do as ``add``, also as that of a subclass."""
        self.add(obj)

    def delete(self, obj: Object) -> None:
        """Drop an object, if there is one of its key."""
        with self._lock:
            self._objects.pop(store_object(obj).key, None)

    def replace(self, objects: Iterable[Object]) -> None:
        """Keep these objects alone, all of them young."""
        kept = [store_object(obj) for obj in objects]
        with self._lock:
            now = self._clock.monotonic()
            self._objects = {stored.key: (stored, now) for stored in kept}

    def get(self, obj: Object) -> Object | None:
        """Return the object kept under the key of this one."""
        return self.get_by_key(store_object(obj).key)

    def get_by_key(self, key: str) -> Object | None:
        """Return the object of a key, None where there is none or it has expired."""
        with self._lock:
            stored = self._fresh(key)
        return stored.decode() if stored else None

    def list(self) -> Objects:
        """Return all objects that have not expired, in no order."""
        with self._lock:
            # of a copy, since a look drops what has expired
            fresh = [stored for key in list(self._objects) if (stored := self._fresh(key))]
        return [stored.decode() for stored in fresh]

    def list_keys(self) -> Keys:
        """Return all keys, also those of expired objects that were not looked at since."""
        with self._lock:
            return list(self._objects)

    def _fresh(self, key: str) -> StoredObject | None:
        stored, since = self._objects.get(key, (None, 0.0))
        if stored is not None and 0 < self._ttl < self._clock.monotonic() - since:
            del self._objects[key]
            return None
        return stored
