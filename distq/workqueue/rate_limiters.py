"""The rate limiters: how long a failed item waits. The queue's scripts evaluate them.

So their counts and token buckets belong to the queue, not to a process. ``program`` writes a limiter in the
postfix notation of ``redisio/lua/include/limiter.lua``, times in µs.
"""

import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from distq.errors import ConfigError, InvalidDelay
from distq.seconds import Duration, in_seconds

_logger = logging.getLogger("distq.queue")

TEN_YEARS = 315_576_000.0
"""Seconds; all longer delays count as this."""


class ScriptedRateLimiter(ABC):
    """A limiter that the queue's scripts evaluate: one of those below."""

    @abstractmethod
    def program(self) -> str:
        """Return the limiter in the scripts' notation."""


@dataclass(frozen=True)
class Failure:
    """The input of a custom limiter: the key, the number of its failures with this one, and the error.

    The error is None for ``add_rate_limited``.
    """

    key: str
    attempt: int
    error: BaseException | None


@dataclass(frozen=True)
class ItemExponentialFailureRateLimiter(ScriptedRateLimiter):
    """Delay ``base_delay * 2^failures`` seconds, at most ``max_delay``.

    Source: client-go util/workqueue ItemExponentialFailureRateLimiter.
    """

    base_delay: Duration = 0.005
    max_delay: Duration = 1000.0

    def __post_init__(self) -> None:
        _check(self, self.base_delay, self.max_delay)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        base, longest = microseconds(in_seconds(self.base_delay)), microseconds(in_seconds(self.max_delay))
        return f"exp {base} {longest}"


@dataclass(frozen=True)
class ItemFastSlowRateLimiter(ScriptedRateLimiter):
    """Delay ``fast_delay`` seconds for the first ``max_fast_attempts`` failures, then ``slow_delay``.

    Source: client-go util/workqueue ItemFastSlowRateLimiter.
    """

    fast_delay: Duration
    slow_delay: Duration
    max_fast_attempts: int

    def __post_init__(self) -> None:
        _check(self, self.fast_delay, self.slow_delay)
        _check_whole(self, self.max_fast_attempts)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        fast, slow = microseconds(in_seconds(self.fast_delay)), microseconds(in_seconds(self.slow_delay))
        return f"fastslow {fast} {slow} {self.max_fast_attempts}"


@dataclass(frozen=True)
class BucketRateLimiter(ScriptedRateLimiter):
    """Delay so that the whole fleet retries at most ``qps`` items a second, ``burst`` at once.

    The debt has no bound: of 10,000 failures at 10 a second the last waits 16 minutes. Handles with the
    same qps and burst share one bucket. An infinite qps delays nothing; qps 0 lets ``burst`` items
    through, then none. Raises ConfigError for a burst of 0, which would let no item through.
    Source: client-go util/workqueue BucketRateLimiter, golang.org/x/time/rate Reserve.
    """

    qps: float = 10.0
    burst: int = 100

    def __post_init__(self) -> None:
        _check(self, self.qps)
        _check_whole(self, self.burst)
        if self.burst == 0 and self.qps != math.inf:
            raise ConfigError(f"bad {self!r}: nothing would ever come back. Give a burst of 1 or more.")

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return f"bucket {float(self.qps)!r} {self.burst}"  # a bucket is named by this text: 10 is 10.0


@dataclass(frozen=True, init=False)
class MaxOfRateLimiter(ScriptedRateLimiter):
    """Delay as long as the slowest of several limiters; each of them is charged.

    Source: client-go util/workqueue MaxOfRateLimiter.
    """

    limiters: tuple[ScriptedRateLimiter, ...]

    def __init__(self, *limiters: ScriptedRateLimiter) -> None:
        if not limiters or not all(isinstance(limiter, ScriptedRateLimiter) for limiter in limiters):
            raise ConfigError(f"bad MaxOfRateLimiter: {limiters!r}. Give one or more limiters, no functions.")
        object.__setattr__(self, "limiters", limiters)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return " ".join([*(limiter.program() for limiter in self.limiters), f"maxof {len(self.limiters)}"])


@dataclass(frozen=True)
class WithMaxWaitRateLimiter(ScriptedRateLimiter):
    """Delay as another limiter does, at most ``max_delay`` seconds.

    Source: client-go util/workqueue WithMaxWaitRateLimiter.
    """

    limiter: ScriptedRateLimiter
    max_delay: Duration

    def __post_init__(self) -> None:
        if not isinstance(self.limiter, ScriptedRateLimiter):
            raise ConfigError(f"bad WithMaxWaitRateLimiter: {self.limiter!r}. Give a limiter, no function.")
        _check(self, self.max_delay)

    def program(self) -> str:
        """Return the limiter in the scripts' notation."""
        return f"{self.limiter.program()} maxwait {microseconds(in_seconds(self.max_delay))}"


