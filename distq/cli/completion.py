"""Completion by TAB: commands, options, and names of queues and keys from Redis."""

import contextlib
import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from distq.cli.options import REDIS, command

if TYPE_CHECKING:
    from distq.redisio.connection import Connection

VARIABLE = "_DISTQ_COMPLETE"
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}

_TIMEOUT = 0.5
"""Seconds that a TAB may wait for Redis."""

_MOST_KEYS = 100

_INERT = re.compile(r"[\w@%+=:,./][\w@%+=:,./-]*", re.ASCII)
"""Keys without a meaning for shells: a shell would run what is in ``$(reboot)`` with the line."""


@command("source <(distq completion bash)")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(*, shell: str) -> None:
    """Print a script by which SHELL completes commands, options, queues and keys."""
    click.echo(script(shell))


def script(shell: str) -> str:
    """Return the functions that the shell reads."""
    # of any command: the shell asks the program itself
    instance = _SHELLS[shell](click.Command("distq"), {}, "distq", VARIABLE)
    # its source() would start bash to see its version
    return instance.source_template % instance.source_vars()


def complete_queue(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the queues whose names begin so; none where Redis does not answer soon."""
    with contextlib.suppress(Exception):  # an error would be printed into the line that is typed
        from distq.redisio.queue_store import queue_names

        return [CompletionItem(name) for name in queue_names(_connection(ctx)) if name.startswith(incomplete)]
    return []


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return some keys of the chosen queue that begin so, without those that a shell would interpret."""
    with contextlib.suppress(Exception):  # as above
        from distq.inspector import Inspector
        from distq.inspector.view import beginning_with, glob_of

        match = glob_of(beginning_with(incomplete))
        found = Inspector(_connection(ctx)).items(ctx.params["queue"], match=match, limit=_MOST_KEYS)
        return [CompletionItem(item.key) for item in found if _INERT.fullmatch(item.key)]
    return []


def _connection(ctx: click.Context) -> "Connection":
    """Return a Connection with short timeouts to the Redis of the options so far and the environment."""
    from distq.config import Settings
    from distq.redisio.connection import Connection

    given = {name: value for name, value in ctx.params.items() if name in REDIS and value}
    return Connection(settings=Settings.from_env(**given)).with_timeout(_TIMEOUT)
