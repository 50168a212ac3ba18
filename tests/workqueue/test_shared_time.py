"""Time in a queue that many processes share is the server's; no process has to be there while it goes by."""

import time
from collections.abc import Callable

import pytest

from distq.errors import RetryAfter
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import back_off, due_in, fail, nothing_to_claim

Make = Callable[..., Queue]


@pytest.mark.conformance("RD-07")
@pytest.mark.parametrize("skewed", [0.0, 4e9])
def test_the_clocks_of_processes_do_not_matter(
    queue: Queue, server_time: ServerTime, monkeypatch: pytest.MonkeyPatch, skewed: float
) -> None:
    """Decades behind or ahead: delays, back-off, order and ages are the server's."""
    monkeypatch.setattr(time, "time", lambda: skewed)
    queue.add_after("a", 10)
    assert due_in(queue, "a") == 10
    assert back_off(queue, "b", RetryAfter(5)) == 5
    queue.add("c")
    assert queue.get(0).enqueued_at == pytest.approx(queue.connection.server_time / 1e6)
    server_time.advance(5)
    assert queue.depth() == 1
    assert queue.get(0).key == "b"
    server_time.advance(5)
    assert queue.get(0).key == "a"


@pytest.mark.conformance("RD-08")
def test_due_items_become_ready_though_no_process_was_there(
    make_queue: Make, server_time: ServerTime
) -> None:
    """No process has to live while time goes by: the first to ask gets it, in the order of the due times."""
    before = make_queue()
    for number in range(300):
        before.add_after(f"k{number:03}", 300 - number)
    before.close()
    server_time.advance(1000)
    after = make_queue()
    assert after.depth() == 300
    keys = [request.key for _ in range(3) for request in after.turn([], 100).requests]
    assert keys == [f"k{number:03}" for number in reversed(range(300))]


@pytest.mark.conformance("RD-08", "RD-10")
def test_delays_and_back_off_outlive_the_processes_that_began_them(
    make_queue: Make, server_time: ServerTime
) -> None:
    """A restart of everything loses none."""
    before = make_queue()
    before.add_after("later", 60)
    fail(before, "failing")
    fail(before, "failing")
    before.close()
    server_time.advance(60)
    after = make_queue()
    requests = {request.key: request.attempt for request in after.turn([], 5).requests}
    assert requests == {"later": 1, "failing": 3}


@pytest.mark.conformance("RD-11")
def test_of_equal_due_times_the_higher_priority_is_first(queue: Queue, server_time: ServerTime) -> None:
    """More order than that is not promised for one moment."""
    for key, priority in (("a", -900), ("b", 0), ("c", 900), ("d", 5)):
        queue.add(key, priority=priority, after=10)
    server_time.advance(10)
    assert [queue.get(0).key for _ in range(4)] == ["c", "d", "b", "a"]


@pytest.mark.conformance("RD-13")
@pytest.mark.parametrize("now", [1_795_000_000_000_001, 4_102_444_799_999_999])
def test_times_are_exact_to_the_microsecond(queue: Queue, connection: Connection, now: int) -> None:
    """This century: items 1 µs apart keep their order at each priority, and no delay ends 1 µs early."""
    connection.server_time = now
    for priority in (-900, 0, 900):
        queue.add(f"first {priority}", priority=priority)
        connection.server_time += 1
        queue.add(f"then {priority}", priority=priority)
    requests = queue.turn([], 10).requests
    assert [request.key for request in requests] == [
        f"{when} {priority}" for priority in (900, 0, -900) for when in ("first", "then")
    ]
    assert [request.priority for request in requests] == [900, 900, 0, 0, -900, -900]
    first, then = (request.enqueued_at for request in requests[:2])
    assert first is not None
    assert then is not None
    assert then - first == pytest.approx(1e-6, abs=5e-7)
    queue.add_after("later", 1)
    connection.server_time += 999_999
    assert nothing_to_claim(queue)
    connection.server_time += 1000
    assert queue.get(0).key == "later"


@pytest.mark.conformance("RD-16")
def test_depth_is_the_number_of_items_that_wait_now(
    make_queue: Make, server_time: ServerTime, connection: Connection
) -> None:
    """Ready, dirty and due items, also where no process lives to promote them; nothing else."""
    queue, looking = make_queue(max_retries=0), make_queue()
    assert looking.depth() == 0
    queue.add("held", "dirty", "dead")
    requests = {request.key: request for request in queue.turn([], 3).requests}
    queue.settle(requests["dead"], ValueError("parked"))
    assert looking.depth() == 0
    queue.add("dirty", "ready")
    assert looking.depth() == 2
    queue.add_after("later", 10)
    queue.add_after("held", 10)
    assert looking.depth() == 2
    server_time.advance(9.999)
    assert looking.depth() == 2
    server_time.advance(0.001)
    assert looking.depth() == 4
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 1


@pytest.mark.conformance("RD-17")
def test_an_item_waits_since_it_became_pending(queue: Queue, server_time: ServerTime) -> None:
    """Its place in the queue shows this: the first add, the add while it was held, or the due time."""
    began = queue.connection.server_time / 1e6

    def waited_since() -> float:
        request = queue.get(0)
        assert request.enqueued_at is not None
        held.append(request)
        return round(request.enqueued_at - began, 3)

    held: list[Request] = []
    queue.add("a")
    server_time.advance(5)
    queue.add("a")
    assert waited_since() == 0
    server_time.advance(5)
    queue.add("a")
    server_time.advance(5)
    queue.add("a")
    queue.settle(held.pop())
    server_time.advance(5)
    assert waited_since() == 10
    queue.release(held.pop())
    assert waited_since() == 10
    queue.settle(held.pop(), RetryAfter(10))
    server_time.advance(100)
    assert waited_since() == 30
    queue.settle(held.pop())
    queue.add_after("a", 5)
    server_time.advance(2)
    queue.add("a")
    server_time.advance(2)
    assert waited_since() == 122
