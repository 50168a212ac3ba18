"""Numbers, durations and moments as pages write them."""

from datetime import UTC, datetime

_SHOWN = 80


def number(value: float) -> str:
    """Return a count with a comma between thousands."""
    return f"{value:,}"


def shortened(text: str) -> str:
    """Return a key, or a match, of at most 80 letters."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def utc(moment: float) -> str:
    """Return date and time of a moment, to the second."""
    return f"{_time(moment):%Y-%m-%d %H:%M:%S} UTC"


def clock(moment: float) -> str:
    """Return the time of day of a moment, UTC, to the millisecond."""
    return _time(moment).isoformat(timespec="milliseconds")[11:23]


def _time(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)
