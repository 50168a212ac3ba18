"""How durations and counts are written in messages, for people."""


def duration(seconds: float) -> str:
    """Return a duration as people read it: 5 µs, 12 ms, 3.2 s, 40 s, 4m12s, 3h12m, 5d7h."""
    seconds = max(0.0, seconds)
    for unit, size in ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0):
        number = seconds / size
        if number < 9.95:
            return f"{number:.1f}".removesuffix(".0") + f" {unit}"
        if number < (59.5 if unit == "s" else 999.5):
            return f"{number:.0f} {unit}"
    whole = round(seconds)
    for unit, size, part, part_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part_size}{part}"
    return f"{whole // 60}m{whole % 60}s"


def counted(number: int, thing: str) -> str:
    """Return how many of a thing there are: no objects is 0 objects, then 1 object, 2 objects."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def a_type(value: object) -> str:
    """Return the type of a value with its article: a str, an int."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
