"""The queue as its users know it from client-go: adding, looking, listening, shutting down."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from distq.errors import ConfigError, Empty, InvalidKey, InvalidQueueName, LayoutTooNew, QueueFull, ShutDown
from distq.redisio.connection import Connection
from distq.workqueue.interface import Result, Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    Failure,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    WithMaxWaitRateLimiter,
)
from distq.workqueue.request import Request
from tests.workqueue.conftest import ServerTime, SteppedClock

Make = Callable[..., Queue]


@pytest.mark.parametrize("key", ["", "a\nb", "a\x00", "\x7f", "k" * 1025, "é" * 513, "\ud800", 7, None])
def test_a_bad_key_is_refused_and_nothing_of_the_call_is_added(
    queue: Queue, connection: Connection, key: Any
) -> None:
    """One bad key among good ones adds none of them."""
    with pytest.raises(InvalidKey, match="bad key"):
        queue.add("good", key)
    assert connection.execute("DBSIZE") == 0


@pytest.mark.parametrize("key", ["a", "é" * 512, "default/web", "{}", "a b", "%2F", "__proto__", "-inf"])
def test_a_good_key_comes_back_as_it_was(queue: Queue, key: str) -> None:
    """Keys are opaque text."""
    queue.add(key)
    request = queue.get(0)
    assert request.key == key
    assert queue.settle(request)


@pytest.mark.parametrize("name", ["", "-a", "a}b", "a b", "a" * 64, "é", "a/b", 7])
def test_a_bad_queue_name_is_refused(connection: Connection, name: Any) -> None:
    """A name that could not be a Redis key, a file or a label is no queue."""
    with pytest.raises(InvalidQueueName, match="bad queue name"):
        Queue(name, connection)


@pytest.mark.parametrize(
    "arguments",
    [{"claim_duration": 0.5}, {"max_retries": -1}, {"max_length": 0}, {"claim_duration": float("nan")}],
)
def test_a_setting_that_cannot_work_is_refused(connection: Connection, arguments: dict[str, Any]) -> None:
    """At construction, before anything is asked of Redis."""
    with pytest.raises(ConfigError, match="bad "):
        Queue("foos", connection, **arguments)


@pytest.mark.parametrize("priority", [901, -901, 0.5, True, "1"])
def test_a_priority_outside_the_range_is_refused(queue: Queue, connection: Connection, priority: Any) -> None:
    """Orders are exact only within it."""
    with pytest.raises(ValueError, match="bad priority"):
        queue.add("a", priority=priority)
    assert connection.execute("DBSIZE") == 0


def test_add_of_many_keys_goes_in_bounded_steps(queue: Queue) -> None:
    """More keys than one script takes are all added, in their order."""
    assert queue.add(*(f"k{number:05}" for number in range(2500))) == 2500
    assert queue.depth() == 2500
    assert [request.key for request in queue.turn([], 3).requests] == ["k00000", "k00001", "k00002"]


@pytest.mark.conformance("DQ-06")
def test_a_fresh_add_supersedes_a_delay_and_keeps_the_failures(queue: Queue, server_time: ServerTime) -> None:
    """The item runs once, now, and its next failure backs off further."""
    queue.add_rate_limited("a")
    queue.add_after("a", 60)
    queue.add("a")
    request = queue.get(0)
    assert request.attempt == 2
    queue.settle(request)
    server_time.advance(120)
    with pytest.raises(Empty):
        queue.get(0)


def test_a_full_queue_refuses_producers_but_no_item_that_is_pending(make_queue: Make) -> None:
    """The keys before the first that does not fit are in, and the error says how many."""
    queue = make_queue(max_length=3)
    queue.add("a")
    queue.add_after("b", 60)
    with pytest.raises(QueueFull, match="queue foos is full") as caught:
        queue.add("a", "c", "d")
    assert caught.value.added == 1
    assert queue.add("a", "b", "c") == 1
    with pytest.raises(QueueFull):
        queue.add_after("e", 1)


@pytest.mark.first_contact(4)
@pytest.mark.conformance("RD-04", "RL-16")
def test_done_keeps_the_back_off_of_a_pending_item(queue: Queue, server_time: ServerTime) -> None:
    """client-go's loop, AddRateLimited and then Done, backs off."""
    queue.add("a")
    request = queue.get(0)
    queue.add_rate_limited("a")
    assert queue.done(request)
    assert queue.num_requeues("a") == 1
    server_time.advance(0.005)
    request = queue.get(0)
    assert request.attempt == 2
    queue.forget("a")
    assert queue.done(request)
    assert queue.num_requeues("a") == 0


