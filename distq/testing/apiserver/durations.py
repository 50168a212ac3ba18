"""How long ago something was, as tables show it.

Source: apimachinery pkg/util/duration.
"""

from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


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
    """Return a duration in two or three figures."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    return _two(whole, _YEAR, "y", _DAY, "d") if whole < 8 * _YEAR else f"{whole // _YEAR}y"


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    count, rest = divmod(seconds, large)
    smaller = f"{rest // small}{small_name}" if rest // small else ""
    return f"{count}{large_name}{smaller}"
