"""How long a failing item waits. A limiter is a specification that the queue's scripts evaluate.

So the counts and token buckets that it needs belong to the queue and not to a process.
``program`` writes it in the postfix notation of ``redisio/lua/include/limiter.lua``, times in µs.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from distq.errors import ConfigError

_logger = logging.getLogger("distq.queue")

TEN_YEARS = 315_576_000.0
"""Seconds; longer delays count as this."""


@runtime_checkable
class Program(Protocol):
    """A limiter that the queue evaluates."""

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""


@dataclass(frozen=True)
class Failure:
    """What a custom limiter decides by: the key, its failures with this one, and the error if any."""

    key: str
    attempt: int
    error: BaseException | None


@dataclass(frozen=True)
class ItemExponentialFailureRateLimiter:
    """Delay ``base_delay * 2^failures`` seconds, at most ``max_delay``.

    Source: client-go util/workqueue ItemExponentialFailureRateLimiter.
    """

    base_delay: float = 0.005
    max_delay: float = 1000.0

    def __post_init__(self) -> None:
        _check(self, self.base_delay, self.max_delay)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return f"exp {microseconds(self.base_delay)} {microseconds(self.max_delay)}"


@dataclass(frozen=True)
class ItemFastSlowRateLimiter:
    """Delay ``fast_delay`` seconds for the first ``max_fast_attempts`` failures, then ``slow_delay``.

    Source: client-go util/workqueue ItemFastSlowRateLimiter.
    """

    fast_delay: float
    slow_delay: float
    max_fast_attempts: int

    def __post_init__(self) -> None:
        _check(self, self.fast_delay, self.slow_delay, self.max_fast_attempts)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        fast, slow = microseconds(self.fast_delay), microseconds(self.slow_delay)
        return f"fastslow {fast} {slow} {self.max_fast_attempts}"


@dataclass(frozen=True)
class BucketRateLimiter:
    """Delay so that the whole fleet retries at most ``qps`` items a second, ``burst`` at once.

    The debt has no bound: of 10,000 failures at 10 a second the last waits 16 minutes.
    Source: client-go util/workqueue BucketRateLimiter, golang.org/x/time/rate Reserve.
    """

    qps: float = 10.0
    burst: int = 100

    def __post_init__(self) -> None:
        _check(self, self.qps, self.burst)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return f"bucket {self.qps!r} {self.burst}"


@dataclass(frozen=True, init=False)
class MaxOfRateLimiter:
    """Delay as long as the slowest of several limiters; each of them is charged.

    Source: client-go util/workqueue MaxOfRateLimiter.
    """

    limiters: tuple[Program, ...]

    def __init__(self, *limiters: Program) -> None:
        if not limiters or not all(isinstance(limiter, Program) for limiter in limiters):
            raise ConfigError(f"bad MaxOfRateLimiter: {limiters!r}. Give one or more limiters, no functions.")
        object.__setattr__(self, "limiters", limiters)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return " ".join([*(limiter.program() for limiter in self.limiters), f"maxof {len(self.limiters)}"])


@dataclass(frozen=True)
class WithMaxWaitRateLimiter:
    """Delay as another limiter says, at most ``max_delay`` seconds.

    Source: client-go util/workqueue WithMaxWaitRateLimiter.
    """

    limiter: Program
    max_delay: float

    def __post_init__(self) -> None:
        if not isinstance(self.limiter, Program):
            raise ConfigError(f"bad WithMaxWaitRateLimiter: {self.limiter!r}. Give a limiter, no function.")
        _check(self, self.max_delay)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return f"{self.limiter.program()} maxwait {microseconds(self.max_delay)}"


CustomRateLimiter = Callable[[Failure], float | Program]
RateLimiter = Program | CustomRateLimiter


def default_controller_rate_limiter() -> MaxOfRateLimiter:
    """Return client-go's default: 5 ms to 1000 s for an item, 10 a second for all of the fleet."""
    return MaxOfRateLimiter(ItemExponentialFailureRateLimiter(), BucketRateLimiter())


def program_of(limiter: RateLimiter, failure: Failure) -> str:
    """Return what the scripts evaluate for a failure, after asking a custom limiter."""
    if not callable(limiter):
        return limiter.program()
    try:
        answer = limiter(failure)
        program = fixed(answer) if isinstance(answer, int | float) else answer.program()
        if "bucket" in program:
            raise TypeError("it answered a bucket. Answer seconds, or a limiter without a bucket.")
    except Exception:  # a broken limiter must not stop the queue
        _logger.exception("rate limiter failed for %s: backing off by default", failure.key)
        return ItemExponentialFailureRateLimiter().program()
    return program


def fixed(delay: float) -> str:
    """Return the limiter that always says ``delay`` seconds."""
    return f"fixed {microseconds(delay)}"


def is_delay(delay: object) -> bool:
    """Return whether it is a number of seconds."""
    return isinstance(delay, int | float) and not isinstance(delay, bool) and not math.isnan(delay)


def microseconds(delay: float) -> int:
    """Return whole µs, from none to ten years; raise ValueError for a delay that is no number."""
    if not is_delay(delay):
        raise ValueError(f"bad delay {delay!r}: not a number of seconds")
    return round(min(max(delay, 0.0), TEN_YEARS) * 1_000_000)


def _check(limiter: object, *numbers: float) -> None:
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
            raise ConfigError(f"bad {limiter!r}: {number!r} is no number of 0 or more.")
