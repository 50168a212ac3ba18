"""Shutting down: what a handle stops, what it waits for, and what it leaves to the others."""

import sys
import threading
from collections.abc import Callable, Iterator
from operator import methodcaller

import pytest

from distq.errors import ShutDown
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import Failure
from tests.support.claims import claim, finish_all
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

Make = Callable[..., Queue]

SHUTDOWNS = pytest.mark.parametrize(
    "shut_down", [methodcaller("shut_down"), methodcaller("shut_down_with_drain")], ids=["at once", "drain"]
)
"""client-go's two ways to end, where nothing is held and both are done at once."""


class Draining:
    """A drain in a thread of its own."""

    def __init__(self, queue: Queue, timeout: float | None = None) -> None:
        self.ended: bool | None = None
        self._thread = threading.Thread(target=self._drain, args=[queue, timeout], daemon=True)
        self._thread.start()
        while not queue.shutting_down:
            self._thread.join(timeout=0.001)

    def _drain(self, queue: Queue, timeout: float | None) -> None:
        self.ended = queue.shut_down_with_drain(timeout)

    def goes_on(self) -> bool:
        """Return whether it still waits, after a moment in which it could have ended."""
        self._thread.join(timeout=0.05)
        return self._thread.is_alive()

    def has_ended(self) -> bool:
        """Return whether the drain returned."""
        return self.ended is not None

    def result(self) -> bool:
        """Return what the drain returned, once it did."""
        self._thread.join(timeout=10)
        assert self.ended is not None, "the drain did not end"
        return self.ended


@pytest.fixture
def threads_meet_anywhere() -> Iterator[None]:
    """Let threads take turns so often that two of them meet in more places."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.conformance("WQ-16", "WQ-21", "PQ-15")
@anywhere
@SHUTDOWNS
def test_a_handle_may_be_shut_down_many_times(queue: Queue, shut_down: Callable[[Queue], object]) -> None:
    """It says so from the first time on, and the later ones change nothing."""
    said = [queue.shutting_down]
    for _ in range(3):
        shut_down(queue)
        said.append(queue.shutting_down)
        with pytest.raises(ShutDown):
            queue.get()
    assert said == [False, True, True, True]


@pytest.mark.conformance("WQ-09", "PQ-14", "PQ-15", "RD-06")
@anywhere
@SHUTDOWNS
def test_after_shutdown_pending_items_are_left_to_others(
    make_queue: Make, shut_down: Callable[[Queue], object]
) -> None:
    """Get ends at once though items are queued; one pod that stops must not drain the queue of all."""
    queue, other = make_queue(), make_queue()
    queue.add("a", "b")
    shut_down(queue)
    with pytest.raises(ShutDown):
        queue.get()
    assert list(queue.listen()) == []
    assert claim(other, 2) == ["a", "b"]


@pytest.mark.conformance("WQ-07", "DQ-08", "DQ-10", "RD-05")
@anywhere
@SHUTDOWNS
def test_a_handle_that_was_shut_down_still_adds(
    make_queue: Make, server_time: ServerTime, shut_down: Callable[[Queue], object]
) -> None:
    """The shutdown is the handle's, and all handles share the queue: now, later and after a failure."""
    queue, other = make_queue(), make_queue()
    queue.add_after("before", 1)
    shut_down(queue)
    assert queue.add("now") == 1
    queue.add_after("later", 2)
    queue.add_rate_limited("failed")
    assert other.get(0).key == "now"
    server_time.advance(0.005)
    failed = other.get(0)
    assert (failed.key, failed.attempt) == ("failed", 2)
    server_time.advance(1)
    assert other.get(0).key == "before"
    server_time.advance(1)
    assert other.get(0).key == "later"


@pytest.mark.conformance("WQ-07", "WQ-10")
@anywhere
def test_an_item_that_is_added_while_held_and_shutting_down_goes_to_others(make_queue: Make) -> None:
    """Its event is not forgotten, and this handle gets ShutDown for good, not once more an item."""
    queue, other = make_queue(), make_queue()
    queue.add("foo")
    foo = queue.get(0)
    draining = Draining(queue)
    queue.add("foo")
    assert queue.is_dirty("foo")
    with pytest.raises(ShutDown):
        queue.get(0)
    assert queue.done(foo)
    assert draining.result()
    with pytest.raises(ShutDown):
        queue.get(0)
    assert other.get(0).key == "foo"


