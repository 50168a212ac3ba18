"""A custom limiter: a function of the failure; and errors that say how long to wait."""

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from distq.errors import ApiError, Conflict, RetryAfter, TooManyRequests
from distq.metrics import LIMITER_ERRORS, Labels, Metric, Sample
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    CustomRateLimiter,
    Failure,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    ScriptedRateLimiter,
    WithMaxWaitRateLimiter,
)
from tests.workqueue.failing import back_off, due_in, fail

Make = Callable[..., Queue]

pytestmark = pytest.mark.usefixtures("server_time")


def by_error(failure: Failure) -> ScriptedRateLimiter:
    """Retry timeouts fast, conflicts after a while, and what the server turned away slowly."""
    match failure.error:
        case TimeoutError():
            return ItemFastSlowRateLimiter(0.01, 1, 3)
        case Conflict():
            return ItemExponentialFailureRateLimiter(0.5, 60)
        case TooManyRequests():
            return ItemExponentialFailureRateLimiter(5, 600)
    return ItemExponentialFailureRateLimiter()


def test_the_error_decides_and_the_count_is_the_items(make_queue: Make) -> None:
    """Each failure counts as one more, after any kind of error."""
    queue = make_queue(rate_limiter=by_error)
    conflict = Conflict("changed", status=409)
    errors = [TimeoutError(), TimeoutError(), conflict, conflict, TooManyRequests("slow down"), ValueError()]
    assert [back_off(queue, "a", error) for error in errors] == [0.01, 0.01, 2, 4, 80, 0.16]
    assert queue.num_requeues("a") == 6
    queue.forget("a")
    assert back_off(queue, "a", conflict) == 0.5


def test_it_receives_the_key_the_failures_and_the_error(make_queue: Make) -> None:
    """And of no error where a failure is counted without one."""
    heard: list[Failure] = []

    def limiter(failure: Failure) -> float:
        heard.append(failure)
        return failure.attempt * 10

    queue = make_queue(rate_limiter=limiter)
    error = ValueError("bad")
    assert [back_off(queue, "a", error), back_off(queue, "a")] == [10, 20]
    queue.add_rate_limited("b")
    assert due_in(queue, "b") == 10
    assert [(each.key, each.attempt) for each in heard] == [("a", 1), ("a", 2), ("b", 1)]
    assert heard[0].error is error
    assert heard[2].error is None


def test_seconds_or_a_limiter_are_answers(make_queue: Make) -> None:
    """None at all, whole or not, of a hundred years; a limiter of several, too."""
    answers: list[float | ScriptedRateLimiter] = [0, 0.25, 3, 3.2e9]
    answers += [WithMaxWaitRateLimiter(MaxOfRateLimiter(ItemFastSlowRateLimiter(1, 9, 1)), 7)]
    queue = make_queue(rate_limiter=lambda _: answers.pop(0))
    assert [back_off(queue, "a") for _ in range(5)] == [0, 0.25, 3, 315_576_000, 7]


def _raises(_: Failure) -> float:
    raise KeyError("a bug")


@pytest.mark.parametrize(
    "limiter",
    [
        *(
            lambda _, answer=answer: answer
            for answer in (
                math.nan,
                -1,
                -math.inf,
                math.inf,
                None,
                True,
                "5",
                5j,
                object(),
                ItemFastSlowRateLimiter,
            )
        ),
        lambda _: BucketRateLimiter(),
        lambda _: MaxOfRateLimiter(ItemFastSlowRateLimiter(60, 60, 1), BucketRateLimiter()),
        lambda _: ItemExponentialFailureRateLimiter(-1),
        _raises,
    ],
)
def test_a_bad_answer_backs_off_by_default_and_is_said(
    make_queue: Make, caplog: pytest.LogCaptureFixture, limiter: CustomRateLimiter
) -> None:
    """The claim ends nevertheless, and no worker retries without a pause."""
    queue = make_queue(rate_limiter=limiter)
    with caplog.at_level(logging.ERROR, logger="distq.queue"):
        assert [back_off(queue, "a") for _ in range(2)] == [0.005, 0.010]
    assert caplog.text.count("rate limiter failed for a: backing off by default") == 2
    queue.add_rate_limited("b")
    assert due_in(queue, "b") == 0.005


