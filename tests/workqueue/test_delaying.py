"""Items for later: client-go's delaying queue, promise by promise, and what it cannot do."""

import itertools
from collections.abc import Callable

import pytest

from distq.inspector.inspector import Inspector
from distq.metrics import ADDS
from distq.redisio.connection import Connection
from distq.redisio.scores import decode_due
from distq.workqueue.interface import Result, Retry, Settlement
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    RateLimiter,
)
from tests.support.claims import claim, finish_all, nothing_to_claim
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

Make = Callable[..., Queue]


@pytest.mark.conformance("DQ-01", "PQ-10")
@anywhere
@pytest.mark.parametrize("delay", [0, 0.0, -0.0])
def test_no_delay_is_a_plain_add(queue: Queue, server_time: ServerTime, delay: float) -> None:
    """Also for an item that waits for later: it supersedes the delay, as an add does."""
    queue.add_after("waiting", 60)
    queue.add_after("waiting", delay)
    queue.add_after("fresh", delay)
    assert queue.depth() == 2
    assert finish_all(queue) == ["waiting", "fresh"]
    server_time.advance(120)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-02", "DQ-05", "DQ-13")
@anywhere
def test_a_delayed_item_comes_once_when_its_time_has_come(queue: Queue, server_time: ServerTime) -> None:
    """client-go TestSimpleQueue: 50 ms, and nothing more later."""
    queue.add_after("foo", 0.050)
    assert queue.depth() == 0
    assert nothing_to_claim(queue)
    server_time.advance(0.060)
    assert queue.depth() == 1
    assert finish_all(queue) == ["foo"]
    server_time.advance(10)
    assert queue.depth() == 0
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-02", "PQ-18")
@anywhere
def test_a_delayed_item_comes_at_its_time_and_not_a_ms_before(queue: Queue, server_time: ServerTime) -> None:
    """The due time itself is late enough, by the server's clock."""
    queue.add_after("foo", 0.050)
    server_time.advance(0.049)
    assert queue.depth() == 0
    assert nothing_to_claim(queue)
    server_time.advance(0.001)
    assert queue.depth() == 1
    assert claim(queue, 1) == ["foo"]


@pytest.mark.conformance("DQ-03", "PQ-03")
@anywhere
def test_of_two_delays_the_earlier_counts(queue: Queue, server_time: ServerTime) -> None:
    """client-go TestDeduping: 50 and 70 ms run at 50, 50 and 30 ms at 30; never twice."""
    queue.add_after("foo", 0.050)
    queue.add_after("foo", 0.070)
    assert queue.depth() == 0
    server_time.advance(0.060)
    assert queue.depth() == 1
    assert finish_all(queue) == ["foo"]
    server_time.advance(0.020)
    assert queue.depth() == 0
    queue.add_after("foo", 0.050)
    queue.add_after("foo", 0.030)
    assert queue.depth() == 0
    server_time.advance(0.040)
    assert queue.depth() == 1
    assert finish_all(queue) == ["foo"]
    server_time.advance(0.020)
    assert queue.depth() == 0
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-04")
@anywhere
def test_an_item_that_is_due_early_is_not_held_up_by_one_that_is_due_late(
    queue: Queue, server_time: ServerTime
) -> None:
    """client-go TestAddTwoFireEarly: second, first, third."""
    queue.add_after("first", 1)
    queue.add_after("second", 0.050)
    assert queue.depth() == 0
    server_time.advance(0.060)
    assert finish_all(queue) == ["second"]
    queue.add_after("third", 2)
    server_time.advance(1)
    assert finish_all(queue) == ["first"]
    server_time.advance(2)
    assert finish_all(queue) == ["third"]


@pytest.mark.conformance("DQ-04", "PQ-05", "RD-08")
@anywhere
@pytest.mark.parametrize("order", list(itertools.permutations([1.0, 0.5, 0.25])))
def test_items_that_became_due_meanwhile_come_in_the_order_of_their_times(
    queue: Queue, server_time: ServerTime, order: tuple[float, ...]
) -> None:
    """client-go TestCopyShifting: one step over all of them, in any order of adds."""
    for delay in order:
        queue.add_after(f"after {delay}", delay)
    server_time.advance(2)
    assert queue.depth() == 3
    assert finish_all(queue) == ["after 0.25", "after 0.5", "after 1.0"]


@pytest.mark.conformance("DQ-06", "PQ-06")
@anywhere
def test_a_plain_add_supersedes_the_delay(queue: Queue, server_time: ServerTime) -> None:
    """client-go runs the item now and again when the delay ends; here it runs once, now."""
    queue.add_after("foo", 1)
    queue.add("foo")
    assert finish_all(queue) == ["foo"]
    server_time.advance(2)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-06")
@anywhere
def test_a_plain_add_supersedes_the_delay_of_an_item_that_is_held(
    queue: Queue, server_time: ServerTime
) -> None:
    """When its claim ends it is pending now, and the delay is gone."""
    queue.add("foo")
    foo = queue.get(0)
    queue.add_after("foo", 1)
    queue.add("foo")
    queue.done(foo)
    assert finish_all(queue) == ["foo"]
    server_time.advance(2)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-03", "DQ-06")
@anywhere
def test_a_delay_does_not_hold_up_an_item_that_waits_now(queue: Queue, server_time: ServerTime) -> None:
    """Now is earlier than later: the item runs once."""
    queue.add("foo")
    queue.add_after("foo", 1)
    assert finish_all(queue) == ["foo"]
    server_time.advance(2)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-02", "DQ-05")
