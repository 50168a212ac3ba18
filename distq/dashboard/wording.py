"""Numbers, durations and moments as pages write them."""

from distq.wording import rfc3339

_SHOWN = 80


def number(value: float) -> str:
    """Return a count with a comma between thousands."""
    return f"{value:,}"


def shortened(text: str) -> str:
    """Return a key, or a match, of at most 80 letters."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def utc(moment: float) -> str:
    """Return date and time of a moment, to the second."""
    return f"{rfc3339(moment)[:19].replace('T', ' ')} UTC"


def clock(moment: float) -> str:
    """Return the time of day of a moment, UTC, to the millisecond."""
    return rfc3339(moment)[11:23]
