"""The command that makes a queue fair between namespaces, or ends that."""

import click

from distq.cli.audited import DID, audited
from distq.cli.completion import complete_queue
from distq.cli.help import command
from distq.cli.options import with_settings
from distq.cli.output import print_json
from distq.cli.queue_access import inspector_of, require_queue
from distq.config import Settings


@command("distq fair foos namespace")
@click.argument("queue", shell_complete=complete_queue)
@click.argument("by", type=click.Choice(["namespace", "none"]))
@with_settings()
def fair(*, settings: Settings, as_json: bool, queue: str, by: str) -> None:
    """Let the namespaces of QUEUE take turns, or none: then items come in the order of the adds."""
    inspector = inspector_of(settings)
    require_queue(inspector, queue)
    fair_by = None if by == "none" else by
    with audited(inspector.connection, "fair", queue, f"share {queue} fairly by {by}") as did:
        before = inspector.fair_by(queue, fair_by)
        did(DID[before != fair_by])
    if as_json:
        print_json({"fair_by": fair_by, "before": before})
    elif before == fair_by:
        click.echo("nothing changed")
    else:
        click.echo(
            "the namespaces take turns, also with the items that wait"
            if fair_by
            else "waiting items keep their places, new ones come behind them; "
            'a program that says fair_by="namespace" runs on, but does not start again'
        )
