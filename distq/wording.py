"""The form of durations, moments and counts, for people."""

from datetime import UTC, datetime


def duration(seconds: float) -> str:
    """Return a duration as people read it: 5 µs, 12 ms, 3.2 s, 40 s, 4m12s, 3h12m, 5d7h."""
    seconds = max(0.0, seconds)
    for unit, size in ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0):
        number = seconds / size
        if number < 9.95:  # from here on it would be rounded to 10.0
            return f"{number:.1f}".removesuffix(".0") + f" {unit}"
        if number < (59.5 if unit == "s" else 999.5):  # likewise to 60, or 1000
            return f"{number:.0f} {unit}"
    return _in_two_units(round(seconds))


def age(seconds: float) -> str:
    """Return a duration in a table: 0.4s, 38s, 4m12s, 3h12m, 5d7h."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    return f"{whole}s" if whole < 60 else _in_two_units(whole)


def brief(seconds: float) -> str:
    """Return a duration as ``age`` does, below a second in milliseconds: 0.4ms, 250ms."""
    if seconds >= 1:
        return age(seconds)
    return f"{seconds * 1000:.{int(seconds < 0.01)}f}".removesuffix(".0") + "ms"


def _in_two_units(seconds: int) -> str:
    for unit, size, part, part_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part_size}{part}"
    return f"{seconds // 60}m{seconds % 60}s"


def rfc3339(moment: float) -> str:
    """Return a moment, in seconds since the epoch, as RFC 3339 in UTC with milliseconds."""
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def counted(number: int, thing: str) -> str:
    """Return how many of a thing there are: no objects is 0 objects, then 1 object, 2 objects."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def a_type(value: object) -> str:
    """Return the type of a value with its article: a str, an int."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
