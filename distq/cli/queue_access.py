"""The queue that a command's arguments name, and the Inspector that reads it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.completion import complete_queue
from distq.config import Settings

if TYPE_CHECKING:
    from distq.inspector import Inspector, QueueInfo

NO_QUEUE = 'nothing was ever added to it. See "distq queues".'
with_queue = click.argument("queue", shell_complete=complete_queue)
with_optional_queue = click.argument("queue", shell_complete=complete_queue, required=False)
STATES = click.Choice(["ready", "delayed", "processing", "dead", "dirty"])


def inspector_of(settings: Settings, queue: str | None = None) -> "Inspector":
    """Return an Inspector on the Redis of these settings; exit 1 without the queue, or where it is broken."""
    from distq.inspector import Inspector
    from distq.redisio.connection import Connection

    inspector = Inspector(Connection(settings=settings))
    if queue:
        require_queue(inspector, queue)
    return inspector


def existing_queue(inspector: "Inspector", queue: str, otherwise: str = NO_QUEUE) -> "QueueInfo":
    """Return the queue's numbers, also of a broken one; exit 1 with ``otherwise`` where there is none."""
    found = inspector.queues(queue)
    if not found:
        raise click.ClickException(f'no queue "{queue}": {otherwise}')
    return found[0]


def require_queue(inspector: "Inspector", queue: str, otherwise: str = NO_QUEUE) -> "QueueInfo":
    """Return the queue's numbers; exit 1 where there is no such queue, or it is broken."""
    found = existing_queue(inspector, queue, otherwise)
    if found.broken is not None:
        raise click.ClickException(f"cannot read {queue}: {found.broken}")
    return found


def exit_if_broken(found: "Sequence[QueueInfo]") -> None:
    """Exit 1 where a queue could not be read; call it after the others were shown."""
    broken = [info.name for info in found if info.broken is not None]
    if broken:
        raise click.ClickException(f'cannot read {", ".join(broken)}. See "distq check".')
