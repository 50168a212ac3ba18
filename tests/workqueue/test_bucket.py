"""The token bucket that all handles of a queue share, on every server."""

import math
from collections.abc import Callable, Sequence

import pytest

from distq.errors import ConfigError
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import BucketRateLimiter
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import back_off, due_in, evaluated, fail_many

Make = Callable[..., Queue]

TEN_YEARS = 315_576_000.0
NEVER = 9_223_372_036_854_775_807

pytestmark = pytest.mark.usefixtures("server_time")


def _keys(number: int) -> list[str]:
    return [f"k{each:05}" for each in range(number)]


@pytest.mark.conformance("RL-06", "RL-07")
def test_a_bucket_starts_full_and_is_of_the_queue_not_of_an_item(make_queue: Make) -> None:
    """A hundred failures at once, of any items, then one each tenth of a second."""
    queue = make_queue(rate_limiter=BucketRateLimiter())
    assert fail_many(queue, _keys(103)) == [0] * 100 + [0.1, 0.2, 0.3]
    assert back_off(queue, "k00000") == 0.4


@pytest.mark.conformance("RL-08")
def test_the_debt_of_a_bucket_has_no_bound(make_queue: Make) -> None:
    """Of 10,000 failures at ten a second the last comes back after 990 s."""
    queue = make_queue(rate_limiter=BucketRateLimiter(10, 100))
    delays = fail_many(queue, _keys(10_000))
    assert delays == [max(0, number - 99) / 10 for number in range(10_000)]
    assert delays[-1] == (10_000 - 100) / 10


@pytest.mark.conformance("RL-06")
def test_forget_and_num_requeues_are_about_items_not_the_bucket(make_queue: Make) -> None:
    """A token that was taken stays taken; failures are counted with every limiter."""
    queue = make_queue(rate_limiter=BucketRateLimiter(1, 1))
    assert back_off(queue, "a") == 0
    assert queue.num_requeues("a") == 1
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    assert back_off(queue, "a") == 1


@pytest.mark.conformance("RL-06")
def test_a_bucket_is_charged_though_the_item_was_pending_already(make_queue: Make) -> None:
    """When is asked before AddAfter is."""
    queue = make_queue(rate_limiter=BucketRateLimiter(1, 2))
    queue.add("ready")
    queue.add_rate_limited("ready")
    queue.add_rate_limited("ready")
    queue.add_rate_limited("b")
    assert due_in(queue, "b") == 1


@pytest.mark.conformance("RL-06")
def test_a_bucket_is_charged_though_a_newer_event_is_pending(make_queue: Make) -> None:
    """The failure counts as one, though it delays nothing."""
    queue = make_queue(rate_limiter=BucketRateLimiter(1, 1))
    queue.add("a")
    request = queue.get(0)
    queue.add("a")
    queue.settle(request, ValueError("of what was"))
    assert queue.depth() == 1
    assert back_off(queue, "b") == 1


@pytest.mark.conformance("RL-06")
def test_an_add_that_takes_no_back_off_takes_no_token(make_queue: Make) -> None:
    """A bucket is for retries; events, delays and successes are not slowed."""
    queue = make_queue(rate_limiter=BucketRateLimiter(1, 1))
    queue.add(*_keys(50))
    queue.add_after("later", 5)
    for _ in range(50):
        queue.settle(queue.get(0))
    assert back_off(queue, "a") == 0


@pytest.mark.conformance("RD-12")
def test_all_handles_of_a_queue_take_from_one_bucket(make_queue: Make) -> None:
    """Ten a second is ten a second for the fleet, however the rate is written."""
    one, other = (make_queue(rate_limiter=BucketRateLimiter(qps, 1)) for qps in (10, 10.0))
    assert [back_off(queue, key) for queue, key in ((one, "a"), (other, "b"), (one, "c"))] == [0, 0.1, 0.2]


def test_buckets_of_another_rate_burst_or_queue_are_apart(make_queue: Make, connection: Connection) -> None:
    """Each begins full."""
    elsewhere = Queue("bars", connection, rate_limiter=BucketRateLimiter(1, 1))
    settings = (1, 1), (2, 1), (1, 2)
    queues = [make_queue(rate_limiter=BucketRateLimiter(*setting)) for setting in settings]
    assert [back_off(queue, "a") for queue in (*queues, elsewhere)] == [0] * 4
    assert [back_off(queue, "a") for queue in queues] == [1, 0.5, 0]
    elsewhere.close()


@pytest.mark.conformance("RL-09")
@pytest.mark.parametrize("burst", [0, 1, 100])
def test_an_infinite_rate_delays_nothing(make_queue: Make, connection: Connection, burst: int) -> None:
    """With any burst; and there is no bucket to keep."""
    queue = make_queue(rate_limiter=BucketRateLimiter(math.inf, burst))
    assert fail_many(queue, _keys(300)) == [0] * 300
    assert not any(field.startswith(b"bucket") for field in connection.execute("HKEYS", "distq:{foos}:meta"))


