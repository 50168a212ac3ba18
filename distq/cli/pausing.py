"""Commands that stop and start the claims of a queue: pause and resume.

Neither asks first: the other one undoes it, and nothing is lost in between.
"""

import sys
import time
from typing import TYPE_CHECKING

import click

from distq.cli.completion import complete_queue
from distq.cli.help import command
from distq.cli.look import inspector, require_queue
from distq.cli.options import with_settings
from distq.cli.output import note, print_json
from distq.config import Settings

if TYPE_CHECKING:
    from distq.inspector import Inspector

POLL_INTERVAL = 0.2
"""Seconds between two looks at what is still in progress."""

SAY_EVERY = 10.0
"""Seconds after which the same number is printed again where stderr is no terminal."""


@command("distq pause foos --wait")
@click.argument("queue", shell_complete=complete_queue)
@click.option("--wait", is_flag=True, help="Return when nothing is in progress any more.")
@with_settings()
def pause(*, settings: Settings, as_json: bool, queue: str, wait: bool) -> None:
    """Let workers of QUEUE claim nothing more; what they hold is finished, adds are accepted."""
    eye = inspector(settings)
    require_queue(eye, queue)
    eye.pause(queue)
    if wait:
        try:
            _wait_until_idle(eye, queue)
        except KeyboardInterrupt:
            note(f"not waiting any more; {queue} stays paused until: distq resume {queue}")
            raise
    processing = require_queue(eye, queue).processing
    if as_json:
        print_json({"paused": True, "processing": processing})
    else:
        click.echo(f"paused; {processing} in progress" if processing else "paused")


@command("distq resume foos")
@click.argument("queue", shell_complete=complete_queue)
@with_settings()
def resume(*, settings: Settings, as_json: bool, queue: str) -> None:
    """Let workers of QUEUE claim again."""
    eye = inspector(settings)
    require_queue(eye, queue)
    was_paused = eye.resume(queue)
    if as_json:
        print_json({"paused": False})
    else:
        click.echo("resumed" if was_paused else "was not paused")


def _wait_until_idle(eye: "Inspector", queue: str) -> None:
    """Return when nobody holds anything; exit 1 where somebody else resumes the queue meanwhile."""
    progress = _Progress()
    try:
        while True:
            info = require_queue(eye, queue)
            if not info.paused:
                raise click.ClickException(f"{queue} was resumed meanwhile: {info.processing} in progress.")
            progress.show(info.processing)
            if not info.processing:
                return
            time.sleep(POLL_INTERVAL)
    finally:
        progress.end()


class _Progress:
    """Prints a falling number on stderr: one line that changes, or a line each where nobody watches."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._said: int | None = None
        self._at = 0.0

    def show(self, number: int) -> None:
        now = time.monotonic()
        if number == self._said and (self._on_terminal or now < self._at + SAY_EVERY):
            return
        self._said, self._at = number, now
        text = f"paused; {number} in progress"
        click.echo(f"\r{text}   " if self._on_terminal else text, nl=not self._on_terminal, err=True)

    def end(self) -> None:
        if self._on_terminal:
            click.echo(err=True)
