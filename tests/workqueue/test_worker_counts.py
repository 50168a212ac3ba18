"""What people see of a worker moves as it works."""

import time

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.fake_clock import FakeClock
from distq.workqueue.engine import TurnSettings
from distq.workqueue.interface import Disposition, Success
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.worker import Worker
from tests.support.eventually import eventually

pytestmark = pytest.mark.first_contact(13)


def test_counts_are_seen_long_before_the_next_heartbeat_is_due(connection: Connection) -> None:
    """A heartbeat of 10 s keeps the claims; what was done is shown sooner."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    for _ in range(2):
        queue.settle(queue.get())
    began = time.monotonic()
    eventually(lambda: Inspector(connection).workers("foos")[0].done == 2)
    assert Inspector(connection).queues("foos")[0].done_per_second > 0
    assert time.monotonic() - began < 8.0  # of 10; how much sooner is for people to see
    queue.close()


def test_the_rate_follows_what_is_done_and_then_there_is_no_news() -> None:
    """It rises and falls within seconds, whatever the intervals, and a worker that is idle costs no more."""
    clock, worker = FakeClock(), Worker(TurnSettings(ItemExponentialFailureRateLimiter(), None))
    worker.describe(clock)
    assert not worker.has_news()
    for _ in range(10):
        for _ in range(15):
            worker.count(Success(), Disposition("ended"))
        assert worker.has_news()
        clock.step(1.5)
        described = worker.describe(clock)
    assert '"done_per_second": 9.' in described
    clock.step(10.0)
    assert '"done_per_second": 0.3' in worker.describe(clock)
    clock.step(20.0)
    worker.describe(clock)
    assert not worker.has_news()
