"""Reading a cache by key, namespace, labels and index (client-go listers)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from distq.call_threads import AwaitedCalls
from distq.client.objects import Object
from distq.informer.indexer import NAMESPACE_INDEX, Indexer, Objects, Stored, labels_index
from distq.informer.selectors import Labels, label_pairs, label_selector
from distq.informer.stored_object import StoredObject

THREADS = 32
"""Reads at a time, of all listers of a process; more wait for a thread."""

_calls = AwaitedCalls(THREADS, "distq-lister")


class Lister(ABC):
    """Read the cache of an informer, of this process or of the one that leads a controller.

    Objects are decoded at each read, and are the caller's to change. A controller's lister may
    raise CacheNotSynced and RedisError, and ApiError for an object that is too large for Redis, or where it
    asks on a shared queue which cluster this is.
    Source: client-go tools/cache GenericLister.
    """

    is_whole: bool = False
    """Whether objects have all their fields, managedFields apart, so that they can be written."""

    @property
    def aio(self) -> "AsyncLister":
        """The same reads for ``async def``: ``await lister.aio.get(...)``."""
        return AsyncLister(self)

    @abstractmethod
    def get(self, key: str) -> Object | None:
        """Return the object of a key, ``namespace/name`` or ``name``; None where there is none."""

    @abstractmethod
    def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match, in no order.

        Looks at all of them, or at those alone that an index by ``meta_labels_index_func`` finds. Raises
        ConfigError for a bad selector. Source: client-go tools/cache ListAll, ListAllByNamespace.
        """

    @abstractmethod
    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value. Raises ConfigError for an unknown index."""


class AsyncLister:
    """The reads of a lister for ``async def``, from any event loop: ``Lister.aio``.

    They raise the errors of the lister's reads. All listers of a process make 32 reads at a time.
    """

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    async def get(self, key: str) -> Object | None:
        """Return the object of a key, ``namespace/name`` or ``name``; None where there is none."""
        return await _calls.call(partial(self._lister.get, key))

    async def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match, in no order."""
        return await _calls.call(partial(self._lister.list, namespace, label_selector=label_selector))

    async def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value."""
        return await _calls.call(partial(self._lister.by_index, name, value))


class IndexerLister(Lister):
    """A lister of the cache that a SharedInformer has in memory."""

    def __init__(self, indexer: Indexer, *, is_whole: bool = False) -> None:
        self._indexer = indexer
        self.is_whole = is_whole

    def get(self, key: str) -> Object | None:
        """Return the object of a key."""
        return self._indexer.get_by_key(key)

    def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match."""
        selected = selection(label_selector)
        found = self._found(namespace, label_pairs(label_selector))
        return [stored.decode() for stored in found if selected(stored)]

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value."""
        return self._indexer.by_index(name, value)

    def _found(self, namespace: str | None, pairs: Sequence[str]) -> Stored:
        """Return the objects of a namespace, if one is given, that may have one of the labels."""
        indexers, wanted = self._indexer.get_indexers(), dict[str, Sequence[str]]()
        by_labels = labels_index(indexers)
        if by_labels and pairs:
            wanted[by_labels] = pairs
        if namespace is not None and NAMESPACE_INDEX in indexers:
            wanted[NAMESPACE_INDEX] = [namespace]
        found = self._indexer.stored_by_indices(wanted) if wanted else self._indexer.all_stored()
        if namespace is None or NAMESPACE_INDEX in wanted:
            return found
        return [stored for stored in found if stored.key.startswith(f"{namespace}/")]


def selection(selector: str | Labels) -> Callable[[StoredObject], bool]:
    """Return the test whether an object's labels match; raise ConfigError for a bad selector."""
    if not selector:
        return lambda _: True
    matches = label_selector(selector)
    return lambda stored: matches(stored.metadata().get("labels") or {})
