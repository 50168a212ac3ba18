"""What commands print on stderr while they wait, and ask there before a change."""

import sys
import time

import click

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
    """Prints progress: one line that changes on a terminal, else a line each."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._shown: str | None = None
        self._at = 0.0

    def show(self, text: str) -> None:
        """Print the text if it is new, or without a terminal after REPEAT_EVERY."""
        now = time.monotonic()
        if text == self._shown and (self._on_terminal or now < self._at + REPEAT_EVERY):
            return
        self._shown, self._at = text, now
        click.echo(f"\r{text}   " if self._on_terminal else text, nl=not self._on_terminal, err=True)

    def end(self) -> None:
        """End the line."""
        if self._on_terminal and self._shown is not None:
            click.echo(err=True)


def confirm(question: str, yes: bool) -> None:
    """Ask, unless ``yes``; exit 1 for a no. Raises ConfigError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"not asked: {question.removesuffix('?')}: no terminal to answer on. Add --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing changed.")
