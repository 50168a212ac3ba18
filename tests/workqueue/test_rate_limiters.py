"""How long failing items wait: limiters, evaluated by the queue's own script on every server."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    Failure,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    ScriptedRateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
    microseconds,
    validate_rate_limiter,
)
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import back_off, due_in, evaluated, fail, fail_many

Make = Callable[..., Queue]

HOUR = 3600.0
TEN_YEARS = 10 * 365.25 * 24 * HOUR

pytestmark = pytest.mark.usefixtures("server_time")


@pytest.mark.conformance("RL-01", "RL-14")
def test_an_items_back_off_doubles_with_each_failure_and_is_its_own(make_queue: Make) -> None:
    """From base_delay on; another item begins anew, and a forgotten one, too."""
    queue = make_queue(rate_limiter=ItemExponentialFailureRateLimiter(0.001, 1000))
    assert [back_off(queue, "one") for _ in range(5)] == [0.001, 0.002, 0.004, 0.008, 0.016]
    assert queue.num_requeues("one") == 5
    assert [back_off(queue, "two") for _ in range(2)] == [0.001, 0.002]
    assert queue.num_requeues("two") == 2
    queue.forget("one")
    assert queue.num_requeues("one") == 0
    assert back_off(queue, "one") == 0.001


@pytest.mark.conformance("RL-02")
@pytest.mark.parametrize(
    ("base", "most", "failures", "delay"), [(0.001, 1000, 6, 0.032), (60, 1000 * HOUR, 3, 240)]
)
def test_back_off_stays_at_its_most_after_many_failures(
    make_queue: Make, base: float, most: float, failures: int, delay: float
) -> None:
    """Two to the power of a thousand is no trap."""
    queue = make_queue(rate_limiter=ItemExponentialFailureRateLimiter(base, most))
    assert [back_off(queue, "one") for _ in range(failures)][-1] == delay
    for _ in range(1000):
        queue.add_rate_limited("two")
    assert back_off(queue, "two") == most
    assert queue.num_requeues("two") == 1001


@pytest.mark.conformance("RL-02")
@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 1024, 5000, 10**15])
@pytest.mark.parametrize(
    ("base", "most"), [(0.0, 1000.0), (1e-6, 1000.0), (60.0, 3.6e6), (TEN_YEARS, math.inf), (5.0, 1.0)]
)
def test_every_count_and_delay_gives_a_number(
    connection: Connection, base: float, most: float, count: int
) -> None:
    """Neither too large nor none: a script that stops in the middle would lose the item."""
    expected = min(base * 2.0 ** min(count - 1, 1000), most, TEN_YEARS)
    assert evaluated(connection, ItemExponentialFailureRateLimiter(base, most), count) == expected


@pytest.mark.conformance("RL-03")
def test_an_item_is_retried_fast_a_few_times_and_then_slowly(make_queue: Make) -> None:
    """Each item has its own few times, and gets them back when it is forgotten."""
    queue = make_queue(rate_limiter=ItemFastSlowRateLimiter(0.005, 10, 3))
    assert [back_off(queue, "one") for _ in range(5)] == [0.005, 0.005, 0.005, 10, 10]
    assert queue.num_requeues("one") == 5
    assert [back_off(queue, "two") for _ in range(2)] == [0.005, 0.005]
    assert queue.num_requeues("two") == 2
    queue.forget("one")
    assert queue.num_requeues("one") == 0
    assert back_off(queue, "one") == 0.005


@pytest.mark.conformance("RL-04")
def test_of_several_limiters_the_slowest_decides(make_queue: Make) -> None:
    """At each failure anew."""
    limiter = MaxOfRateLimiter(
        ItemFastSlowRateLimiter(0.005, 3, 3), ItemExponentialFailureRateLimiter(0.001, 1)
    )
    queue = make_queue(rate_limiter=limiter)
    assert [back_off(queue, "one") for _ in range(5)] == [0.005, 0.005, 0.005, 3, 3]
    assert queue.num_requeues("one") == 5
    assert [back_off(queue, "two") for _ in range(2)] == [0.005, 0.005]
    assert queue.num_requeues("two") == 2
    queue.forget("one")
    assert queue.num_requeues("one") == 0
    assert back_off(queue, "one") == 0.005


@pytest.mark.conformance("RL-04")
def test_each_of_several_limiters_is_charged(make_queue: Make) -> None:
    """A bucket that never decides is emptied nevertheless."""
    bucket = BucketRateLimiter(1, 3)
    both = make_queue(rate_limiter=MaxOfRateLimiter(ItemExponentialFailureRateLimiter(60), bucket))
    assert [back_off(both, key) for key in "abc"] == [60, 60, 60]
    assert back_off(make_queue(rate_limiter=bucket), "d") == 1


@pytest.mark.conformance("RL-05")
def test_a_delay_may_be_bounded(make_queue: Make) -> None:
    """A hundred items at once and then one in 1000 s, but none waits more than 500 s."""
    queue = make_queue(rate_limiter=WithMaxWaitRateLimiter(BucketRateLimiter(0.001, 100), 500))
    assert fail_many(queue, [f"k{number:03}" for number in range(200)]) == [0] * 100 + [500] * 100
    assert queue.num_requeues("k150") == 1
    queue.forget("k150")
    assert queue.num_requeues("k150") == 0


def test_limiters_nest(make_queue: Make) -> None:
    """The slowest of some, within the most that is allowed, beside others."""
    inner = WithMaxWaitRateLimiter(
        MaxOfRateLimiter(ItemFastSlowRateLimiter(1, 100, 1), ItemExponentialFailureRateLimiter(2, 1000)), 10
    )
    queue = make_queue(rate_limiter=MaxOfRateLimiter(inner, ItemExponentialFailureRateLimiter(0.5)))
    assert [back_off(queue, "a") for _ in range(6)] == [2, 10, 10, 10, 10, 16]


@pytest.mark.conformance("RL-13")
def test_the_default_of_controllers_reaches_its_cap_at_the_19th_failure(make_queue: Make) -> None:
    """5 ms doubled up to 1000 s for an item, after 22 minutes; ten retries a second, a hundred at once."""
    assert default_controller_rate_limiter() == MaxOfRateLimiter(
        ItemExponentialFailureRateLimiter(0.005, 1000), BucketRateLimiter(10, 100)
    )
    queue = make_queue(rate_limiter=default_controller_rate_limiter())
    delays = [back_off(queue, "a") for _ in range(20)]
    assert delays == [*(0.005 * 2**failures for failures in range(18)), 1000, 1000]
    assert sum(delays[:18]) == pytest.approx(1310.715)


def test_without_a_limiter_back_off_is_client_gos_without_its_bucket(make_queue: Make) -> None:
    """Ten retries a second would hold for the whole fleet."""
    queue = make_queue()
    delays = fail_many(queue, [f"k{number}" for number in range(300)])
    assert delays == [0.005] * 300
    assert back_off(queue, "k0") == 0.010


@pytest.mark.conformance("RL-16")
def test_add_rate_limited_counts_each_time_and_the_earliest_delay_stays(queue: Queue) -> None:
    """As of several delays; forgetting begins anew and takes no delay away."""
    queue = Queue("foos", queue.connection, rate_limiter=ItemExponentialFailureRateLimiter(0.001, 1))
    queue.add_rate_limited("one")
    assert due_in(queue, "one") == 0.001
    queue.add_rate_limited("one")
    assert (due_in(queue, "one"), queue.num_requeues("one")) == (0.001, 2)
    for _ in range(2):
        queue.add_rate_limited("two")
    assert (due_in(queue, "two"), queue.num_requeues("two")) == (0.001, 2)
    queue.forget("one")
    assert (due_in(queue, "one"), queue.num_requeues("one")) == (0.001, 0)
    assert back_off(queue, "one") == 0.001
    queue.close()


def _succeed(queue: Queue) -> None:
    queue.settle(queue.get(0))


def _come_back_later(queue: Queue) -> None:
    queue.settle(queue.get(0), Result(requeue_after=1))


def _end(queue: Queue) -> None:
    queue.done(queue.get(0))


def _delete(queue: Queue) -> None:
    QueueStore(queue.connection, queue.name).delete(["a"])


def _requeue(queue: Queue) -> None:
    QueueStore(queue.connection, queue.name).requeue(["a"])


@pytest.mark.conformance("RL-15")
@pytest.mark.parametrize(
    "end", [_succeed, _come_back_later, _end, _delete, _requeue, lambda queue: queue.forget("a")]
)
@pytest.mark.parametrize("max_retries", [None, 0])
def test_a_failure_record_goes_with_its_item(
    make_queue: Make,
    connection: Connection,
    server_time: ServerTime,
    end: Callable[[Queue], object],
    max_retries: int | None,
) -> None:
    """Records belong to pending, held or dead items; nothing is left to expire."""
    queue = make_queue(max_retries=max_retries)
    fail(queue, "a")
    server_time.advance(1)
    if max_retries == 0 and end not in {_delete, _requeue}:
        queue.add("a")  # revives it
    assert connection.execute("HLEN", "distq:{foos}:failures") == 1
    end(queue)
    assert connection.execute("HLEN", "distq:{foos}:failures") == 0


@pytest.mark.conformance("RL-15")
def test_a_record_outlives_the_calls_that_leave_its_item_alive(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Releases, deaths of workers, and deleting what is pending of an item that is held."""
    queue, other = make_queue(), make_queue()
    other.turn([], 0)
    fail(queue, "a")
    queue.add("a")
    queue.release(queue.get(0))
    assert queue.num_requeues("a") == 1
    queue.get(0)
    queue.add("a")
    _delete(queue)
    assert queue.num_requeues("a") == 1
    server_time.lapse(other)
    request = other.get(0)
    assert request.attempt == 2
    assert other.settle(request)
    assert connection.execute("HLEN", "distq:{foos}:failures") == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: ItemExponentialFailureRateLimiter(-1),
        lambda: ItemExponentialFailureRateLimiter(1, math.nan),
        lambda: ItemExponentialFailureRateLimiter("1"),  # type: ignore[arg-type]  # the mistake
        lambda: ItemFastSlowRateLimiter(1, 2, -3),
        lambda: ItemFastSlowRateLimiter(1, 2, 2.5),  # type: ignore[arg-type]  # the mistake
        lambda: BucketRateLimiter(-1),
        lambda: BucketRateLimiter(math.nan),
        lambda: BucketRateLimiter(1, True),
        lambda: BucketRateLimiter(1, 2.5),  # type: ignore[arg-type]  # the mistake
        lambda: BucketRateLimiter(1, math.inf),  # type: ignore[arg-type]  # the mistake
        lambda: WithMaxWaitRateLimiter(BucketRateLimiter(), -1),
        MaxOfRateLimiter,
        lambda: MaxOfRateLimiter(lambda _: 1.0),  # type: ignore[arg-type]  # the mistake
        lambda: WithMaxWaitRateLimiter(lambda _: 1.0, 5),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_numbers_that_make_no_limiter_are_refused(make: Callable[[], object]) -> None:
    """At construction, with the limiter named."""
    with pytest.raises(ConfigError, match=r"bad .*RateLimiter"):
        make()


