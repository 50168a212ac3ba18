"""client-go's workqueue, shared by many processes through Redis, for Kubernetes controllers in Python.

What a queue promises, in one Redis history:

1. *Stingy*: an item that is added many times before it is claimed is processed once.
2. *Exclusive*: an item never has two live claims.
3. *Not forgotten*: an item that is added while it is claimed is processed again after the claim ends.
4. *Fair*: items of higher priority come first; within one priority, items come in the order in which they
   became pending.
5. *Never early*: a delayed item is not handed out before its time by the server's clock; of several
   delays, the earliest counts.
6. *Crash-safe*: the items of a dead worker come back; settlements and heartbeats of a zombie are rejected.
7. *Bounded state*: an item that is done leaves nothing in its queue; only dead items stay.
8. *Back-off is shared*: failure counts and token buckets belong to the queue, not to a process.
9. *Replay-safe*: a call that is repeated because its reply was lost takes effect once; only a plain
   ``add`` that is repeated after its item was claimed costs one extra reconcile.
10. *Failover keeps events*: a new leader resumes after the last committed batch; when a Redis failover
    loses writes, the leader notices and replays them; no deletion in between is missed.
11. *Poison becomes dead, and is never dropped*: a new event revives it.

What no queue can promise here: exactly-once effects; exclusivity across a Redis failover (two runs may
overlap for a heartbeat and the time to cancel); deletions around a wipe of Redis, without finalizers;
plain ``add`` calls that an asynchronous failover of Redis loses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.client.conditions import get_condition, remove_condition, set_condition
    from distq.client.objects import key_of, reference
    from distq.controller.controller import Controller
    from distq.controller.manager import Manager
    from distq.controller.ownership import (
        add_finalizer,
        controller_of,
        owned_by,
        remove_finalizer,
        set_controller_reference,
    )
    from distq.controller.watches import Every, For, Owns, Watches
    from distq.errors import DistqError, Empty, RetryAfter, ShutDown, TerminalError
    from distq.informer.indexer import meta_labels_index_func
    from distq.informer.selectors import matches
    from distq.inspector import Inspector
    from distq.redisio.connection import Connection
    from distq.workqueue.current import RequestFilter, current_request
    from distq.workqueue.interface import Result
    from distq.workqueue.queue import Queue
    from distq.workqueue.request import Request

__version__ = "0.2.0"

# Loaded at first use: some need an extra, and none should cost a program that does not use it.
_NAMES = {
    "distq.client.client": "Client",
    "distq.client.conditions": "get_condition remove_condition set_condition",
    "distq.client.objects": "key_of reference",
    "distq.controller.controller": "Controller",
    "distq.controller.manager": "Manager",
    "distq.controller.ownership": "add_finalizer controller_of owned_by remove_finalizer "
    "set_controller_reference",
    "distq.controller.watches": "Every For Owns Watches",
    "distq.errors": "DistqError Empty RetryAfter ShutDown TerminalError",
    "distq.informer.indexer": "meta_labels_index_func",
    "distq.informer.selectors": "matches",
    "distq.inspector": "Inspector",
    "distq.redisio.connection": "Connection",
    "distq.workqueue.current": "RequestFilter current_request",
    "distq.workqueue.interface": "Result",
    "distq.workqueue.queue": "Queue",
    "distq.workqueue.request": "Request",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Client",
    "Connection",
    "Controller",
    "DistqError",
    "Empty",
    "Every",
    "For",
    "Inspector",
    "Manager",
    "Owns",
    "Queue",
    "Request",
    "RequestFilter",
    "Result",
    "RetryAfter",
    "ShutDown",
    "TerminalError",
    "Watches",
    "add_finalizer",
    "controller_of",
    "current_request",
    "get_condition",
    "key_of",
    "matches",
    "meta_labels_index_func",
    "owned_by",
    "reference",
    "remove_condition",
    "remove_finalizer",
    "set_condition",
    "set_controller_reference",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'distq' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
