"""How long ago something was, as tables show it.

Source: apimachinery pkg/util/duration.
"""

import math
from datetime import UTC, datetime

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_UNITS = (
    *((120, "s"), (600, "ms"), (3 * 3600, "m"), (8 * 3600, "hm"), (2 * 86400, "h"), (8 * 86400, "dh")),
    *((2 * 365 * 86400, "d"), (8 * 365 * 86400, "yd"), (math.inf, "y")),
)
"""The units in which durations below so many seconds are shown."""


def age(timestamp: str | None) -> str:
    """Return how long ago a time was."""
    if not timestamp:
        return "<unknown>"
    then = datetime.fromisoformat(timestamp)
    return human_duration((datetime.now(UTC) - then).total_seconds())


def between(start: str | None, end: str | None) -> str:
    """Return the time from a start to an end, or to now; empty before the start."""
    if not start:
        return ""
    if not end:
        return age(start)
    return human_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def human_duration(seconds: float) -> str:
    """Return a duration in one or two units; the smaller one is left out where it is 0."""
    left = int(seconds)
    if left < 0:
        return "0s" if left == -1 else "<invalid>"
    units = next(units for limit, units in _UNITS if left < limit)
    shown = ""
    for unit in units:
        count, left = divmod(left, _SECONDS[unit])
        shown += f"{count}{unit}" if count or not shown else ""
    return shown
