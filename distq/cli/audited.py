"""Notes what a command changes in the audit, beside what people do on dashboards."""

import getpass
import os
import socket
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distq.inspector.audit import Actor, Outcome
    from distq.redisio.connection import Connection

DID = {True: "done", False: "it was so already"}


def audited(
    connection: "Connection", action: str, queue: str, text: str
) -> AbstractContextManager["Outcome"]:
    """Note an action, in words, by this machine's user; within, call what this gives with the outcome."""
    from distq.inspector.audit import Audit

    return Audit(connection, _actor).action(action, queue, text)


def _actor() -> "Actor":
    from distq.inspector.audit import Actor

    return Actor(_user(), socket.gethostname(), "command line")


def _user() -> str:
    """Return the name of the user; where the system has none for it, as in a container, its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
