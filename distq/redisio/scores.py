"""The numbers in a queue's sorted sets, as the scripts write them (``lua/include/order.lua``)."""

import math
from collections.abc import Iterable, Sequence
from itertools import repeat

from distq.errors import InvalidPriority

_ONE = 2**52
_HIGHEST = 900
"""The highest priority, negated the lowest; beyond them orders would not be exact."""
_FIRST_ORDER, _BEYOND_ORDERS = math.ldexp(_ONE, -_HIGHEST), math.ldexp(2 * _ONE, _HIGHEST)
NO_SCORE = 0, 0
"""The result for a number that no script wrote."""


def validate_priority(priority: int) -> int:
    """Return the priority as a plain int, also for an enum: redis-py sends nothing else.

    Raises InvalidPriority unless it is a whole number from -900 to 900.
    """
    if type(priority) is int and -_HIGHEST <= priority <= _HIGHEST:
        return priority
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > _HIGHEST:
        raise InvalidPriority(
            f"bad priority {priority!r:.80}. Use a whole number from {-_HIGHEST} to {_HIGHEST}."
        )
    return int(priority)


def decode_order(score: bytes | float) -> tuple[int, int]:
    """Return (priority, µs since which an item is pending) of a score in ready or dirty; zeros for others."""
    number = _number(score)
    if not _FIRST_ORDER <= number < _BEYOND_ORDERS:
        return NO_SCORE
    mantissa, exponent = math.frexp(number)
    return 53 - exponent, int(mantissa * 2**53) - _ONE


def decode_orders(scores: Sequence[bytes]) -> tuple[Iterable[int], list[float]]:
    """Return the priorities of many such scores, and since when each item is pending, in seconds."""
    numbers = list(map(float, scores))  # Redis returns no other text for a score
    if _ONE <= min(numbers) <= max(numbers) < 2 * _ONE:  # priority 0, as nearly always
        return repeat(0), [(number - _ONE) / 1e6 for number in numbers]
    decoded = list(map(decode_order, scores))
    return [priority for priority, _ in decoded], [since / 1e6 for _, since in decoded]


def decode_due(score: bytes | float) -> tuple[int, int]:
    """Return (priority, due time in µs) of a score in delayed; zeros for others."""
    number = _number(score)
    if not 0 <= number < 2 * _ONE:
        return NO_SCORE
    milliseconds, rest = divmod(int(number), 2048)  # a priority needs 11 bits
    return max(-_HIGHEST, min(_HIGHEST, 1023 - rest)), milliseconds * 1000


def decode_time(text: bytes | float | None) -> int | None:
    """Return a time or a clock in µs; None if it is invalid, or later than the year 2112."""
    number = math.nan if text is None else _number(text)
    return int(number) if 0 <= number < _ONE else None


def decode_parked(score: bytes | float) -> int | None:
    """Return when a dead item was parked, µs; None if the score is invalid.

    If waiting may help, the score has 2**52 added.
    """
    number = _number(score)
    return decode_time(number - _ONE if number >= _ONE else number)


def may_time_mend(score: bytes | float) -> bool:
    """Return whether waiting may help a dead item: then it may be revived."""
    return _ONE <= _number(score) < 2 * _ONE


def orders_of(priority: int) -> tuple[str, str]:
    """Return the lowest score of a priority in ready or dirty, and the first beyond, as texts for Redis."""
    return repr(math.ldexp(_ONE, -priority)), repr(math.ldexp(2 * _ONE, -priority))


def _number(text: bytes | float) -> float:
    """Return the number as Redis has it, NaN for other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


ORDERS = f"{_FIRST_ORDER!r}", f"({_BEYOND_ORDERS!r}"
"""The lowest order and the first number beyond all orders, as texts for Redis."""


def due_by(now: float) -> int:
    """Return the first score in delayed that is not due, ``now`` in seconds since the epoch."""
    return (int(now * 1000) + 1) * 2048
