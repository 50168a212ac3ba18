"""A cache of objects with indices over them (client-go tools/cache Store, Indexer, ThreadSafeStore)."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from distq.client.objects import Object
from distq.errors import ConfigError
from distq.informer.stored_object import StoredObject, store_object

IndexFunc = Callable[[Object], Sequence[str]]
"""From an object to the values under which an index finds it."""

Objects = list[Object]
Keys = list[str]
Stored = list[StoredObject]
_Indices = dict[str, dict[str, set[str]]]

NAMESPACE_INDEX = "namespace"
"""The name that the index by namespace usually has (client-go NamespaceIndex)."""


def meta_namespace_index_func(obj: Object) -> list[str]:
    """Return the object's namespace (client-go MetaNamespaceIndexFunc)."""
    return [obj.get("metadata", {}).get("namespace") or ""]


def meta_labels_index_func(obj: Object) -> list[str]:
    """Return the object's labels, each as ``key=value``.

    With this index ``Lister.list(label_selector="app=web,!canary")`` looks only at objects that have
    ``app=web``.
    """
    return [f"{key}={value}" for key, value in (obj.get("metadata", {}).get("labels") or {}).items()]


def labels_index(indexers: Mapping[str, IndexFunc]) -> str | None:
    """Return the name of the index by labels, None where there is none."""
    return next((name for name, function in indexers.items() if function is meta_labels_index_func), None)


