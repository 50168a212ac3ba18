"""The queue. The package's docstring lists its promises; the scripts in ``redisio/lua`` keep them."""

from distq.workqueue.interface import Request, Result, WorkQueue
from distq.workqueue.memory import MemoryQueue
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