@pytest.mark.first_contact(1)
@anywhere
def test_a_shutdown_may_interrupt_a_turn_of_its_own_thread(make_queue: Make) -> None:
    """As the handler of a signal does: it waits for no turn, and the turn that it met ends the session."""

    def back_off(_: Failure) -> float:
        queue.shut_down()  # in the middle of the turn that asks
        return 1.0

    queue, other = make_queue(rate_limiter=back_off), make_queue()
    queue.add("foo")
    foo = queue.get(0)
    settling = threading.Thread(target=queue.settle, args=[foo, ValueError()], daemon=True)
    settling.start()
    settling.join(timeout=10)
    assert not settling.is_alive()
    assert queue.held() == 0
    with pytest.raises(ShutDown):
        queue.get()
    assert other.num_requeues("foo") == 1


def test_a_shutdown_amid_a_turn_leaves_no_session(connection: Connection) -> None:
    """A handle that ends while a turn is under way is gone from Redis once that turn is over."""

    def back_off(_: Failure) -> float:
        queue.shut_down()
        return 1.0

    queue = Queue("foos", connection, rate_limiter=back_off)
    queue.add("foo")
    foo = queue.get(0)
    assert connection.execute("HLEN", "distq:{foos}:workers") == 1
    settling = threading.Thread(target=queue.settle, args=[foo, ValueError()], daemon=True)
    settling.start()
    settling.join(timeout=10)
    assert connection.execute("HLEN", "distq:{foos}:workers") == 0


@pytest.mark.conformance("WQ-17")
@anywhere
def test_shut_down_does_not_wait_for_held_items(queue: Queue) -> None:
    """It returns, and the claims can be settled afterwards."""
    queue.add("foo", "bar")
    held = [queue.get(0), queue.get(0)]
    queue.shut_down()
    assert [queue.done(request) for request in held] == [True, True]


@pytest.mark.conformance("WQ-18")
@anywhere
def test_drain_returns_when_the_last_claim_ends(queue: Queue) -> None:
    """Not before, for each way in which a claim ends."""
    queue.add("foo", "bar", "baz")
    foo, bar, baz = (queue.get(0) for _ in range(3))
    draining = Draining(queue)
    queue.done(foo)
    queue.settle(bar, ValueError("no"))
    assert draining.goes_on()
    queue.release(baz)
    assert draining.result()


@pytest.mark.conformance("WQ-18", "WQ-D3")
@pytest.mark.usefixtures("threads_meet_anywhere")
@anywhere
def test_every_drain_that_waits_is_woken_at_the_end(queue: Queue) -> None:
    """A second drain neither ends the first nor takes its wake-up away."""
    queue.add("foo")
    foo = queue.get(0)
    drains = [Draining(queue, timeout=30 if number % 2 else None) for number in range(20)]
    assert drains[0].goes_on()
    assert not any(draining.has_ended() for draining in drains)
    queue.done(foo)
    assert all(draining.result() for draining in drains)


@pytest.mark.conformance("WQ-18", "WQ-D1")
@anywhere
def test_drain_does_not_wait_for_queued_items(make_queue: Make) -> None:
    """Items that wait, for now or for later, belong to all; none of them is lost by it."""
    queue, other = make_queue(), make_queue()
    queue.add("foo", "bar")
    queue.add_after("baz", 3600)
    foo = queue.get(0)
    draining = Draining(queue)
    queue.add("foo")
    assert draining.goes_on()
    queue.done(foo)
    assert draining.result()
    assert claim(other, 2) == ["bar", "foo"]
    assert other.add("baz") == 1


@pytest.mark.conformance("WQ-19")
@anywhere
def test_shut_down_ends_all_running_drains(queue: Queue) -> None:
    """They report that claims are left, and those can still be settled."""
    queue.add("foo", "bar")
    held = [queue.get(0), queue.get(0)]
    drains = [Draining(queue), Draining(queue)]
    assert all(draining.goes_on() for draining in drains)
    queue.shut_down()
    assert [draining.result() for draining in drains] == [False, False]
    assert all(queue.done(request) for request in held)