class Indexer:
    """Objects by key, ``namespace/name``, and by the values of index functions.

    Each read decodes the objects anew, so that a caller cannot change the cache. An index function that
    raises, or returns one text instead of a list, makes the call raise ValueError, and changes nothing; only
    a deletion is done nevertheless. Safe for threads.
    Source: client-go tools/cache Indexer.
    """

    def __init__(self, indexers: Mapping[str, IndexFunc] | None = None) -> None:
        self._lock = threading.RLock()
        self._objects: dict[str, StoredObject] = {}
        self._indexers: dict[str, IndexFunc] = {}
        self._indices: _Indices = {}
        self._version = ""
        self.add_indexers(indexers or {})

    # Objects

    def add(self, obj: Object) -> None:
        """Keep an object, in place of the one of the same key. Raises ValueError without a name."""
        self.put(store_object(obj))

    def update(self, obj: Object) -> None:
        """Do as ``add``, also as that of a subclass."""
        self.add(obj)

    def delete(self, obj: Object) -> None:
        """Drop the object of the same key, if there is one."""
        stored = store_object(obj)
        self.drop(stored.key, stored.version)

    def replace(self, objects: Iterable[Object], version: str = "") -> None:
        """Keep these objects alone, as of ``version``."""
        self.put_all([store_object(obj) for obj in objects], version)

    def get(self, obj: Object) -> Object | None:
        """Return the object kept under the key of this one."""
        return self.get_by_key(store_object(obj).key)

    def get_by_key(self, key: str) -> Object | None:
        """Return the object of a key, None where there is none."""
        stored = self.stored(key)
        return stored.decode() if stored else None

    def list(self) -> Objects:
        """Return all objects, in no order."""
        return [stored.decode() for stored in self.all_stored()]

    def list_keys(self) -> Keys:
        """Return all keys, in no order."""
        with self._lock:
            return list(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    # Indices

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        """Add indices, also over objects kept already. Raises ConfigError for a name that is taken."""
        with self._lock:
            if taken := sorted(self._indexers.keys() & indexers.keys()):
                raise ConfigError(f"indexer conflict: {', '.join(taken)}. Give another name.")
            self._indices.update(_indices_of(indexers, self._objects.values()))
            self._indexers.update(indexers)

    def get_indexers(self) -> Mapping[str, IndexFunc]:
        """Return the index functions by name."""
        return dict(self._indexers)

    def index(self, name: str, obj: Object) -> Objects:
        """Return the objects that share a value of the index with the given one, which need not be kept."""
        with self._lock:
            self._index(name)  # for its error
            found = self.stored_by_indices({name: index_values(self._indexers[name], obj)})
        return [stored.decode() for stored in found]

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that the index has under a value. Raises ConfigError for an unknown index."""
        return [stored.decode() for stored in self.stored_by_index(name, value)]

    def index_keys(self, name: str, value: str) -> Keys:
        """Return the sorted keys that the index has under a value."""
        with self._lock:
            return sorted(self._index(name).get(value, ()))

    def list_index_func_values(self, name: str) -> Keys:
        """Return all values of the index, in no order."""
        with self._lock:
            return list(self._index(name))

    @property
    def last_store_sync_resource_version(self) -> str:
        """Return the last version applied, "" before (client-go LastStoreSyncResourceVersion)."""
        return self._version

    # For an informer: objects as they are kept

    def stored(self, key: str) -> StoredObject | None:
        """Return the object kept under a key, not decoded."""
        return self._objects.get(key)  # without the lock: a dict's calls are atomic

    def all_stored(self) -> Stored:
        """Return all objects, not decoded."""
        with self._lock:
            return list(self._objects.values())

    def stored_by_index(self, name: str, value: str) -> Stored:
        """Return the objects that the index has under a value, not decoded."""
        return self.stored_by_indices({name: [value]})

    def stored_by_indices(self, wanted: Mapping[str, Iterable[str]]) -> Stored:
        """Return the objects that each of some indices has under one of its values, not decoded.

        Objects that are gone are left out, even if an index still has their keys.
        """
        with self._lock:
            keys = [
                {key for value in values for key in self._index(name).get(value, ())}
                for name, values in wanted.items()
            ]
            return [stored for key in set.intersection(*keys) if (stored := self._objects.get(key))]

    def put(self, stored: StoredObject) -> None:
        """Keep an object."""
        with self._lock:
            new = values_of(self._indexers, stored)  # first: where it fails, nothing has changed
            self._forget(stored.key)
            self._objects[stored.key] = stored
            for name, values in new.items():
                _put(self._indices[name], values, stored.key)
            self._version = stored.version or self._version

    def put_all(self, objects: Iterable[StoredObject], version: str) -> None:
        """Keep these objects alone."""
        with self._lock:
            kept = {stored.key: stored for stored in objects}
            indices = _indices_of(self._indexers, kept.values())
            self._objects, self._indices, self._version = kept, indices, version

    def drop(self, key: str, version: str = "") -> None:
        """Drop an object, as of a version."""
        with self._lock:
            self._forget(key)
            self._objects.pop(key, None)
            self._version = version or self._version

    def _forget(self, key: str) -> None:
        old = self._objects.get(key)
        if old is None:
            return
        try:
            values = values_of(self._indexers, old)
        except ValueError:  # it once gave values of this very object: look under all
            values = {name: set(index) for name, index in self._indices.items()}
        for name, index in self._indices.items():
            for value in values[name]:
                keys = index.get(value, set())  # none where the function changed its mind
                keys.discard(key)
                if not keys:
                    index.pop(value, None)

    def _index(self, name: str) -> dict[str, set[str]]:
        if name not in self._indices:
            there = ", ".join(sorted(self._indices)) or "none"
            raise ConfigError(f'no index "{name}" (has: {there}). Add it to the indexers.')
        return self._indices[name]


def index_values(function: IndexFunc, obj: Object) -> set[str]:
    """Return the values that an index function returns; refuse a text, which only looks right."""
    values = function(obj)
    if isinstance(values, str):
        raise TypeError(f"an index function returned the text {values!r:.80}; return a list of values")
    return set(values)


def values_of(indexers: Mapping[str, IndexFunc], stored: StoredObject) -> dict[str, set[str]]:
    """Return the object's values for each index; it is decoded only for functions that look into it.

    Raises ValueError where a function fails.
    """
    values: dict[str, set[str]] = {}
    obj: Object | None = None
    for name, function in indexers.items():
        if function is meta_namespace_index_func:
            values[name] = {stored.key.partition("/")[0] if "/" in stored.key else ""}
            continue
        try:
            if function is meta_labels_index_func:
                values[name] = index_values(function, {"metadata": stored.metadata()})
                continue
            obj = obj or stored.decode()
            values[name] = index_values(function, obj)
        except BaseException as error:  # an index function may call sys.exit
            raise ValueError(
                f"index {name}: no values of {stored.key}: {type(error).__name__}: {error}"
            ) from error
    return values


def _indices_of(indexers: Mapping[str, IndexFunc], objects: Iterable[StoredObject]) -> _Indices:
    indices: _Indices = {name: {} for name in indexers}
    for stored in objects:
        for name, values in values_of(indexers, stored).items():
            _put(indices[name], values, stored.key)
    return indices


def _put(index: dict[str, set[str]], values: Iterable[str], key: str) -> None:
    for value in values:
        index.setdefault(value, set()).add(key)
