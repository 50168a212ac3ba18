"""What commands that wait show on stderr meanwhile."""

import sys
import time

import click

POLL_INTERVAL = 0.2
"""Seconds between two looks at what is waited for."""

SAY_EVERY = 10.0
"""Seconds after which the same text is printed again where stderr is no terminal."""


_WIDTH = 20


def bar(done: int, total: int) -> str:
    """Return how much of something is done, as a bar and in numbers."""
    full = _WIDTH * done // total if total else _WIDTH
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {done} of {total}"


class Progress:
    """Prints how far something is: one line that changes, or a line each where nobody watches."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._said: str | None = None
        self._at = 0.0

    def show(self, text: str) -> None:
        """Print it, if it is news or old news."""
        now = time.monotonic()
        if text == self._said and (self._on_terminal or now < self._at + SAY_EVERY):
            return
        self._said, self._at = text, now
        click.echo(f"\r{text}   " if self._on_terminal else text, nl=not self._on_terminal, err=True)

    def end(self) -> None:
        """End the line."""
        if self._on_terminal and self._said is not None:
            click.echo(err=True)