CustomRateLimiter = Callable[[Failure], Duration | ScriptedRateLimiter]
RateLimiter = ScriptedRateLimiter | CustomRateLimiter


def default_controller_rate_limiter() -> MaxOfRateLimiter:
    """Return client-go's default: 5 ms to 1000 s for an item, 10 a second for all of the fleet."""
    return MaxOfRateLimiter(ItemExponentialFailureRateLimiter(), BucketRateLimiter())


def validate_rate_limiter(limiter: RateLimiter) -> RateLimiter:
    """Return the limiter; raise ConfigError unless it is one of ours, or a function of one Failure."""
    if isinstance(limiter, ScriptedRateLimiter):
        return limiter
    if isinstance(limiter, type) or inspect.iscoroutinefunction(limiter) or not _takes_one(limiter):
        raise ConfigError(f"bad rate_limiter {limiter!r}. Give a limiter, or a function of one Failure.")
    return limiter


def _takes_one(function: object) -> bool:
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def program_of(limiter: RateLimiter, failure: Failure, on_error: Callable[[], None] = lambda: None) -> str:
    """Return the limiter program for a failure; a custom limiter is called for it.

    An error with ``retry_after`` seconds (errors.TooManyRequests) waits at least as long. ``on_error``
    is called if a custom limiter raised or returned no delay.
    """
    if isinstance(limiter, ScriptedRateLimiter):
        program = limiter.program()
    else:
        program = _custom_program(limiter, failure, on_error)
    least = _asked_for(failure.error)
    return program if least is None else f"{program} {fixed(least)} maxof 2"


def _asked_for(error: BaseException | None) -> float | None:
    try:
        asked = in_seconds(getattr(error, "retry_after", None))
    except Exception:  # noqa: BLE001 - raised by the error's own class
        return None
    return asked if is_number(asked) else None  # from any error class: microseconds() bounds it


def _custom_program(limiter: CustomRateLimiter, failure: Failure, on_error: Callable[[], None]) -> str:
    try:
        return _answered(limiter(failure))
    except Exception:  # a broken limiter must not stop the queue
        _logger.exception("rate limiter failed for %s: backing off by default", failure.key)
        on_error()
        return ItemExponentialFailureRateLimiter().program()


def _answered(answer: object) -> str:
    if isinstance(answer, ScriptedRateLimiter) and "bucket" not in answer.program():
        return answer.program()
    delay = in_seconds(answer)
    if not is_delay(delay):
        raise TypeError(f"it answered {answer!r}. Answer seconds, or a limiter without a bucket.")
    return fixed(delay)


def fixed(delay: float) -> str:
    """Return the limiter whose delay is always ``delay`` seconds."""
    return f"fixed {microseconds(delay)}"


def is_delay(delay: object) -> TypeGuard[float]:
    """Return whether it is a finite number of seconds, 0 or more."""
    return is_number(delay) and 0 <= delay < math.inf


def is_number(number: object) -> TypeGuard[float]:
    """Return whether it is a number, infinity included."""
    if isinstance(number, float):
        return not math.isnan(number)
    return isinstance(number, int) and not isinstance(number, bool)


def is_whole(number: object) -> TypeGuard[int]:
    """Return whether it is a whole number; a bool is none."""
    return isinstance(number, int) and not isinstance(number, bool)


def validate_delay(delay: float, what: str = "delay") -> float:
    """Return the delay; raise InvalidDelay unless it is a finite number of seconds, 0 or more."""
    if not is_delay(delay):
        raise invalid_delay(delay, what)
    return delay


def invalid_delay(delay: object, what: str) -> InvalidDelay:
    """Return the error for a value that is no delay."""
    return InvalidDelay(f"bad {what} {delay!r:.80}. Give a finite number of seconds, 0 or more.")


def microseconds(delay: float) -> int:
    """Return whole µs: 0 for no delay, otherwise 1 or more, at most ten years."""
    if delay <= 0:
        return 0
    return max(1, round(min(delay, TEN_YEARS) * 1_000_000))  # a tiny delay must not become none


def _check(limiter: object, *numbers: Duration) -> None:
    for number in map(in_seconds, numbers):
        if not is_number(number) or number < 0:
            raise ConfigError(f"bad {limiter!r}: {number!r} is no number of 0 or more.")


def _check_whole(limiter: object, number: int) -> None:
    if not is_whole(number) or number < 0:
        raise ConfigError(f"bad {limiter!r}: {number!r} is no whole number of 0 or more.")
