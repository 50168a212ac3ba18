"""How numbers, durations and moments are written on pages."""

from datetime import UTC, datetime

from flask import Flask

from distq.dashboard.item_id import encoded


def age(seconds: float) -> str:
    """Return a duration in a table: 0.4s, 38s, 4m12s, 3h12m, 5d7h."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for unit, size, part, part_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part_size}{part}"
    return f"{whole}s"


def number(value: float) -> str:
    """Return a count with a comma between thousands."""
    return f"{value:,}"


def utc(moment: float) -> str:
    """Return a moment to read, to the second."""
    return f"{_time(moment):%Y-%m-%d %H:%M:%S} UTC"


def clock(moment: float) -> str:
    """Return the time of day of a moment, UTC, to the millisecond."""
    return _time(moment).isoformat(timespec="milliseconds")[11:23]


def rfc3339(moment: float) -> str:
    """Return a moment for programs."""
    return _time(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def teach(app: Flask) -> None:
    """Let templates write so."""
    app.jinja_env.filters |= {
        "age": age,
        "number": number,
        "utc": utc,
        "clock": clock,
        "rfc3339": rfc3339,
        "encoded_key": encoded,
    }


def _time(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)
