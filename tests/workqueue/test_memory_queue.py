"""The queue without Redis: what is its own, beside what it shares with the queue in Redis."""

import logging
import threading

import pytest

from distq.errors import ConfigError, Empty, InvalidKey, InvalidQueueName, QueueFull, ShutDown
from distq.testing import FakeClock, MemoryQueue
from distq.workqueue import Request
from distq.workqueue.interface import Settlement, Success
from tests.support.eventually import eventually


def test_handles_share_their_items_only_where_it_is_asked_for() -> None:
    """One name is not one queue: tests beside each other do not meet."""
    first, other = MemoryQueue("foos"), MemoryQueue("foos")
    second = MemoryQueue("foos", shares=first)
    first.add("a")
    assert (first.depth(), second.depth(), other.depth()) == (1, 1, 0)
    with pytest.raises(
        ConfigError, match=r"bad shares: a handle of foos, not of bars\. Give both one name\."
    ):
        MemoryQueue("bars", shares=first)


def test_the_mistakes_that_a_queue_in_redis_refuses_are_refused_here() -> None:
    """A test in memory finds the same mistakes."""
    queue = MemoryQueue("foos", max_length=1)
    with pytest.raises(InvalidKey):
        queue.add("good", "bad\n")
    assert queue.depth() == 0
    with pytest.raises(InvalidQueueName):
        MemoryQueue("a b")
    with pytest.raises(ValueError, match="bad priority"):
        queue.add("a", priority=1000)
    with pytest.raises(QueueFull) as caught:
        queue.add("a", "b")
    assert caught.value.added == 1
    for wrong in ({"claim_duration": 0.0}, {"max_retries": -1}, {"max_length": 0}):
        with pytest.raises(ConfigError):
            MemoryQueue("foos", **wrong)
    with pytest.raises(ValueError, match="at most 250"):
        queue.turn([], 251)


def test_a_fake_clock_decides_when_a_waiting_get_is_served() -> None:
    """A delay of an hour takes no time, and ends when it is over."""
    clock = FakeClock()
    queue = MemoryQueue("foos", clock=clock)
    queue.add_after("a", 3600)
    got: list[Request] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()), daemon=True)
    waiting.start()
    clock.step(3599)
    eventually(lambda: clock.waiters() == 1)
    assert not got
    clock.step(1.001)  # delays end at whole ms
    waiting.join(10)
    assert [request.key for request in got] == ["a"]


def test_a_fake_clock_decides_when_a_get_ends_empty() -> None:
    """The timeout is by the queue's clock."""
    clock = FakeClock()
    queue = MemoryQueue("foos", clock=clock)
    ended: list[BaseException] = []

    def get() -> None:
        try:
            queue.get(timeout=60)
        except Empty as error:
            ended.append(error)

    waiting = threading.Thread(target=get, daemon=True)
    waiting.start()
    while waiting.is_alive():
        eventually(lambda: clock.waiters() == 1 or not waiting.is_alive())
        assert not ended or clock.monotonic() >= 60
        clock.step(1)
    assert len(ended) == 1


def test_an_add_wakes_all_threads_that_wait() -> None:
    """Each of many threads gets one of the items that come at once."""
    queue = MemoryQueue("foos")
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(queue.get().key), daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    queue.add(*"abcdefgh")
    for thread in threads:
        thread.join(10)
    assert sorted(got) == list("abcdefgh")


def test_shutdown_ends_all_waits() -> None:
    """At once, in any number of threads; other handles go on."""
    queue = MemoryQueue("foos")
    other = MemoryQueue("foos", shares=queue)
    threads = [threading.Thread(target=lambda: list(queue.listen()), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    queue.shut_down()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(ShutDown):
        queue.get(0)
    other.add("a")
    assert other.get(0).key == "a"


def test_a_change_between_a_turn_and_a_wait_ends_the_wait() -> None:
    """A thread does not sleep over an item that was added after its look, nor over an interrupt."""
    queue = MemoryQueue("foos")
    assert not queue.turn([], 1).requests
    MemoryQueue("foos", shares=queue).add("a")
    queue.wait(60)
    assert len(queue.turn([], 1).requests) == 1
    queue.interrupt()
    queue.wait(60)


def test_abandon_is_a_crash_of_the_held_items(caplog: pytest.LogCaptureFixture) -> None:
    """Items come back, requests are cancelled, the zombie is refused; the third time it becomes dead."""
    living = MemoryQueue("foos")
    living.turn([], 0)
    living.add("a")
    heard: list[Request] = []
    for crash in range(3):
        dying = MemoryQueue("foos", shares=living)
        dying.on_cancel = heard.append
        request = dying.get(0)
        dying.abandon()
        assert request.cancelled.is_set()
        assert not dying.settle(request)
        assert len(heard) == crash + 1
    assert living.depth() == 0
    with pytest.raises(Empty):
        living.get(0)
    assert "a cancelled: its session lapsed" in caplog.text
    assert "a not settled: its claim had ended" in caplog.text
    living.add("a")
    assert living.get(0).key == "a"


def test_abandon_of_the_only_handle_is_no_crash() -> None:
    """As in Redis: when all were away, no item is to blame."""
    queue = MemoryQueue("foos")
    queue.add("a")
    for _ in range(5):
        queue.get(0)
        queue.abandon()
    assert queue.depth() == 1


def test_a_drain_waits_for_the_handles_own_claims() -> None:
    """It ends with the last of them, or when its time is over."""
    queue = MemoryQueue("foos")
    other = MemoryQueue("foos", shares=queue)
    queue.add("a", "b")
    (request,) = queue.turn([], 1).requests
    other.get(0)
    assert not queue.shut_down_with_drain(timeout=0.01)
    ending = threading.Timer(0.02, queue.turn, [[Settlement(request, Success())], 0])
    ending.start()
    assert queue.shut_down_with_drain(timeout=10)
    ending.join()


def test_many_threads_hand_each_item_to_one_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """Adds, claims and settlements from all sides: no item is held twice, none is lost."""
    caplog.set_level(logging.ERROR)
    queue = MemoryQueue("foos")
    handles = [queue, *(MemoryQueue("foos", shares=queue) for _ in range(3))]
    held: set[str] = set()
    served: list[str] = []

    def work(handle: MemoryQueue) -> None:
        for request in handle.listen():
            assert request.key not in held
            held.add(request.key)
            served.append(request.key)
            held.discard(request.key)
            handle.settle(request)

    threads = [threading.Thread(target=work, args=[handle], daemon=True) for handle in handles * 2]
    for thread in threads:
        thread.start()
    for number in range(200):
        queue.add(f"k{number % 20}")
    eventually(lambda: queue.depth() == 0 and not any(handle.held() for handle in handles))
    for handle in handles:
        handle.shut_down()
    for thread in threads:
        thread.join(10)
    assert set(served) == {f"k{number}" for number in range(20)}
