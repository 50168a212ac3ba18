"""Commands that stop and start the claims of a queue: pause and resume.

Neither asks first: the other one undoes it, and nothing is lost in between.
"""

import time
from typing import TYPE_CHECKING

import click

from distq.cli.audited import DID, audited
from distq.cli.completion import complete_queue
from distq.cli.help import command
from distq.cli.options import with_settings
from distq.cli.output import note, print_json
from distq.cli.progress import POLL_INTERVAL, Progress
from distq.cli.queue_access import inspector_of, require_queue
from distq.config import Settings

if TYPE_CHECKING:
    from distq.inspector import Inspector


@command("distq pause foos --wait")
@click.argument("queue", shell_complete=complete_queue)
@click.option("--wait", is_flag=True, help="Return when no item is in progress.")
@with_settings()
def pause(*, settings: Settings, as_json: bool, queue: str, wait: bool) -> None:
    """Stop claims of QUEUE; workers finish the items that they hold, and adds are accepted."""
    inspector = inspector_of(settings)
    require_queue(inspector, queue)
    with audited(inspector.connection, "pause", queue, f"pause {queue}") as did:
        did(DID[inspector.pause(queue)])
    if wait:
        try:
            _wait_until_idle(inspector, queue)
        except KeyboardInterrupt:
            note(f"not waiting any more; {queue} stays paused until: distq resume {queue}")
            raise
    processing = require_queue(inspector, queue).processing
    if as_json:
        print_json({"paused": True, "processing": processing})
    else:
        click.echo(f"paused; {processing} in progress" if processing else "paused")


@command("distq resume foos")
@click.argument("queue", shell_complete=complete_queue)
@with_settings()
def resume(*, settings: Settings, as_json: bool, queue: str) -> None:
    """Let workers of QUEUE claim again."""
    inspector = inspector_of(settings)
    require_queue(inspector, queue)
    with audited(inspector.connection, "resume", queue, f"resume {queue}") as did:
        was_paused = inspector.resume(queue)
        did(DID[was_paused])
    if as_json:
        print_json({"paused": False})
    else:
        click.echo("resumed" if was_paused else "was not paused")


def _wait_until_idle(inspector: "Inspector", queue: str) -> None:
    """Return when no item is held; exit 1 where the queue is resumed meanwhile."""
    progress = Progress()
    try:
        while True:
            info = require_queue(inspector, queue)
            if not info.paused:
                raise click.ClickException(f"{queue} was resumed meanwhile: {info.processing} in progress.")
            progress.show(f"paused; {info.processing} in progress")
            if not info.processing:
                return
            time.sleep(POLL_INTERVAL)
    finally:
        progress.end()
