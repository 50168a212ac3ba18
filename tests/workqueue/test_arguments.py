"""What a handle is given: one rule for delays, and a typed error with its remedy for what makes no sense."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from distq.errors import ConfigError, InvalidDelay, RedisRefused, RetryAfter
from distq.redisio.connection import Connection
from distq.workqueue.interface import Result, Retry, Settlement, Success
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.outcome import outcome_of
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.claims import nothing_to_claim
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

pytestmark = pytest.mark.first_contact(5)

Make = Callable[..., Queue]

NO_DELAYS = [-1, -1e-9, -math.inf, math.inf, math.nan, True, "5", [5]]

# Delays


@pytest.mark.conformance("DQ-01")
@anywhere
@pytest.mark.parametrize("delay", NO_DELAYS)
def test_a_bad_delay_is_refused_and_adds_nothing(queue: Queue, delay: Any) -> None:
    """A delay is a finite number of seconds, 0 or more, wherever one is given."""
    with pytest.raises(InvalidDelay, match=r"bad delay .*\. Give a finite number of seconds, 0 or more\."):
        queue.add("a", after=delay)
    with pytest.raises(InvalidDelay):
        queue.add_after("a", delay)
    with pytest.raises(InvalidDelay, match=r"bad Result: requeue_after .*\. Give a finite number of seconds"):
        Result(requeue_after=delay)
    assert queue.depth() == 0


@anywhere
@pytest.mark.parametrize("delay", [3.2e8, 1e15, 10**400])
def test_more_than_ten_years_counts_as_ten_years(queue: Queue, server_time: ServerTime, delay: float) -> None:
    """By whichever way it comes: far away is not lost."""
    queue.add("requeued", "failed")
    queue.settle(queue.get(0), Result(requeue_after=delay))
    queue.settle(queue.get(0), _far(delay))
    queue.add_after("added", delay)
    server_time.advance(10 * 365.25 * 86400 - 1)
    assert nothing_to_claim(queue)
    server_time.advance(1)
    assert sorted(request.key for request in queue.turn([], 3).requests) == ["added", "failed", "requeued"]


def _far(delay: float) -> RetryAfter:
    error = RetryAfter(0, "far")
    error.delay = delay
    return error


@anywhere
@pytest.mark.parametrize("delay", NO_DELAYS)
def test_a_retry_after_a_bad_delay_is_a_failure_that_reports_it(
    queue: Queue, server_time: ServerTime, delay: Any
) -> None:
    """It backs off by the limiter: none spins, and none waits for ever."""
    queue.add("a")
    for attempt, backed_off in enumerate((0.005, 0.010, 0.020), 1):
        request = queue.get(0)
        assert request.attempt == attempt
        queue.settle(request, RetryAfter(delay, "quota"))
        server_time.advance(backed_off - 0.001)
        assert nothing_to_claim(queue)
        server_time.advance(0.001)
    outcome = outcome_of(_raised(RetryAfter(delay, "quota")))
    assert isinstance(outcome, Retry)
    assert outcome.error.startswith(f"InvalidDelay: bad RetryAfter: delay {delay!r}. Give a finite number")
    assert "RetryAfter: quota" in outcome.traceback


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001 - it has its traceback now
        return raised


# What a handle is made of

BAD_SETTINGS: list[dict[str, Any]] = [
    *({"claim_duration": bad} for bad in ("30", None, True, 0.5, -30, math.nan, math.inf, 10**400, 1e300)),
    *({"max_retries": bad} for bad in ("3", True, -1, 2.5)),
    *({"max_length": bad} for bad in ("10", True, 0, 2.5)),
    *({"rate_limiter": bad} for bad in (5, "exp", lambda: 1.0)),
    *({"metrics": bad} for bad in (5, object())),
    *({"clock": bad} for bad in (None, 5)),
]


@pytest.mark.parametrize("arguments", BAD_SETTINGS, ids=lambda arguments: next(iter(arguments)))
def test_settings_that_make_no_sense_are_refused_with_their_remedy(arguments: dict[str, Any]) -> None:
    """When the handle is made, before it asks Redis anything."""
    (name,) = arguments
    for make in (Queue, MemoryQueue):
        with pytest.raises(ConfigError, match=rf"^bad {name} .*\. Give "):
            make("foos", **arguments)


@pytest.mark.parametrize("redis", [5, b"redis://localhost", object()])
def test_an_argument_that_leads_to_no_redis_is_refused(redis: Any) -> None:
    """A URL or a Connection does."""
    with pytest.raises(ConfigError, match=r"^bad redis .*\. Give a Connection, a URL, or None"):
        Queue("foos", redis)


def test_a_memory_queue_shares_with_another_one_only(connection: Connection) -> None:
    """Not with a name, and not with a queue in Redis."""
    for shares in ("foos", Queue("foos", connection)):
        with pytest.raises(ConfigError, match=r"^bad shares .*\. Give a MemoryQueue\."):
            MemoryQueue("foos", shares=shares)  # type: ignore[arg-type]  # the mistake


# What its methods take


@anywhere
def test_a_claim_is_ended_by_its_request_alone(queue: Queue) -> None:
    """Not by its key: another worker may hold that by now."""
    queue.add("a")
    request = queue.get(0)
    for end in (queue.done, queue.release, queue.settle):
        for other in ("a", b"a", None, Settlement(request, Success())):
            with pytest.raises(ConfigError, match=r"bad request .*\. Give the Request that get returned\."):
                end(other)  # type: ignore[arg-type]  # the mistake
    assert queue.held() == 1
    assert queue.done(request)


class OwnSettlement(Settlement):  # type: ignore[misc]  # the mistake
    """A kind of Settlement: turns distinguish none."""


@anywhere
def test_a_turn_takes_settlements_and_a_number(queue: Queue) -> None:
    """One bad settlement among good ones ends no claim."""
    queue.add("a", "b")
    requests = queue.turn([], 2).requests
    good = Settlement(requests[0], Success())
    own = OwnSettlement(requests[1], Success())
    for bad in (requests[1], Settlement("b", Success()), Settlement(requests[1], "done"), own, None):  # type: ignore[arg-type]  # the mistake
        with pytest.raises(ConfigError, match=r"^bad (settlement|request|outcome) .*\. Give "):
            queue.turn([good, bad], 1)  # type: ignore[list-item]  # the mistake
    for want in (-1, 1.5, "1", True, None):
        with pytest.raises(ConfigError, match=r"^bad want .*\. Give a whole number, 0 or more\."):
            queue.turn([good], want)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(ConfigError, match=r"^bad want .*\. Give a whole number, 0 or more\."):
            queue.wait(1.0, want)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="at most 250 each way"):
        queue.wait(1.0, 251)
    assert queue.held() == 2


@pytest.mark.parametrize("error", ["\ud800", None, [1]])
def test_an_outcome_that_cannot_be_sent_holds_up_no_other_claim(connection: Connection, error: Any) -> None:
    """It is refused, and the session goes on."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    bad, good = queue.turn([], 2).requests
    with pytest.raises(RedisRefused, match="nothing sent"):
        queue.turn([Settlement(bad, Retry(error))], 0)
    assert queue.done(good)
    assert queue.done(bad)


@anywhere
@pytest.mark.parametrize("timeout", ["5", math.nan, True, [1], 10**400])
def test_a_timeout_is_a_number_of_seconds(queue: Queue, timeout: Any) -> None:
    """Nothing is claimed, and nothing shut down."""
    queue.add("a")
    for wait in (queue.get, queue.shut_down_with_drain, queue.wait):
        with pytest.raises(ConfigError, match=r"^bad timeout .*\. Give seconds, or None for ever\."):
            wait(timeout)
    assert (queue.held(), queue.shutting_down) == (0, False)


@anywhere
@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_a_bound_of_the_fleet_is_a_whole_number(queue: Queue, limit: Any) -> None:
    """It stays what it was."""
    queue.fleet_concurrency = 3
    with pytest.raises(ConfigError, match=r"^bad fleet_concurrency .*\. Give 0 or more, or None\."):
        queue.fleet_concurrency = limit
    assert queue.fleet_concurrency == 3


@anywhere
def test_requests_of_ones_own_making_are_no_claims(queue: Queue) -> None:
    """They have the right type, and nothing is held by them."""
    assert not queue.done(Request("a"))
