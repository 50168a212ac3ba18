"""A timedelta is taken wherever seconds are, and means the same."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from distq.client import Client
from distq.client.deletion import delete_options
from distq.controller.controller import Controller
from distq.controller.watches import Every, For
from distq.errors import ConfigError, Empty, InvalidDelay, RetryAfter
from distq.informer import SharedInformer, wait_for_cache_sync
from distq.testing import FakeClock, FakeListWatch
from distq.workqueue import (
    Failure,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    WithMaxWaitRateLimiter,
)
from distq.workqueue.interface import Result
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.options import QueueOptions
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import program_of
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

LONG, SHORT = timedelta(minutes=1, seconds=30), timedelta(milliseconds=250)


def controller(**options: Any) -> Controller:
    """Return a controller with these options."""
    return Controller(MemoryQueue("foos"), lambda _: None, **options)


def stepped(seconds: Any) -> float:
    """Return what a clock shows that was stepped so."""
    clock = FakeClock(0)
    clock.step(seconds)
    return clock.monotonic()


@pytest.mark.parametrize(
    "read",
    [
        lambda long: Result(requeue_after=long),
        lambda long: Result(long).requeue_after,
        lambda long: (str(RetryAfter(long)), RetryAfter(long).delay),
        lambda long: Every(long, list),
        lambda long: controller(reconciliation_timeout=long).reconciliation_timeout,
        lambda long: controller(max_hold=long).max_hold,
        lambda long: controller(cache_sync_timeout=long).cache_sync_timeout,
        lambda long: controller(resync_period=long).resync_period,
        lambda long: ItemExponentialFailureRateLimiter(0.01, long).program(),
        lambda long: ItemFastSlowRateLimiter(0.01, long, 3).program(),
        lambda long: WithMaxWaitRateLimiter(ItemExponentialFailureRateLimiter(), long).program(),
        lambda long: program_of(lambda _: long, Failure("a", 1, None)),
        lambda long: MemoryQueue("foos", claim_duration=long).options.claim_duration,
        lambda long: MemoryQueue("foos", revive_dead_after=long).options.revive_dead_after,
        lambda long: Client("nowhere", timeout=long)._timeout,
        lambda long: SharedInformer(FakeListWatch("v1/Pod"), resync_period=long)._resync_period,
        lambda long: delete_options(None, None, "Background", long),
        stepped,
    ],
)
def test_a_timedelta_means_its_seconds(read: Callable[[Any], Any]) -> None:
    """It is no timedelta any longer when it is read."""
    assert read(LONG) == read(90.0)
    assert "timedelta" not in repr(read(LONG))


@anywhere
def test_a_delay_may_be_a_timedelta(queue: Queue, server_time: ServerTime) -> None:
    """Of an add, of a result and of a failure."""
    queue.add("a", after=LONG)
    queue.add_after("b", LONG)
    server_time.advance(89.99)
    with pytest.raises(Empty):
        queue.get(timedelta(0))
    server_time.advance(0.01)
    (first, second) = (queue.get(SHORT), queue.get(SHORT))
    queue.settle(first, Result(requeue_after=LONG))
    queue.settle(second, RetryAfter(LONG))
    server_time.advance(89.99)
    with pytest.raises(Empty):
        queue.get(timedelta(0))
    server_time.advance(0.01)
    for request in (queue.get(SHORT), queue.get(SHORT)):
        queue.done(request)
    assert queue.shut_down_with_drain(SHORT)


def test_a_wait_may_be_a_timedelta() -> None:
    """For a cache, for events, and of adds that travel together."""
    queue = MemoryQueue("foos")
    with queue.buffered(SHORT) as adds:
        adds.add("a")
    assert queue.depth() == 1
    assert not wait_for_cache_sync(lambda: False, timeout=timedelta(0))
    assert Client("nowhere").flush_events(SHORT)


@pytest.mark.parametrize(
    ("error", "give"),
    [
        (InvalidDelay, lambda below: Result(requeue_after=below)),
        (InvalidDelay, lambda below: MemoryQueue("foos").add("a", after=below)),
        (ConfigError, lambda below: Every(below, list)),
        (ConfigError, lambda below: For("v1/Pod", after=below)),
        (ConfigError, lambda below: controller(resync_period=below)),
        (ConfigError, lambda below: QueueOptions.of({"claim_duration": below})),
        (ConfigError, ItemExponentialFailureRateLimiter),
        (ConfigError, lambda below: Client("nowhere", timeout=below)),
    ],
)
def test_a_timedelta_below_zero_is_refused_as_its_seconds_are(
    error: type[Exception], give: Callable[[Any], Any]
) -> None:
    """No other check is made of it."""
    for below in (timedelta(seconds=-1), -1.0):
        with pytest.raises(error):
            give(below)