async def _asynchronous(_: Failure) -> float:
    return 1.0


class _LooksLikeOne:
    def program(self) -> str:
        """Say what no script understands."""
        return "never"


@pytest.mark.parametrize(
    "limiter",
    [
        5,
        "exp 1 2",
        _LooksLikeOne(),
        ItemExponentialFailureRateLimiter,
        default_controller_rate_limiter,
        divmod,
        _asynchronous,
    ],
)
def test_an_object_that_is_no_limiter_is_refused_when_the_queue_is_made(
    connection: Connection, limiter: Any
) -> None:
    """A class, a function that was not called, one of something else: not at the first failure."""
    with pytest.raises(ConfigError, match=r"bad rate_limiter .*\. Give a limiter, or a function of one"):
        Queue("foos", connection, rate_limiter=limiter)


@pytest.mark.parametrize("limiter", [max, {}.get, partial(round, ndigits=1), BucketRateLimiter()])
def test_a_callable_with_one_argument_is_a_limiter(limiter: Any) -> None:
    """Also a function without a readable signature."""
    assert validate_rate_limiter(limiter) is limiter


@pytest.mark.parametrize(
    ("delay", "whole"),
    [(1, 10**6), (0, 0), (-1, 0), (1e-9, 1), (10**400, TEN_YEARS * 1e6), (math.inf, TEN_YEARS * 1e6)],
)
def test_delays_are_whole_microseconds_up_to_ten_years(delay: float, whole: float) -> None:
    """The least back-off is more than none, or an item would spin."""
    assert microseconds(delay) == whole
    assert evaluates_to_itself(microseconds(delay))


def evaluates_to_itself(number: int) -> bool:
    """Return whether a double holds it, which is what a script reads."""
    return int(float(number)) == number


def test_limiters_of_others_are_no_programs() -> None:
    """The scripts understand those of this module alone."""
    assert not isinstance(_LooksLikeOne(), ScriptedRateLimiter)
