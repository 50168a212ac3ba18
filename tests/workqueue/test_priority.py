"""Priorities: controller-runtime's priority queue, promise by promise."""

import pytest

from distq.inspector.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.support.claims import claim, finish_all, nothing_to_claim
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime


@pytest.mark.conformance("PQ-01")
@anywhere
def test_an_item_comes_with_the_priority_that_it_was_added_with(
    queue: Queue, server_time: ServerTime
) -> None:
    """Several keys in one call, now or later; nought if none is given."""
    assert queue.add("a", "b", priority=7) == 2
    queue.add("c")
    assert queue.add("d", after=1, priority=-3) == 1
    queue.add_after("e", 1)
    queue.add_rate_limited("f")
    server_time.advance(2)
    assert {request.key: request.priority for request in (queue.get(0) for _ in range(6))} == {
        "a": 7, "b": 7, "c": 0, "d": -3, "e": 0, "f": 0,
    }  # fmt: skip


@pytest.mark.conformance("PQ-02")
@anywhere
def test_high_before_low_and_in_a_level_in_order(queue: Queue) -> None:
    """For any order in which the levels were added, over the whole range."""
    for key in ("x1", "x2", "x3"):
        for priority in (0, -900, 5, 900, -4):
            queue.add(f"{key} at {priority}", priority=priority)
    assert finish_all(queue) == [
        f"{key} at {priority}" for priority in (900, 5, 0, -4, -900) for key in ("x1", "x2", "x3")
    ]


@pytest.mark.conformance("PQ-02", "PQ-10")
@anywhere
@pytest.mark.parametrize("after", [0, 1])
def test_high_before_low_also_when_it_comes_again_and_again(
    queue: Queue, server_time: ServerTime, after: int
) -> None:
    """An item that is added high each time is served first each time, now or after a delay."""
    queue.add(*(f"low {number}" for number in range(3)))
    for _ in range(10):
        queue.add("high", priority=1, after=after)
        server_time.advance(max(after, 0))
        high = queue.get(0)
        assert (high.key, high.priority) == ("high", 1)
        assert queue.done(high)
    assert finish_all(queue) == ["low 0", "low 1", "low 2"]


@pytest.mark.conformance("PQ-03")
@anywhere
def test_an_item_is_one_entry_with_the_highest_priority_and_the_earliest_time(
    queue: Queue, server_time: ServerTime
) -> None:
    """Whichever call gave them, and in any order."""
    queue.add("foo", priority=1, after=10)
    queue.add("foo", priority=5, after=20)
    queue.add("foo", priority=3, after=5)
    server_time.advance(4.999)
    assert nothing_to_claim(queue)
    server_time.advance(0.001)
    foo = queue.get(0)
    assert (foo.key, foo.priority) == ("foo", 5)
    queue.done(foo)
    server_time.advance(60)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("PQ-03", "PQ-06")
@anywhere
def test_a_waiting_item_that_is_added_now_keeps_the_higher_priority(queue: Queue) -> None:
    """The delay is gone, its priority stays; also the other way round."""
    queue.add("foo", priority=5, after=10)
    queue.add("foo")
    queue.add("bar")
    queue.add("bar", priority=4, after=10)
    queue.add("bar", priority=-4, after=10)
    assert [(each.key, each.priority) for each in (queue.get(0), queue.get(0))] == [("foo", 5), ("bar", 4)]


@pytest.mark.conformance("PQ-04")
@anywhere
def test_a_raised_item_goes_to_the_end_of_its_new_level(queue: Queue) -> None:
    """It overtakes all below, and none that was in the level before."""
    queue.add("a", "b", "c")
    queue.add("high 1", "high 2", priority=2)
    queue.add("c", priority=2)
    queue.add("high 3", priority=2)
    assert claim(queue, 6) == ["high 1", "high 2", "c", "high 3", "a", "b"]


@pytest.mark.conformance("PQ-04")
@anywhere
def test_an_equal_or_lower_priority_keeps_the_place(queue: Queue) -> None:
    """Nothing that is added can make an item come later."""
    queue.add("a", "b", "c", priority=2)
    queue.add("a", priority=2)
    queue.add("b", priority=-900)
    queue.add("a", priority=1, after=60)
    assert [(each.key, each.priority) for each in (queue.get(0) for _ in range(3))] == [
        ("a", 2), ("b", 2), ("c", 2),
    ]  # fmt: skip


@pytest.mark.conformance("PQ-05")
@anywhere
def test_an_item_that_became_due_has_the_place_of_its_due_time(queue: Queue, server_time: ServerTime) -> None:
    """In its level between what was added before and after that moment, though it was noticed later."""
    queue.add("due", after=2)
    queue.add("due high", after=3, priority=1)
    queue.add("now")
    server_time.advance(5)
    queue.add("late")
    server_time.advance(5)
    assert claim(queue, 4) == ["due high", "now", "due", "late"]


