"""Output of commands: tables for people, one JSON object a line for programs.

Results go to stdout; notes, progress and questions to stderr. Keys and errors come from anywhere, so control
characters in them are escaped before a terminal sees them.
"""

import errno
import json
import os
import shutil
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import cache
from itertools import islice
from typing import Any, Self, TypeVar, get_args, get_type_hints

import click

from distq.errors import ConfigError
from distq.wording import age, rfc3339

Record = TypeVar("Record")

NOTE_TIME = 0.3
"""Seconds that stderr gets to take a note."""

POLL_INTERVAL = 0.2
"""Seconds between two looks at what is waited for."""

REPEAT_EVERY = 10.0
"""Seconds after which the same text is printed again where stderr is no terminal."""

_BAR = 20

_NUMBERS = {"READY", "DELAYED", "PROCESSING", "DIRTY", "DEAD", "FAILING", "OLDEST", "DONE/S", "WORKERS"}
_NUMBERS |= {"PRIORITY", "FAILURES", "PID", "UP", "HEARTBEAT", "DONE", "FAILED", "LAG"}
_COLOURS = {"dead": "red", "processing": "green", "delayed": "yellow"}
_ALIGNED = 500
"""Rows that are aligned with each other."""

_LOST = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors after which stdout takes nothing."""

_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def escape(text: str) -> str:
    """Return the text with everything that a terminal would act on written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape", errors="backslashreplace").decode()
        if unicodedata.category(c) in _UNPRINTABLE
        else c
        for c in text
    )


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns, those of numbers to the right; on a terminal errors are cut to its width.

    Rows are taken some at a time: the columns of a long table grow wider where later rows need it.
    """
    rest, widths, is_first = iter(rows), [0] * len(headers), True
    while (page := list(islice(rest, _ALIGNED))) or is_first:
        lines = [[escape(cell) for cell in row] for row in page]
        if headers[-1] == "LAST ERROR":
            _cut(headers, lines)
        columns = zip(headers, *lines, strict=True)
        widths = [max(width, *map(len, column)) for width, column in zip(widths, columns, strict=True)]
        if is_first:
            click.echo(styled(_line(headers, headers, widths), bold=True))
        for line in lines:
            click.echo(styled(_line(headers, line, widths), fg=_colour(headers, line)))
        is_first = False


def print_found(
    found: Sequence[Record], row: Callable[[Record], Mapping[str, str]], as_json: bool, *, none: str
) -> None:
    """Print records for a program; or for people a table of their rows, by headers, or a note of none."""
    if as_json:
        for record in found:
            print_json(record)
    elif found:
        rows = [row(record) for record in found]
        print_table(list(rows[0]), [list(each.values()) for each in rows])
    else:
        note(none)


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the headers and rows as lines whose columns are aligned."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    return [_line(headers, cells, widths) for cells in (headers, *rows)]


def _line(headers: Sequence[str], cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        cell.rjust(width) if header in _NUMBERS else cell.ljust(width)
        for header, cell, width in zip(headers, cells, widths, strict=True)
    ).rstrip()


def _cut(headers: Sequence[str], lines: list[list[str]]) -> None:
    """Shorten the last cells so that a line fits the terminal; in a file or a pipe nothing is cut."""
    if not sys.stdout.isatty():
        return
    others = sum(max(map(len, column)) + 2 for column in list(zip(headers, *lines, strict=True))[:-1])
    room = max(shutil.get_terminal_size().columns - others, len(headers[-1]))
    for line in lines:
        if len(line[-1]) > room:
            line[-1] = line[-1][: room - 1] + "…"


def _colour(headers: Sequence[str], line: Sequence[str]) -> str | None:
    state = dict(zip(headers, line, strict=True)).get("STATE", "")
    return _COLOURS.get(state.rstrip("*"))


def since(moment: float | None, now: float) -> str:
    """Return how long ago a moment was, for a table."""
    return "-" if moment is None else age(now - moment)


def until(moment: float | None, now: float) -> str:
    """Return how far away a moment is, for a table."""
    if moment is None:
        return "-"
    return f"in {age(moment - now)}" if moment > now else "now"


def styled(text: str, *, fg: str | None = None, bold: bool = False) -> str:
    """Return the text in colour for a terminal that has it, and unless NO_COLOR is set (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain or not (fg or bold) else click.style(text, fg=fg, bold=bold or None)


def print_json(value: Any) -> None:
    """Print one object on one line: a mapping, or an Inspector's record with its moments as RFC 3339."""
    click.echo(json.dumps(_record(value), separators=(",", ":")))


def print_result(record: Any, text: str, as_json: bool) -> None:
    """Print for a program what ``print_json`` takes, or for people the text."""
    if as_json:
        print_json(record)
    else:
        click.echo(text)


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
    """Print a line for people beside the result, without waiting for a full pipe that has no reader."""
    printing = threading.Thread(target=_print_note, args=[text], daemon=True)
    printing.start()
    printing.join(NOTE_TIME)


def _print_note(text: str) -> None:
    with suppress(OSError):  # its reader went away, or a disk is full
        click.echo(text, err=True)


def bar(done: int, total: int) -> str:
    """Return how much of something is done, as a bar and in numbers; more may come after it was counted."""
    total = max(done, total)
    full = _BAR * done // total if total else _BAR
    return f"[{'#' * full}{'.' * (_BAR - full)}] {done} of {total}"


class Progress:
    """Prints progress within a block: one line that changes on a terminal, else a line each.

    Where Ctrl-C ends the block, ``on_interrupt`` is printed: it names the work that continues.
    """

    def __init__(self, on_interrupt: str = "") -> None:
        self._on_interrupt = on_interrupt
        self._on_terminal = sys.stderr.isatty()
        self._shown: str | None = None
        self._at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._on_terminal and self._shown is not None:
            click.echo(err=True)
        if kind is KeyboardInterrupt and self._on_interrupt:
            note(self._on_interrupt)

    def show(self, text: str) -> None:
        """Print the text if it is new, or without a terminal after REPEAT_EVERY."""
        now = time.monotonic()
        if text == self._shown and (self._on_terminal or now < self._at + REPEAT_EVERY):
            return
        self._shown, self._at = text, now
        # the spaces cover the end of a longer text before
        click.echo(f"\r{text}   " if self._on_terminal else text, nl=not self._on_terminal, err=True)


def confirm(question: str, yes: bool) -> None:
    """Ask, unless ``yes``; exit 1 for a no. Raises ConfigError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"not asked: {question.removesuffix('?')}: no terminal to answer on. Add --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing changed.")


def lead_nowhere(*descriptors: int) -> None:
    """Discard what these files have still to print, and all that follows; there is nothing to read."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


class OutputLost(click.ClickException):
    """A result that stdout did not take."""

    exit_code = 2


@contextmanager
def printing() -> Iterator[None]:
    """Print results: a reader who leaves, as ``head`` does, ends it quietly, a full disk by OutputLost."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _LOST:
            raise
        lead_nowhere(sys.stdout.fileno())  # else Python tries again when it ends, and fails with status 120
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(0) from None
        why = str(error.strerror).lower()
        raise OutputLost(f"cannot print: {why}. Make room, or let stdout lead elsewhere.") from None