@anywhere
def test_a_delay_that_was_asked_for_while_the_item_was_held_counts_after_it(
    queue: Queue, server_time: ServerTime
) -> None:
    """As client-go's AddAfter before Done; due or not when the claim ends."""
    queue.add("late", "soon")
    late, soon = queue.get(0), queue.get(0)
    queue.add_after("late", 10)
    queue.add_after("soon", 1)
    server_time.advance(2)
    assert nothing_to_claim(queue)
    queue.done(late)
    queue.done(soon)
    assert finish_all(queue) == ["soon"]
    server_time.advance(8)
    assert finish_all(queue) == ["late"]


@pytest.mark.conformance("DQ-07")
def test_a_delay_can_be_cancelled_hurried_and_put_off(
    queue: Queue, connection: Connection, server_time: ServerTime
) -> None:
    """client-go can do none of these: delete cancels, add hurries, delete and add_after put off."""
    inspector = Inspector(connection)
    for key in ("cancelled", "hurried", "put off"):
        queue.add_after(key, 10)
    inspector.delete("foos", "cancelled", "put off")
    queue.add_after("put off", 60)
    queue.add("hurried")
    assert finish_all(queue) == ["hurried"]
    server_time.advance(59)
    assert nothing_to_claim(queue)
    server_time.advance(1)
    assert finish_all(queue) == ["put off"]


@pytest.mark.conformance("DQ-09")
@anywhere
def test_a_delay_is_kept_when_the_call_returns(make_queue: Make, server_time: ServerTime) -> None:
    """There is no buffer that could fill up or be lost with its process: twice a Go channel's size."""
    queue, other = make_queue(), make_queue()
    queue.add(*(f"k{number}" for number in range(2000)), after=1)
    queue.close()
    server_time.advance(1)
    assert other.depth() == 2000


@pytest.mark.conformance("DQ-10", "RD-10")
@anywhere
def test_delays_and_back_off_outlive_the_handle_that_asked_for_them(
    make_queue: Make, server_time: ServerTime
) -> None:
    """client-go loses delayed items at a shutdown."""
    queue = make_queue()
    queue.add_after("later", 10)
    queue.add_rate_limited("failed")
    assert queue.shut_down_with_drain()
    queue.close()
    server_time.advance(10)
    other = make_queue()
    assert other.num_requeues("failed") == 1
    assert claim(other, 2) == ["failed", "later"]


@pytest.mark.first_contact(4)
@pytest.mark.conformance("DQ-04", "RD-11")
@anywhere
def test_items_due_in_the_same_ms_come_by_priority_and_then_in_the_order_of_their_keys(
    queue: Queue, server_time: ServerTime
) -> None:
    """Not of their adds: a due score has no bit left for that order; a ms later is behind all of them."""
    server_time.advance(0.001)
    queue.add("a late one", after=1.001)
    for number in reversed(range(20)):
        queue.add(f"k{number:02}", after=1)
    queue.add("z", after=1, priority=1)
    server_time.advance(2)
    assert finish_all(queue) == ["z", *(f"k{number:02}" for number in range(20)), "a late one"]


@pytest.mark.first_contact(4)
def test_a_due_score_has_no_room_for_the_order_of_adds() -> None:
    """Until 2109 it takes each of a double's 53 bits: 42 for the ms, 11 for the priority."""
    year_2109 = 4_398_046_511_103  # ms
    score = year_2109 * 2048 + 2047
    assert score == 2**53 - 1
    assert decode_due(float(score)) == (-900, year_2109 * 1000)  # of -1024 to 1023 those that there are
    assert float(score + 2) == float(score + 1)


# No delay


@pytest.mark.first_contact(4)
@pytest.mark.conformance("DQ-01")
@anywhere
@pytest.mark.parametrize(
    "limiter",
    [lambda _: 0, ItemExponentialFailureRateLimiter(0, 5), BucketRateLimiter(1, 100)],
    ids=["custom", "exponential", "bucket"],
)
def test_a_limiter_that_answers_no_delay_is_an_add(
    make_queue: Make, server_time: ServerTime, limiter: RateLimiter
) -> None:
    """Ready at once, in the order of the failures, behind older items, and counted as an add."""
    server_time.advance(0.0001)  # what is rounded up to the next ms would be late
    metrics = RecordedMetrics()
    queue = make_queue(rate_limiter=limiter, metrics=metrics)
    queue.add("y", "x", "w")
    failed = queue.turn([], 3).requests
    queue.add("waits")
    turn = queue.turn([Settlement(request, Retry("no")) for request in failed], 0)
    assert [disposition.kind for disposition in turn.dispositions] == ["pending"] * 3
    queue.add_rate_limited("a")
    assert metrics.counters[ADDS, ("foos", "foos")] == 3 + 1 + 3 + 1
    queue.add("last")
    assert queue.depth() == 6
    assert finish_all(queue) == ["waits", "y", "x", "w", "a", "last"]


@anywhere
def test_no_delay_supersedes_a_delay_as_an_add_does(make_queue: Make, server_time: ServerTime) -> None:
    """Held by any handle: it is pending once, now, with the higher priority of both."""
    queue = make_queue(rate_limiter=lambda _: 0)
    queue.add_after("free", 60)
    queue.add_rate_limited("free")
    assert finish_all(queue) == ["free"]
    queue.add("held", "other")
    held, other = queue.turn([], 2).requests
    queue.add("held", after=60, priority=5)
    queue.add_rate_limited("held")
    assert queue.is_dirty("held")
    queue.add("other", after=60, priority=5)
    queue.settle(other, Result(requeue_after=0))
    queue.add("waits")
    queue.done(held)
    assert [(each.key, each.priority) for each in queue.turn([], 9).requests] == [
        ("held", 5),
        ("other", 5),
        ("waits", 0),
    ]
    server_time.advance(120)
    assert nothing_to_claim(queue)
