"""Elect one leader among processes, as client-go's tools/leaderelection does.

Promised: while monotonic clocks run at the same speed, of the electors of one lock that follow these rules at
most one gets True from ``may_act()`` at a time; a leader that dies is replaced when the lease it stored has
ended, one that stops as soon as it released; each term has a greater epoch than the terms before.

Not promised: that an act begun by a leader ends in its term. Send the epoch with each act that must not be
overtaken, and let its receiver refuse lower ones. An elector that starts just after the Lease was deleted
cannot know that another process leads: the two overlap for up to a retry period.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from distq.leaderelection.config import LeaderElectionConfig
from distq.leaderelection.elector import LeaderElector
from distq.leaderelection.lock import LeaderElectionRecord, Lock

if TYPE_CHECKING:
    from distq.leaderelection.lease_lock import LeaseLock
    from distq.leaderelection.redis_lock import RedisLock

_MODULES = {
    "LeaseLock": "distq.leaderelection.lease_lock",  # needs the Kubernetes client
    "RedisLock": "distq.leaderelection.redis_lock",
}

__all__ = ["LeaderElectionConfig", "LeaderElectionRecord", "LeaderElector", "LeaseLock", "Lock", "RedisLock"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