@pytest.mark.conformance("RL-10")
def test_a_burst_of_nothing_is_refused(connection: Connection) -> None:
    """client-go waits for ever; a script that gets it, from whomever, answers ten years and takes nothing."""
    with pytest.raises(ConfigError, match=r"bad BucketRateLimiter\(qps=10.0, burst=0\): nothing would ever"):
        BucketRateLimiter(10.0, 0)
    assert evaluated(connection, "bucket 10.0 0") == TEN_YEARS
    assert connection.execute("HGETALL", "distq:{foos}:meta") == []


@pytest.mark.conformance("RL-11")
def test_a_rate_of_nothing_lets_only_the_burst_through(make_queue: Make, server_time: ServerTime) -> None:
    """No wait is long enough for another item."""
    queue = make_queue(rate_limiter=BucketRateLimiter(0, 3))
    assert fail_many(queue, _keys(5)) == [0, 0, 0, TEN_YEARS, TEN_YEARS]
    server_time.advance(1e6)
    assert back_off(queue, "z") == TEN_YEARS


@pytest.mark.conformance("RL-12")
def test_time_that_goes_back_fills_nothing_and_takes_nothing(
    make_queue: Make, server_time: ServerTime
) -> None:
    """A server's clock that steps back an hour costs no retry more than its token."""
    queue = make_queue(rate_limiter=BucketRateLimiter(1, 2))
    assert [back_off(queue, key) for key in "abc"] == [0, 0, 1]
    server_time.advance(-3600)
    assert back_off(queue, "d") == 2
    server_time.advance(1)
    assert back_off(queue, "e") == 2


@pytest.mark.conformance("RL-12")
def test_a_bucket_holds_no_more_than_its_burst(make_queue: Make, server_time: ServerTime) -> None:
    """A quiet year saves up nothing."""
    queue = make_queue(rate_limiter=BucketRateLimiter(10, 2))
    assert back_off(queue, "a") == 0
    server_time.advance(365 * 86400)
    assert fail_many(queue, ["a", "b", "c"]) == [0, 0, 0.1]


@pytest.mark.conformance("RL-12")
@pytest.mark.parametrize("qps", [5e-324, 1e-12, 1e-9])
def test_the_longest_delay_is_ten_years(connection: Connection, qps: float) -> None:
    """A debt beyond that, or beyond all numbers, counts as ten years."""
    limiter = BucketRateLimiter(qps, 1)
    assert [evaluated(connection, limiter) for _ in range(3)] == [0, TEN_YEARS, TEN_YEARS]


@pytest.mark.conformance("RL-06", "RL-08", "RL-11", "RL-12")
@pytest.mark.parametrize(
    ("rate", "burst", "moments", "delays"),
    [
        (
            10.0,
            3,
            [0, 85309, 85311, 85311, 171190, 242279, 42279, 91800, 470886, 629558],
            [0, 0, 0, 14689000, 28810000, 57721000, 157721000, 208200000, 0, 0],
        ),
        (
            0.1,
            3,
            [0, 3772253, 3772255, 4081424, 5198619, 5198621, -13312134, -99244, 36838412, 39074251],
            [
                0,
                0,
                0,
                5918576000,
                14801381000,
                24801378999,
                34801379000,
                31588488999,
                4650832999,
                12414993999,
            ],
        ),
        (
            3.3,
            2,
            [0, 600142, 748474, 748474, 789925, 810125, 204066, 296828, 898859, 898860],
            [0, 0, 0, 154698303, 416277606, 699107909, 1002138212, 1212406515, 913405818, 1216435121],
        ),
        (
            0.0007,
            1,
            [0, 1, 397238378, 461734881, 463765546, 478889900, 288912152, 311063054, 466921813, 466921814],
            [
                0,
                1428571427571,
                2459904479142,
                3823979404714,
                5250520168285,
                6663967242857,
                8092538671428,
                9498959197999,
                10771671867571,
                12200243295142,
            ],
        ),
        (
            1000.0,
            2,
            [0, 1470, 3149, 4777, 4777, 4783, 2862, 2989, 5254, 9057],
            [0, 0, 0, 0, 0, 994000, 1994000, 2867000, 1602000, 0],
        ),
        (
            0.0,
            2,
            [
                0,
                156951564,
                174552872,
                185135002,
                198353808,
                252419261,
                52419263,
                52419265,
                52419265,
                202911012,
            ],
            [0, 0, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER],
        ),
    ],
)
def test_delays_are_those_of_gos_limiter(
    connection: Connection, rate: float, burst: int, moments: Sequence[int], delays: Sequence[int]
) -> None:
    """To the ns, at moments in µs; recorded from golang.org/x/time/rate 0.14."""
    began = connection.server_time
    for moment, nanoseconds in zip(moments, delays, strict=True):
        connection.server_time = began + moment
        seconds = evaluated(connection, BucketRateLimiter(rate, burst))
        expected = TEN_YEARS if nanoseconds == NEVER else nanoseconds / 1e9
        assert seconds == pytest.approx(expected, rel=1e-12, abs=1.5e-9)
