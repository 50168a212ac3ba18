"""The queue. The package's docstring lists its promises; the scripts in ``redisio/lua`` keep them."""

from typing import TYPE_CHECKING, Any

from distq.workqueue.interface import Result, WorkQueue
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    Failure,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
)
from distq.workqueue.request import Request

if TYPE_CHECKING:
    from distq.workqueue.memory import MemoryQueue

__all__ = [
    "BucketRateLimiter",
    "Failure",
    "ItemExponentialFailureRateLimiter",
    "ItemFastSlowRateLimiter",
    "MaxOfRateLimiter",
    "MemoryQueue",
    "Queue",
    "RateLimiter",
    "Request",
    "Result",
    "WithMaxWaitRateLimiter",
    "WorkQueue",
    "default_controller_rate_limiter",
]


def __getattr__(name: str) -> Any:
    if name != "MemoryQueue":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from distq.workqueue.memory import MemoryQueue  # at first use: a queue in Redis needs none of it

    return MemoryQueue


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
