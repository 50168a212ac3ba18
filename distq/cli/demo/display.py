"""Displays of the demo: a live table on a terminal, lines elsewhere, JSON objects for programs."""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

from distq.cli.output import print_json


@dataclass(frozen=True)
class Row:
    """The queue at one moment; ``time`` in seconds since the start, rates per second since the last row."""

    time: float
    leader: str
    ready: int
    delayed: int
    processing: int
    dead: int
    done_per_second: float
    failed_per_second: float

    def cells(self) -> list[str]:
        """Return the row as people read it."""
        counts = (self.ready, self.delayed, self.processing, self.dead)
        rates = (self.done_per_second, self.failed_per_second)
        return [_time(self.time), self.leader, *map(str, counts), *(f"{rate:.0f}" for rate in rates)]


HEADERS = ("time", "leader", "ready", "delayed", "processing", "dead", "done/s", "failed/s")


class _JsonLines:
    """One object a row or event."""

    def row(self, row: Row) -> None:
        print_json(asdict(row))

    def event(self, time: float, text: str) -> None:
        print_json({"time": time, "event": text})


class _TextLines:
    """One line a row or event, under one header."""

    def __init__(self) -> None:
        self._print(HEADERS)

    def row(self, row: Row) -> None:
        self._print(row.cells())

    def event(self, time: float, text: str) -> None:
        click.echo(f"{_time(time):>4}  {text}")

    def _print(self, cells: tuple[str, ...] | list[str]) -> None:
        time, leader, *numbers = cells
        aligned = (number.rjust(len(header)) for number, header in zip(numbers, HEADERS[2:], strict=True))
        click.echo(f"{time:>4}  {leader:<10}  {'  '.join(aligned)}")


class _LiveTable:
    """The newest rows and events in a table that is drawn in place."""

    def __init__(self) -> None:
        self._rows: deque[list[str]] = deque(maxlen=15)
        self.live = Live(self._table(), refresh_per_second=4)

    def row(self, row: Row) -> None:
        self._rows.append(row.cells())
        self.live.update(self._table())

    def event(self, time: float, text: str) -> None:
        """Print what happened above the table, where it stays."""
        self.live.console.print(Text(f"{_time(time):>4}  {text}"))

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("time", justify="right", min_width=4)  # as wide as before what happened
        table.add_column("leader", min_width=10)
        for header in HEADERS[2:]:
            table.add_column(header, justify="right", min_width=5)
        for cells in self._rows:
            table.add_row(*cells)
        return table


Display = _JsonLines | _TextLines | _LiveTable


@contextmanager
def open_display(*, as_json: bool) -> Iterator[Display]:
    """Choose the display that suits where the output goes."""
    if as_json:
        yield _JsonLines()
    elif sys.stdout.isatty():
        table = _LiveTable()
        with table.live:
            yield table
    else:
        yield _TextLines()


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s"
