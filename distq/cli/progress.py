"""What commands print on stderr while they wait, and ask there before a change."""

import sys
import time
from typing import Self

import click

from distq.cli.output import note
from distq.errors import ConfigError

POLL_INTERVAL = 0.2
"""Seconds between two looks at what is waited for."""

REPEAT_EVERY = 10.0
"""Seconds after which the same text is printed again where stderr is no terminal."""


_WIDTH = 20


def bar(done: int, total: int) -> str:
    """Return how much of something is done, as a bar and in numbers."""
    full = _WIDTH * done // total if total else _WIDTH
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {done} of {total}"


class Progress:
    """Prints progress within a block: one line that changes on a terminal, else a line each.

    Where Ctrl-C ends the block, ``on_interrupt`` is printed: what goes on all the same.
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
        click.echo(f"\r{text}   " if self._on_terminal else text, nl=not self._on_terminal, err=True)


def confirm(question: str, yes: bool) -> None:
    """Ask, unless ``yes``; exit 1 for a no. Raises ConfigError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"not asked: {question.removesuffix('?')}: no terminal to answer on. Add --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing changed.")
