"""What commands print: tables and ages for people, one JSON object a line for programs.

Results go to stdout, notes to stderr. Keys and errors come from anywhere, so control characters
in them are escaped before a terminal sees them.
"""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, get_args, get_type_hints

import click

_NUMBERS = {"READY", "DELAYED", "PROCESSING", "DIRTY", "DEAD", "FAILING", "OLDEST", "DONE/S", "WORKERS"}
_NUMBERS |= {"PRIORITY", "FAILURES", "PID", "UP", "HEARTBEAT", "DONE", "FAILED", "LAG"}
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def escape(text: str) -> str:
    """Return the text with everything that a terminal would act upon written as an escape."""
    if text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _UNPRINTABLE else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", errors="backslashreplace").decode()


def age(seconds: float) -> str:
    """Return a duration as people read it: 0.4s, 38s, 4m12s, 3h12m, 5d7h."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for unit, size, part, part_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part_size}{part}"
    return f"{whole}s"


def rfc3339(seconds: float) -> str:
    """Return a moment, in seconds since the epoch, as RFC 3339 in UTC with milliseconds."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns, those of numbers to the right."""
    lines = [[escape(cell) for cell in row] for row in rows]
    columns = list(zip(headers, *lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [header in _NUMBERS for header in headers]
    for line in [headers, *lines]:
        cells = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def print_json(value: Any) -> None:
    """Print one object on one line: a mapping, or an Inspector's record with its moments as RFC 3339."""
    click.echo(json.dumps(_record(value), separators=(",", ":")))


def _record(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    moments = _moments(value.__class__)
    return {
        field.name: rfc3339(content) if field.name in moments and content is not None else content
        for field in fields(value)
        for content in [getattr(value, field.name)]
    }


@cache
def _moments(record: type) -> frozenset[str]:
    from distq.inspector import Timestamp

    hints = get_type_hints(record)
    return frozenset(name for name, hint in hints.items() if Timestamp in {hint, *get_args(hint)})


def note(text: str) -> None:
    """Print something for people beside the result."""
    click.echo(text, err=True)