def test_a_result_comes_back_after_its_delay_with_its_priority(queue: Queue, server_time: ServerTime) -> None:
    """requeue_after forgets the failures; its priority holds when it is due."""
    queue.add("a")
    queue.settle(queue.get(0), ValueError("first"))
    server_time.advance(1)
    queue.settle(queue.get(0), Result(requeue_after=60, priority=9))
    assert queue.num_requeues("a") == 0
    queue.add("b")
    server_time.advance(60)
    request = queue.get(0)
    assert (request.key, request.priority, request.attempt) == ("a", 9, 1)


@pytest.mark.conformance("RD-17")
def test_enqueued_at_is_when_the_item_became_pending(queue: Queue, server_time: ServerTime) -> None:
    """So that its age is known, also of a delayed item that was noticed late."""
    queue.add_after("a", 10)
    server_time.advance(25)
    request = queue.get(0)
    assert request.enqueued_at == pytest.approx(1_795_000_010, abs=0.002)


def test_a_custom_limiter_decides_by_the_failure(make_queue: Make, server_time: ServerTime) -> None:
    """It is asked for the key, the attempt and the error, and answers seconds or a limiter."""
    asked: list[Failure] = []

    def limiter(failure: Failure) -> float | ItemFastSlowRateLimiter:
        asked.append(failure)
        return 60.0 if isinstance(failure.error, TimeoutError) else ItemFastSlowRateLimiter(1, 5, 1)

    queue = make_queue(rate_limiter=limiter)
    queue.add("a", "b")
    error = TimeoutError("slow")
    queue.settle(queue.get(0), error)
    queue.settle(queue.get(0), ValueError("bad"))
    assert asked[0] == Failure("a", 1, error)
    server_time.advance(1)
    assert queue.get(0).key == "b"
    server_time.advance(59)
    assert queue.get(0).key == "a"


def test_a_broken_custom_limiter_backs_off_by_default(
    make_queue: Make, server_time: ServerTime, caplog: pytest.LogCaptureFixture
) -> None:
    """The claim ends nevertheless, and the error is logged."""
    queue = make_queue(rate_limiter=lambda _: BucketRateLimiter())
    queue.add("a")
    assert queue.settle(queue.get(0), ValueError("bad"))
    assert "rate limiter failed for a" in caplog.text
    server_time.advance(0.005)
    assert queue.get(0).attempt == 2


def test_limiters_combine(make_queue: Make, server_time: ServerTime) -> None:
    """The slowest decides, within the most that is allowed."""
    limiter = WithMaxWaitRateLimiter(MaxOfRateLimiter(ItemFastSlowRateLimiter(1, 100, 1)), 10)
    queue = make_queue(rate_limiter=limiter)
    queue.add("a")
    for delay in (1, 10):
        queue.settle(queue.get(0), ValueError("bad"))
        server_time.advance(delay)
    assert queue.get(0).attempt == 3


@pytest.mark.conformance("WQ-08", "PQ-19")
def test_get_wakes_for_an_add(queue: Queue) -> None:
    """A waiting get is served as soon as there is work."""
    got: list[Request] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get(timeout=30)), daemon=True)
    waiting.start()
    queue.add("a")
    waiting.join(timeout=10)
    assert [request.key for request in got] == ["a"]


def test_get_wakes_when_a_delay_ends(queue: Queue) -> None:
    """No add is needed for it."""
    queue.add_after("a", 0.05)
    assert queue.get(timeout=10).key == "a"


def test_get_ends_empty_after_its_timeout(queue: Queue) -> None:
    """Waiting may be bounded."""
    with pytest.raises(Empty, match="nothing to claim within"):
        queue.get(timeout=0.02)


