"""Lists and watches resources: caches and handlers for any program, as in client-go's tools/cache.

A Reflector follows a ListWatch and hands its events, in order, to one sink. A SharedInformer is
such a sink, with a cache and handlers; the controllers' streams are the other one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import distq.client  # noqa: F401 - first, since its error names the extra that is missing
from distq.informer.indexer import (
    NAMESPACE_INDEX,
    Indexer,
    meta_labels_index_func,
    meta_namespace_index_func,
)
from distq.informer.lister import Lister
from distq.informer.listwatch import ListerWatcher, ListWatch
from distq.informer.reflector import Reflector
from distq.informer.sink import PositionMoved, Sink
from distq.informer.stored_object import (
    DeletedFinalStateUnknown,
    StoredObject,
    meta_namespace_key_func,
    split_meta_namespace_key,
    strip_managed_fields,
)

if TYPE_CHECKING:
    from distq.informer.delta_fifo import Delta, DeltaFIFO, DeltaType, RealFIFO
    from distq.informer.expiration_cache import ExpirationCache
    from distq.informer.factory import SharedInformerFactory, wait_for_cache_sync
    from distq.informer.mutation_cache import MutationCache
    from distq.informer.registration import Registration, ResourceEventHandler, ResourceEventHandlerFuncs
    from distq.informer.shared_informer import SharedInformer

# Loaded at first use: a process of controllers has no SharedInformer.
_NAMES = {
    "distq.informer.delta_fifo": "Delta DeltaFIFO DeltaType RealFIFO",
    "distq.informer.expiration_cache": "ExpirationCache",
    "distq.informer.factory": "SharedInformerFactory wait_for_cache_sync",
    "distq.informer.mutation_cache": "MutationCache",
    "distq.informer.registration": "Registration ResourceEventHandler ResourceEventHandlerFuncs",
    "distq.informer.shared_informer": "SharedInformer",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "NAMESPACE_INDEX",
    "DeletedFinalStateUnknown",
    "Delta",
    "DeltaFIFO",
    "DeltaType",
    "ExpirationCache",
    "Indexer",
    "ListWatch",
    "Lister",
    "ListerWatcher",
    "MutationCache",
    "PositionMoved",
    "RealFIFO",
    "Reflector",
    "Registration",
    "ResourceEventHandler",
    "ResourceEventHandlerFuncs",
    "SharedInformer",
    "SharedInformerFactory",
    "Sink",
    "StoredObject",
    "meta_labels_index_func",
    "meta_namespace_index_func",
    "meta_namespace_key_func",
    "split_meta_namespace_key",
    "strip_managed_fields",
    "wait_for_cache_sync",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
