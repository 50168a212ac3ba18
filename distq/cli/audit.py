"""What people did to queues: commands note what they change, and one shows all of it."""

import getpass
import os
import socket
from typing import TYPE_CHECKING

import click

from distq.cli.options import command, with_settings
from distq.cli.output import print_found
from distq.cli.queue_access import inspector_of
from distq.config import Settings
from distq.redisio.limits import AUDIT_ENTRIES
from distq.wording import rfc3339

if TYPE_CHECKING:
    from distq.inspector import AuditEntry, Inspector
    from distq.inspector.operator import Operator


def operator_of(inspector: "Inspector") -> "Operator":
    """Return what changes queues for this machine's user."""
    from distq.inspector.operator import Actor, Operator

    actor = Actor(_user(), socket.gethostname(), "command line")
    return Operator(inspector, lambda: actor)


def _user() -> str:
    """Return the name of the user; where the system has none for it, as in a container, its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@command("distq audit --limit 20")
@click.option(
    "--limit",
    type=click.IntRange(1, AUDIT_ENTRIES),
    default=100,
    show_default=True,
    help="Actions to show, the newest first.",
)
@with_settings()
def audit(*, settings: Settings, as_json: bool, limit: int) -> None:
    """Show who did what and when, on dashboards and by commands."""
    print_found(inspector_of(settings).audit(limit=limit), _row, as_json, none="no action yet")


def _row(entry: "AuditEntry") -> dict[str, str]:
    return {
        "WHEN": rfc3339(entry.at),
        "PERSON": entry.person or "anonymous",
        "FROM": entry.address or "-",
        "BY": entry.via,
        "ACTION": entry.text,
        "OUTCOME": "no outcome" if entry.outcome is None else entry.outcome,
    }
