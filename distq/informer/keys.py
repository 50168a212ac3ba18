"""From an object to its key and back (client-go tools/cache keyfuncs)."""

from distq.client.objects import Object
from distq.errors import InvalidKey
from distq.informer.stored_object import DeletedFinalStateUnknown, store_object


def meta_namespace_key_func(obj: Object | DeletedFinalStateUnknown) -> str:
    """Return ``namespace/name``, or the name of a cluster-scoped object; of a missed deletion, too.

    Raises ValueError for an object without a name. Source: client-go tools/cache
    DeletionHandlingMetaNamespaceKeyFunc.
    """
    return obj.key if isinstance(obj, DeletedFinalStateUnknown) else store_object(obj).key


def split_meta_namespace_key(key: str) -> tuple[str, str]:
    """Return namespace and name; the namespace is "" where the key is a name alone.

    Raises InvalidKey for more than one slash. Source: client-go tools/cache SplitMetaNamespaceKey.
    """
    namespace, slash, name = key.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise InvalidKey(f"bad key {key!r:.80}: not namespace/name. Give one that an informer made.")
    return namespace, name
