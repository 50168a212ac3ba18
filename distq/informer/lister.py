"""Reading a cache by key, namespace, labels and index (client-go listers)."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from distq.client.objects import Object
from distq.informer.aio import AsyncLister
from distq.informer.indexer import NAMESPACE_INDEX, Indexer, Objects, Stored
from distq.informer.selectors import Labels, label_selector
from distq.informer.stored_object import StoredObject


class Lister(ABC):
    """Look at what is cached, by an informer of this process or by the one that leads a controller.

    Objects are decoded when they are asked for, and are the caller's to change. A controller's lister may
    raise CacheNotSynced and RedisError, and ApiError for an object that is too large for Redis.
    Source: client-go tools/cache GenericLister.
    """

    @property
    def is_whole(self) -> bool:
        """Return whether objects have all their fields, managedFields apart, so that they can be written."""
        return False

    @property
    def aio(self) -> AsyncLister:
        """The same reads for ``async def``: ``await lister.aio.get(...)``."""
        return AsyncLister(self)

    @abstractmethod
    def get(self, key: str) -> Object | None:
        """Return the object of a key, ``namespace/name`` or ``name``; None where there is none."""

    @abstractmethod
    def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match, in no order.

        Raises ConfigError for a bad selector. Source: client-go tools/cache ListAll, ListAllByNamespace.
        """

    @abstractmethod
    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value. Raises ConfigError for an unknown index."""


class IndexerLister(Lister):
    """A lister of the cache that a SharedInformer has in memory."""

    def __init__(self, indexer: Indexer, *, is_whole: bool = False) -> None:
        self._indexer = indexer
        self._is_whole = is_whole

    @property
    def is_whole(self) -> bool:
        """Return whether the informer keeps objects as they come."""
        return self._is_whole

    def get(self, key: str) -> Object | None:
        """Return the object of a key."""
        return self._indexer.get_by_key(key)

    def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match."""
        selected = selection(label_selector)
        return [stored.decode() for stored in self._in(namespace) if selected(stored)]

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value."""
        return self._indexer.by_index(name, value)

    def _in(self, namespace: str | None) -> Stored:
        if namespace is None:
            return self._indexer.all_stored()
        if NAMESPACE_INDEX in self._indexer.get_indexers():
            return self._indexer.stored_by_index(NAMESPACE_INDEX, namespace)
        prefix = f"{namespace}/"
        return [stored for stored in self._indexer.all_stored() if stored.key.startswith(prefix)]


def selection(selector: str | Labels) -> Callable[[StoredObject], bool]:
    """Return the test whether an object's labels match; raise ConfigError for a bad selector."""
    if not selector:
        return lambda _: True
    matches = label_selector(selector)
    return lambda stored: matches(stored.metadata().get("labels") or {})