@pytest.mark.conformance("PQ-06")
@anywhere
def test_a_waiting_item_that_is_added_now_has_the_place_of_that_add(queue: Queue) -> None:
    """controller-runtime gives it its old place, before items that were ready all the time."""
    queue.add("foo", after=60)
    queue.add("before")
    queue.add("foo")
    queue.add("after")
    assert claim(queue, 3) == ["before", "foo", "after"]


@pytest.mark.conformance("PQ-07", "PQ-22")
def test_a_held_item_is_passed_over_and_costs_nothing(queue: Queue, connection: Connection) -> None:
    """A held item is not among the ready ones, even if it was added again at a high priority."""
    queue.add(*(f"held {number}" for number in range(100)), priority=9)
    held = [queue.get(0) for _ in range(100)]
    queue.add(*(request.key for request in held), priority=9)
    queue.add("next")
    assert connection.execute("ZCARD", "distq:{foos}:ready") == 1
    assert claim(queue, 1) == ["next"]
    assert nothing_to_claim(queue)
    queue.done(held[42])
    again = queue.get(0)
    assert (again.key, again.priority) == ("held 42", 9)


@pytest.mark.conformance("PQ-08", "PQ-09")
@anywhere
def test_a_held_item_counts_once_it_was_added_again(queue: Queue) -> None:
    """controller-runtime counts what is held as soon as it was added, and so do we."""
    queue.add("foo")
    foo = queue.get(0)
    assert queue.depth() == 0
    queue.add("foo")
    assert queue.depth() == 1
    queue.add("foo", priority=1)
    assert queue.depth() == 1
    queue.done(foo)
    assert queue.depth() == 1
    assert finish_all(queue) == ["foo"]
    assert queue.depth() == 0


@pytest.mark.conformance("PQ-10")
@anywhere
@pytest.mark.parametrize(("after", "due"), [(0, 0), (0.002, 0.002), (1, 0.005)])
def test_a_delay_and_a_back_off_together_are_the_earlier_of_the_two(
    queue: Queue, server_time: ServerTime, after: float, due: float
) -> None:
    """controller-runtime has one call for it; here there are two, and the failure counts nevertheless."""
    queue.add_rate_limited("foo")
    queue.add_after("foo", after)
    if due:
        server_time.advance(due - 0.001)
        assert nothing_to_claim(queue)
        server_time.advance(0.001)
    assert queue.get(0).attempt == 2


@pytest.mark.conformance("PQ-11")
@anywhere
def test_items_that_fail_together_back_off_each_for_itself(queue: Queue, server_time: ServerTime) -> None:
    """The eighth failure of one waits 640 ms, the first of another 5 ms."""
    queue.add("often")
    for attempt in range(7):
        queue.settle(queue.get(0), ValueError("no"))
        server_time.advance(0.005 * 2**attempt)
    often = queue.get(0)
    queue.add_rate_limited("often")
    queue.add_rate_limited("once")
    queue.done(often)
    server_time.advance(0.005)
    assert claim(queue, 1) == ["once"]
    server_time.advance(0.634)
    assert nothing_to_claim(queue)
    server_time.advance(0.001)
    assert claim(queue, 1) == ["often"]


@pytest.mark.conformance("PQ-12", "RL-13")
@anywhere
def test_the_default_back_off_is_5_ms_doubled_up_to_1000_s_without_a_bucket(
    queue: Queue, server_time: ServerTime
) -> None:
    """The cap is reached at the 19th failure; many items that fail at once do not wait for each other."""
    queue.add("foo")
    for attempt in range(1, 21):
        queue.settle(queue.get(0), ValueError("no"))
        delay = min(0.005 * 2 ** (attempt - 1), 1000)
        assert (delay == 1000) == (attempt >= 19)
        server_time.advance(delay - 0.001)
        assert nothing_to_claim(queue)
        server_time.advance(0.001)
    for number in range(150):
        queue.add_rate_limited(f"k{number}")
    server_time.advance(0.005)
    assert queue.depth() == 151


@pytest.mark.conformance("PQ-21")
def test_every_item_can_be_looked_at_with_its_state_priority_and_time(
    queue: Queue, connection: Connection, server_time: ServerTime
) -> None:
    """controller-runtime logs them every 10 s; here they are asked for, by `distq items`."""
    queue.add("held", "ready", priority=3)
    queue.get(0)
    queue.add("delayed", after=60, priority=-1)
    items = {item.key: item for item in Inspector(connection).items("foos")}
    assert {key: (item.state, item.priority) for key, item in items.items()} == {
        "held": ("processing", 3), "ready": ("ready", 3), "delayed": ("delayed", -1),
    }  # fmt: skip