class _Counters:
    """A provider of metrics that keeps its counters."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Metric, Labels]] = Counter()

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        """Raise a counter."""
        self.counts[metric, labels] += round(amount)

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Forget values."""

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Fail: a queue has counters and histograms only."""
        raise NotImplementedError


def test_bad_answers_are_counted(make_queue: Make) -> None:
    """By any listener; an answer that is a delay counts for nothing."""
    answers: list[Any] = [math.nan, 5, None, ItemFastSlowRateLimiter(1, 2, 3), -1]
    counters = _Counters()
    queue = make_queue(rate_limiter=lambda _: answers.pop(0), metrics=counters)
    for _ in range(4):
        fail(queue, "a")
    queue.add_rate_limited("b")
    assert counters.counts[LIMITER_ERRORS, ("foos",)] == 3


@pytest.mark.parametrize(
    ("limiter", "expected"),
    [
        (None, [30, 30, 30]),
        (ItemExponentialFailureRateLimiter(20), [30, 40, 80]),
        (MaxOfRateLimiter(ItemExponentialFailureRateLimiter(20)), [30, 40, 80]),
        (lambda failure: 25.0 * failure.attempt, [30, 50, 75]),
        (lambda _: None, [30, 30, 30]),
    ],
)
def test_no_item_is_retried_sooner_than_a_server_asked(
    make_queue: Make, limiter: RateLimiter | None, expected: list[float]
) -> None:
    """Retry-After is the least delay; any kind of limiter may set a longer one."""
    queue = make_queue(rate_limiter=limiter)
    error = TooManyRequests("slow down", retry_after=30)
    assert [back_off(queue, "a", error) for _ in range(3)] == expected


def test_a_bucket_is_charged_once_though_a_server_asked_to_wait(make_queue: Make) -> None:
    """The server's Retry-After and the queue's limiter both count."""
    queue = make_queue(rate_limiter=BucketRateLimiter(1, 1))
    assert back_off(queue, "a", TooManyRequests("slow down", retry_after=30)) == 30
    assert [back_off(queue, key) for key in "bc"] == [1, 2]


class _Theirs(Exception):
    def __init__(self, retry_after: Any) -> None:
        super().__init__()
        self.retry_after = retry_after


class _Rude(Exception):
    @property
    def retry_after(self) -> float:
        """Fail."""
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (ApiError("starting", status=503, retry_after=7), 7),
        (ApiError("broken", status=500), 0.005),
        (_Theirs(7), 7),
        (_Theirs(0.001), 0.005),
        (_Theirs(-7), 0.005),
        (_Theirs(math.nan), 0.005),
        (_Theirs("Fri, 31 Dec 1999 23:59:59 GMT"), 0.005),
        (_Theirs(True), 0.005),
        (_Theirs(None), 0.005),
        (_Rude(), 0.005),
        (RetryAfter(0.001), 0.001),
        (RetryAfter(7), 7),
    ],
)
def test_any_error_may_say_how_long_to_wait(queue: Queue, error: Exception, delay: float) -> None:
    """By ``retry_after``, a number of seconds; other values are ignored. RetryAfter has the last word."""
    assert back_off(queue, "a", error) == delay


def test_a_limiter_may_ask_its_queue(make_queue: Make) -> None:
    """It runs within a turn: reading does not wait for that to end."""
    queue: Queue = make_queue(rate_limiter=lambda failure: 60.0 * (queue.num_requeues(failure.key) + 1))
    delays: list[float] = []
    failing = threading.Thread(target=lambda: delays.append(back_off(queue, "a")), daemon=True)
    failing.start()
    failing.join(20)
    assert delays == [60]
