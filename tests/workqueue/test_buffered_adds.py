"""Adds that travel together: within their delay, once each, and none without a word."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

import pytest

from distq.errors import InvalidDelay, InvalidKey, InvalidPriority, QueueFull, RedisUnavailable
from distq.redisio.limits import BUFFERED_LIMIT
from distq.workqueue.buffered_adds import BufferedAdds
from distq.workqueue.queue import Queue
from tests.support.claims import finish_all
from tests.support.eventually import eventually
from tests.support.injected_interrupt import Interrupt
from tests.support.redis_servers import anywhere

Make = Callable[..., Queue]
NEVER = 3600.0


@anywhere
def test_buffered_adds_travel_at_the_end_of_the_block_at_the_latest(queue: Queue) -> None:
    """Together, each key once, and nothing before that unless it is asked for."""
    with queue.buffered(max_delay=NEVER) as adds:
        adds.add("b", "a")
        adds.add("b")
        assert (queue.depth(), len(adds)) == (0, 3)
        adds.flush()
        assert (queue.depth(), len(adds)) == (2, 0)
        adds.add("c")
    assert finish_all(queue) == ["b", "a", "c"]


@anywhere
def test_buffered_adds_travel_after_their_delay(queue: Queue) -> None:
    """By a thread of their own: the producer may be idle."""
    with queue.buffered(max_delay=0.001) as adds:
        for key in ("a", "b"):
            adds.add(key)
            eventually(lambda key=key: queue.depth() == (1 if key == "a" else 2))  # type: ignore[misc]


@anywhere
def test_the_highest_priority_of_a_buffered_key_counts(queue: Queue) -> None:
    """As of adds that are not buffered."""
    with queue.buffered(max_delay=NEVER) as adds:
        adds.add("low", priority=-1)
        adds.add("plain")
        adds.add("low", priority=5)
        adds.add("low", priority=2)
    assert finish_all(queue) == ["low", "plain"]


@anywhere
def test_a_bad_buffered_add_changes_nothing(queue: Queue) -> None:
    """It is refused at once, with the good keys beside it."""
    with queue.buffered(max_delay=NEVER) as adds:
        with pytest.raises(InvalidKey):
            adds.add("good", "")
        with pytest.raises(InvalidPriority):
            adds.add("good", priority=1000)
    with pytest.raises(ValueError, match="Begin another"):
        adds.add("good")
    assert queue.depth() == 0
    with pytest.raises(InvalidDelay), queue.buffered(max_delay=-1):
        pass


@anywhere
def test_buffered_adds_that_do_not_fit_stay_and_travel_later(make_queue: Make) -> None:
    """The producer learns of it at its flush, and the sender tries again by itself."""
    queue = make_queue(max_length=1)
    with queue.buffered(max_delay=0.001) as adds:
        adds.add("a", "b")
        eventually(lambda: queue.depth() == 1)
        with pytest.raises(QueueFull):
            adds.flush()
        assert finish_all(queue) == ["a"]
        assert queue.get(timeout=30).key == "b"


@anywhere
def test_the_end_of_the_block_raises_if_adds_stay_behind(make_queue: Make) -> None:
    """They are still there, for another flush."""
    queue = make_queue(max_length=1)
    with pytest.raises(QueueFull) as caught, queue.buffered(max_delay=NEVER) as adds:
        adds.add("c", "d")
    assert (caught.value.accepted, len(adds)) == (1, 1)
    assert finish_all(queue) == ["c"]
    adds.flush()
    assert finish_all(queue) == ["d"]


class Outage:
    """An add that fails as long as there is an outage."""

    def __init__(self) -> None:
        self.is_over = False
        self.tries = 0
        self.added: list[str] = []

    def add(self, *keys: str, priority: int) -> int:
        """Add as a queue does."""
        self.tries += 1
        if not self.is_over:
            raise RedisUnavailable("no Redis")
        self.added += keys
        return len(keys) + priority


@pytest.mark.bound("BUFFERED_LIMIT")
def test_buffered_adds_outlast_an_outage_and_are_bounded() -> None:
    """They are sent again; beyond the bound the producer gets the error, and its key is not buffered."""
    outage = Outage()
    adds = BufferedAdds("foos", outage.add, 0.001)
    adds.start()
    keys = [str(number) for number in range(BUFFERED_LIMIT)]
    adds.add(*keys)
    eventually(lambda: outage.tries)
    with pytest.raises(RedisUnavailable):
        adds.add("more")
    outage.is_over = True
    eventually(lambda: len(adds) == 0)
    adds.close()
    assert outage.added == keys


def test_an_odd_error_of_an_add_does_not_end_the_sender() -> None:
    """A metrics provider may raise it."""
    added: list[str] = []

    def add(*keys: str, priority: int) -> int:
        if not added:
            added.append("tried")
            raise ZeroDivisionError
        added.extend(keys)
        return priority

    adds = BufferedAdds("foos", add, 0.001)
    adds.start()
    adds.add("a")
    eventually(lambda: added == ["tried", "a"])
    adds.close()


def test_buffered_adds_of_many_threads_all_travel(queue: Queue) -> None:
    """Beside a sender and flushes that take them away."""

    def produce(number: int) -> None:
        for at in range(300):
            adds.add(f"{number}/{at}")
            if at % 50 == number:
                adds.flush()

    with queue.buffered(max_delay=0) as adds:
        threads = [threading.Thread(target=produce, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert queue.depth() == 8 * 300


def test_a_buffered_add_beside_the_end_of_the_block_travels() -> None:
    """Of two threads: it was there before the end looked, or it looks itself."""
    outage = Outage()
    outage.is_over = True
    adds = BufferedAdds("foos", outage.add, NEVER)
    adds.start()

    class Ending(SimpleQueue[None]):
        def empty(self) -> bool:
            adds._wakes = SimpleQueue()
            wakes.put(None)
            adds.close()  # the other thread is as far as that now
            return False

    wakes, adds._wakes = adds._wakes, Ending()
    adds.add("a")
    assert outage.added == ["a"]


def test_a_fork_within_the_block_sends_for_itself(queue: Queue) -> None:
    """The parent's keys are the parent's, and no lock of its threads is left held."""
    with queue.buffered(max_delay=NEVER) as adds:
        adds.add("parent")
        sends, forked = threading.Event(), threading.Event()

        def send() -> None:
            with adds._sending:
                sends.set()
                forked.wait()

        sender = threading.Thread(target=send)
        sender.start()
        sends.wait()
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                assert len(adds) == 0
                adds.add("child")
                adds.flush()
                status = 0
            os._exit(status)
        forked.set()
        sender.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (finish_all(queue), len(adds)) == (["child"], 1)
    assert finish_all(queue) == ["parent"]


def test_an_interrupt_anywhere_in_a_buffered_add_leaves_the_buffer_usable() -> None:
    """The add is buffered or not; later ones travel."""
    place = 0
    while True:
        place += 1
        outage = Outage()
        outage.is_over = True
        adds = BufferedAdds("foos", outage.add, 0)
        adds.start()
        with Interrupt(place, ("buffered_adds",)) as injected, suppress(KeyboardInterrupt):
            adds.add("a")
        adds.add("b")
        eventually(lambda outage=outage: outage.added[-1:] == ["b"])  # type: ignore[misc]
        adds.close()
        assert outage.added in (["a", "b"], ["b"]), injected.where
        if not injected.where:
            break
    assert place > 5
