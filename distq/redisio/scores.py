"""The numbers in a queue's sorted sets, as the scripts write them (``lua/include/order.lua``)."""

import math

from distq.errors import InvalidPriority

_ONE = 2**52
_HIGHEST = 900
"""Of either sign; beyond it orders would not be exact."""


def validate_priority(priority: int) -> int:
    """Return the priority as a plain int, whatever enum it is of, since that is all that redis-py sends.

    Raises InvalidPriority unless it is a whole number from -900 to 900.
    """
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > _HIGHEST:
        raise InvalidPriority(
            f"bad priority {priority!r:.80}. Use a whole number from {-_HIGHEST} to {_HIGHEST}."
        )
    return int(priority)


def decode_order(score: bytes | float) -> tuple[int, int]:
    """Return (priority, µs since which the item is pending) of a score in ready or dirty."""
    mantissa, exponent = math.frexp(float(score))
    return 53 - exponent, int(mantissa * 2**53) - _ONE


def decode_due(score: bytes | float) -> tuple[int, int]:
    """Return (priority, due time in µs) of a score in delayed."""
    milliseconds, rest = divmod(int(float(score)), 2048)
    return 1023 - rest, milliseconds * 1000


def orders_of(priority: int) -> tuple[str, str]:
    """Return the lowest score of a priority in ready or dirty and the first beyond, as Redis takes them."""
    return repr(math.ldexp(_ONE, -priority)), repr(math.ldexp(2 * _ONE, -priority))


def due_by(now: float) -> int:
    """Return the first score in delayed that is not due, ``now`` in seconds since the epoch."""
    return (int(now * 1000) + 1) * 2048
