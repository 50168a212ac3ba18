"""Reading a cache by key, namespace, labels and index (client-go listers)."""

from collections.abc import Callable

from distq.client.objects import Object
from distq.informer.indexer import NAMESPACE_INDEX, Indexer, Objects, Stored
from distq.informer.selectors import Labels, label_selector
from distq.informer.stored_object import StoredObject


class Lister:
    """Look at what an informer has cached; nothing here asks the API server.

    Objects are decoded when they are asked for, and are the caller's to change.
    Source: client-go tools/cache GenericLister.
    """

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    def get(self, key: str) -> Object | None:
        """Return the object of a key, ``namespace/name`` or ``name``; None where there is none."""
        return self._indexer.get_by_key(key)

    def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match, in no order.

        Raises ConfigError for a bad selector. Source: client-go tools/cache ListAll, ListAllByNamespace.
        """
        selected = _selection(label_selector)
        return [stored.decode() for stored in self._in(namespace) if selected is None or selected(stored)]

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value. Raises ConfigError for an unknown index."""
        return self._indexer.by_index(name, value)

    def _in(self, namespace: str | None) -> Stored:
        if namespace is None:
            return self._indexer.all_stored()
        if NAMESPACE_INDEX in self._indexer.get_indexers():
            return self._indexer.stored_by_index(NAMESPACE_INDEX, namespace)
        prefix = f"{namespace}/"
        return [stored for stored in self._indexer.all_stored() if stored.key.startswith(prefix)]


def _selection(selector: str | Labels) -> Callable[[StoredObject], bool] | None:
    if not selector:
        return None
    matches = label_selector(selector)
    return lambda stored: matches(stored.metadata().get("labels") or {})