def test_a_get_that_ends_empty_leaves_another_awake(queue: Queue, connection: Connection) -> None:
    """Of a handle's threads one sleeps on Redis; the one chosen to be next may have no time left."""
    clock = SteppedClock()
    queue._clock = clock
    got: list[Request] = []

    def run_out() -> None:
        with pytest.raises(Empty):
            queue.get(1000)

    waits = queue._session._sleeper
    sleeping = threading.Thread(target=queue.wait, args=[1000.0])
    ending = threading.Thread(target=run_out)
    staying = threading.Thread(target=lambda: got.append(queue.get()), daemon=True)
    for thread, others in (sleeping, 0), (ending, 1), (staying, 2):
        thread.start()
        while not waits._is_asleep or waits._waiting <= others:
            time.sleep(0.001)
    clock.ahead = 2000.0
    connection.execute("RPUSH", "distq:{foos}:wake", 1)
    for thread in (sleeping, ending):
        thread.join(timeout=10)
    queue.add("a")
    staying.join(timeout=10)
    assert [request.key for request in got] == ["a"]


@pytest.mark.conformance("WQ-08", "WQ-12")
def test_many_threads_of_one_handle_share_its_work(queue: Queue) -> None:
    """Every item is handed out once, to any number of threads."""
    keys = [f"k{number}" for number in range(300)]
    seen: list[str] = []

    def work() -> None:
        for request in queue.listen():
            seen.append(request.key)
            queue.settle(request)
            if len(seen) == len(keys):
                queue.shut_down()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    queue.add(*keys)
    for thread in threads:
        thread.join(timeout=20)
    assert sorted(seen) == sorted(keys)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.conformance("WQ-09", "RD-05")
def test_shut_down_ends_waiting_gets_at_once_and_leaves_the_work_to_others(make_queue: Make) -> None:
    """Shutdown is the handle's; adds are still accepted, by it too."""
    queue, other = make_queue(), make_queue()
    ended = threading.Event()

    def work() -> None:
        for request in queue.listen():
            queue.settle(request)
        ended.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.shut_down()
    for thread in threads:
        thread.join(timeout=10)
    assert ended.is_set()
    assert queue.shutting_down
    queue.add("a")
    with pytest.raises(ShutDown):
        queue.get(0)
    assert other.get(0).key == "a"


@pytest.mark.conformance("DQ-08", "WQ-D4")
def test_a_failure_is_counted_by_a_handle_that_was_shut_down(
    make_queue: Make, connection: Connection
) -> None:
    """Adds are always accepted, and leave no session behind."""
    queue = make_queue()
    queue.add("a")
    request = queue.get(0)
    queue.shut_down()
    queue.settle(request)
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 1
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 0


@pytest.mark.conformance("WQ-18")
def test_drain_waits_for_the_claims_of_this_handle(make_queue: Make) -> None:
    """And says whether they ended in time."""
    queue, other = make_queue(), make_queue()
    queue.add("a", "b")
    request, _ = queue.get(0), other.get(0)
    assert not queue.shut_down_with_drain(timeout=0.01)
    settling = threading.Timer(0.02, queue.settle, [request])
    settling.start()
    assert queue.shut_down_with_drain(timeout=10)
    settling.join()


@pytest.mark.conformance("WQ-19")
def test_shut_down_ends_a_drain(queue: Queue) -> None:
    """A second thought ends the waiting (client-go TestForceQueueShutdownUsingShutDown)."""
    queue.add("a")
    queue.get(0)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(queue.shut_down_with_drain()), daemon=True)
    draining.start()
    while draining.is_alive():
        queue.shut_down()
        draining.join(timeout=0.01)
    assert drained == [False]


def test_fleet_concurrency_holds_for_all_handles_together(make_queue: Make) -> None:
    """All workers together claim at most the number of items that the fleet may hold."""
    handles = [make_queue(), make_queue()]
    for queue in handles:
        queue.fleet_concurrency = 3
    handles[0].add(*"abcde")
    assert len(handles[0].turn([], 2).requests) == 2
    (third,) = handles[1].turn([], 5).requests
    assert handles[1].turn([], 5).requests == []
    turn = handles[1].turn([Settlement(third, Success())], 5)
    assert [request.key for request in turn.requests] == ["d"]


def test_a_queue_of_a_newer_layout_is_refused_and_nothing_is_written(connection: Connection) -> None:
    """An old release must not guess what a newer one keeps."""
    connection.execute("HSET", "distq:{foos}:meta", "layout", 2)
    queue = Queue("foos", connection)
    for use in (lambda: queue.add("a"), lambda: queue.get(0)):
        with pytest.raises(LayoutTooNew, match=r'^queue "foos" has layout 2: .* Upgrade distq here\.$'):
            use()
    assert connection.execute("KEYS", "*") == [b"distq:{foos}:meta"]
