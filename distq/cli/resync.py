"""The command that makes the leader list and enqueue everything: resync."""

import time
from typing import TYPE_CHECKING

import click

from distq.cli.audited import audited
from distq.cli.completion import complete_queue
from distq.cli.help import command
from distq.cli.options import with_settings
from distq.cli.output import note, print_json
from distq.cli.progress import POLL_INTERVAL, Progress
from distq.cli.questions import confirm
from distq.cli.queue_access import inspector_of, leaderless_since, require_queue
from distq.config import Settings
from distq.wording import age, counted, rfc3339

if TYPE_CHECKING:
    from distq.inspector import Inspector


@command("distq resync foos --wait")
@click.argument("queue", shell_complete=complete_queue)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Return when everything is listed and enqueued.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@with_settings()
def resync(*, settings: Settings, as_json: bool, queue: str, yes: bool, wait: bool, timeout: float) -> None:
    """Make the leader list all resources that feed QUEUE and enqueue them, at low priority."""
    inspector = inspector_of(settings)
    require_queue(inspector, queue)
    resources = [stream.resource for stream in inspector.streams(queue)]
    if not resources:
        raise click.ClickException(f"nothing to list: no informer feeds {queue}.")
    confirm(f"List {', '.join(resources)} and enqueue every object in {queue}?", yes)
    with audited(inspector.connection, "resync", queue, f"resync {queue}") as did:
        resynced = inspector.resync(queue)
        did(counted(resynced, "resource"))
    gone_since = leaderless_since(inspector.streams(queue))
    if gone_since is not None and not as_json:
        since = age(inspector.now() - gone_since)
        note(f"no leader for {since}: the resync begins when an informer of {queue} leads")
    listing = _wait_until_listed(inspector, queue, resynced, timeout) if wait else []
    if as_json:
        outcome = {"listed": resynced - len(listing)} if wait else {}
        gone = None if gone_since is None else rfc3339(gone_since)
        print_json({"resynced": resynced, "gone_since": gone, **outcome})
    else:
        click.echo(f"resynced {resynced}")
    if listing:
        raise click.ClickException(f"not listed within {timeout:g} s: {', '.join(listing)}. It goes on.")


def _wait_until_listed(inspector: "Inspector", queue: str, resynced: int, timeout: float) -> list[str]:
    """Return when all is listed, or the resources that are not when time is up."""
    progress, until = Progress(), time.monotonic() + timeout
    try:
        while True:
            streams = inspector.streams(queue)
            listing = [stream.resource for stream in streams if stream.version is None]
            led = "" if leaderless_since(streams) is None else "; no leader"
            progress.show(f"{resynced - len(listing)} of {resynced} listed{led}")
            if not listing or time.monotonic() >= until:
                return listing
            time.sleep(POLL_INTERVAL)
    except KeyboardInterrupt:
        note("not waiting any more; the resync goes on")
        raise
    finally:
        progress.end()
