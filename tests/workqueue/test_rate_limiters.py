"""What limiters are made of; what they answer is tested where they are evaluated, in the scripts."""

from collections.abc import Callable

import pytest

from distq.errors import ConfigError
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    Failure,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
    fixed,
    program_of,
)


def test_the_default_is_client_gos() -> None:
    """5 ms to 1000 s for an item, ten a second for the fleet."""
    assert default_controller_rate_limiter().program() == "exp 5000 1000000000 bucket 10.0 100 maxof 2"


def test_limiters_nest() -> None:
    """A limiter may bound another."""
    limiter = WithMaxWaitRateLimiter(MaxOfRateLimiter(ItemFastSlowRateLimiter(0.005, 10, 3)), 500)
    assert limiter.program() == "fastslow 5000 10000000 3 maxof 1 maxwait 500000000"


@pytest.mark.parametrize(
    "make",
    [
        lambda: ItemExponentialFailureRateLimiter(-1),
        lambda: ItemExponentialFailureRateLimiter(1, float("nan")),
        lambda: ItemFastSlowRateLimiter(1, 2, -3),
        lambda: BucketRateLimiter(-1),
        lambda: BucketRateLimiter(1, True),
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


@pytest.mark.parametrize(("delay", "program"), [(1, "fixed 1000000"), (0, "fixed 0"), (-1, "fixed 0")])
def test_a_custom_limiter_may_answer_seconds(delay: float, program: str) -> None:
    """What is below zero is now."""
    assert program_of(lambda _: delay, Failure("a", 1, None)) == program == fixed(delay)


def test_an_infinite_rate_is_understood() -> None:
    """As in client-go, where it switches the bucket off."""
    assert BucketRateLimiter(float("inf"), 1).program() == "bucket inf 1"
