"""What people see of a worker moves as it works."""

import json
import time
from typing import Any

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.testing.fake_clock import FakeClock
from distq.workqueue.engine import TurnSettings
from distq.workqueue.interface import Disposition, Retry, Settlement, Success
from distq.workqueue.options import QueueOptions
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from distq.workqueue.turns import TurnReply
from distq.workqueue.worker import Worker
from tests.support.eventually import eventually
from tests.support.populated import SECOND
from tests.workqueue.claims import claims_of

pytestmark = pytest.mark.first_contact(13)

DONE = Settlement(Request("a"), Success())


def _count(worker: Worker, settlements: list[Settlement], kinds: list[Any]) -> None:
    """Count a turn after which these are of these kinds."""
    dispositions = [Disposition(kind) for kind in kinds]
    worker.count(settlements, TurnReply(5000, claims_of(), dispositions, 0.0, alone=False))


def test_counts_are_seen_long_before_the_next_heartbeat_is_due(connection: Connection) -> None:
    """A heartbeat of 10 s keeps the claims; finished work is shown sooner."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    for _ in range(2):
        queue.settle(queue.get())
    began = time.monotonic()
    eventually(lambda: Inspector(connection).workers("foos")[0].done == 2)
    assert Inspector(connection).queues("foos")[0].done_per_second > 0
    assert time.monotonic() - began < 8.0  # of 10; how much sooner is for people to see
    queue.close()


def test_the_rate_follows_the_work_done_and_then_there_is_no_news() -> None:
    """It rises and falls within seconds, with any intervals, and an idle worker costs nothing further."""
    clock = FakeClock()
    worker = Worker(TurnSettings(QueueOptions(clock=clock)))
    worker.describe()
    assert not worker.has_news()
    for _ in range(10):
        _count(worker, [DONE] * 15, ["ended"] * 15)
        assert worker.has_news()
        clock.step(1.5)
        described = worker.describe()
    assert '"done_per_second": 9.' in described
    clock.step(10.0)
    assert '"done_per_second": 0.3' in worker.describe()
    clock.step(20.0)
    worker.describe()
    assert not worker.has_news()


def test_failures_have_a_rate_of_their_own() -> None:
    """Where all fails nothing is done: a page that shows both must not say that it is."""
    clock = FakeClock()
    worker = Worker(TurnSettings(QueueOptions(clock=clock)))
    worker.describe()
    failed = Settlement(Request("a"), Retry("ValueError: no"))
    for _ in range(10):
        _count(worker, [failed] * 6 + [DONE] * 3, ["delayed"] * 6 + ["ended"] * 3)
        clock.step(1.5)
        described = json.loads(worker.describe())
    assert described["failed_per_second"] == pytest.approx(2 * described["done_per_second"], abs=0.01)
    assert 3.5 < described["failed_per_second"] < 4.0
    clock.step(10.0)
    _count(worker, [failed], ["delayed"])
    assert worker.has_news()


def test_how_long_items_waited_and_were_held_is_measured_by_the_servers_clock(connection: Connection) -> None:
    """Each claim and each settlement counts once, with any outcome; a released item was no work."""
    queue = Queue("foos", connection)
    connection.server_time = 1_795_000_000 * SECOND
    queue.add("done", "failed", "released", "done-later")
    queue.add("delayed", after=2.0)
    connection.server_time += 3 * SECOND
    done, failed, released, later, delayed = [queue.get(timeout=5) for _ in range(5)]
    connection.server_time += SECOND // 50
    queue.settle(done)
    queue.settle(failed, ValueError("no"))
    queue.release(released)
    queue.settle(delayed)
    connection.server_time += 400 * SECOND
    queue.settle(later)
    assert not queue.settle(later)  # refused
    connection.server_time = 0
    queue.close()
    for ring in ("10s", "5m"):  # four waited 3 s and one 1 s; three took 20 ms, and one 400 s
        kept = connection.execute("HGET", queue_key("foos", "history"), f"{ring} durations")
        assert kept == b"k1m4 f3t1", ring