@pytest.mark.conformance("WQ-D5", "WQ-19")
@anywhere
def test_a_drain_between_two_shutdowns_can_be_ended(queue: Queue) -> None:
    """Each of several calls takes effect: shutdown, drain, shutdown."""
    queue.add("foo")
    queue.add_after("bar", 3600)
    queue.get(0)
    queue.shut_down()
    draining = Draining(queue)
    assert draining.goes_on()
    queue.shut_down()
    assert not draining.result()


@pytest.mark.conformance("WQ-20")
@anywhere
def test_drain_ends_without_a_worker_that_never_settles(queue: Queue) -> None:
    """After its timeout, and says that something is left."""
    queue.add("foo")
    request = queue.get(0)
    assert not queue.shut_down_with_drain(timeout=0.01)
    assert queue.done(request)
    assert queue.shut_down_with_drain(timeout=0.01)


@pytest.mark.conformance("WQ-20")
@anywhere
def test_drain_ends_when_the_last_claim_is_taken_away(make_queue: Make) -> None:
    """A handle whose claims ended without it, here by close, has nothing to wait for."""
    queue, other = make_queue(), make_queue()
    queue.add("foo")
    request = queue.get(0)
    draining = Draining(queue)
    assert draining.goes_on()
    queue.close()
    assert draining.result()
    assert request.cancelled.is_set()
    assert other.get(0).key == "foo"


@pytest.mark.conformance("WQ-09", "PQ-14")
@anywhere
@SHUTDOWNS
def test_gets_that_wait_end_at_shutdown(queue: Queue, shut_down: Callable[[Queue], object]) -> None:
    """All of them, with and without a timeout, those that sleep and those that are just about to."""
    ended: list[int] = []

    def wait(number: int) -> None:
        with pytest.raises(ShutDown):
            queue.get(timeout=None if number % 2 else 60)
        ended.append(number)

    threads = [threading.Thread(target=wait, args=[number], daemon=True) for number in range(10)]
    for thread in threads:
        thread.start()
    shut_down(queue)
    for thread in threads:
        thread.join(timeout=10)
    assert sorted(ended) == list(range(10))


@pytest.mark.conformance("WQ-09", "PQ-16")
@pytest.mark.usefixtures("threads_meet_anywhere")
def test_a_first_get_that_meets_the_shutdown_ends(make_queue: Make, connection: Connection) -> None:
    """Whether the handle's session was opened just before or just after; none of them stays open."""
    for _ in range(100):
        queue = make_queue()
        getting = threading.Thread(target=lambda queue=queue: list(queue.listen()), daemon=True)
        getting.start()
        queue.shut_down()
        getting.join(timeout=10)
        assert not getting.is_alive()
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 0


@pytest.mark.conformance("WQ-D4", "WQ-16")
@anywhere
@SHUTDOWNS
def test_nothing_of_a_handle_runs_on_after_its_shutdown(
    queue: Queue, shut_down: Callable[[Queue], object]
) -> None:
    """Neither the thread that kept its claims alive nor one that waits for delays."""
    before = set(threading.enumerate())
    queue.add("foo")
    queue.add_after("bar", 0.01)
    queue.add_rate_limited("baz")
    assert queue.done(queue.get(0))
    shut_down(queue)
    assert queue.held() == 0
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=10)
        assert not thread.is_alive(), thread.name


@pytest.mark.conformance("PQ-16")
@anywhere
def test_no_item_is_lost_by_a_shutdown_while_items_are_handed_out(make_queue: Make) -> None:
    """50 times 20 threads: each ends, and an item that no thread got is still there for another handle."""
    rest = make_queue()
    for number in range(50):
        queue = make_queue()
        keys = [f"{number}-{key}" for key in range(20)]
        got: list[str] = []

        def work(queue: Queue = queue, got: list[str] = got) -> None:
            for request in queue.listen():
                got.append(request.key)
                assert queue.done(request)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(20)]
        for thread in threads[:10]:
            thread.start()
        queue.add(*keys)
        for thread in threads[10:]:
            thread.start()
        queue.shut_down()
        for thread in threads:
            thread.join(timeout=10)
        assert not any(thread.is_alive() for thread in threads)
        got += finish_all(rest)
        assert sorted(got) == sorted(keys)
