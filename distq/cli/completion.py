"""Completion by TAB: commands, options, and names of queues and keys from Redis."""

import contextlib
import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from distq.cli.options import REDIS, command

if TYPE_CHECKING:
    from distq.redisio.connection import Connection

VARIABLE = "_DISTQ_COMPLETE"
SHELLS = click.Choice(["bash", "zsh", "fish"])

_TIMEOUT = 0.5
"""Seconds that a TAB may wait for Redis."""

_MOST_KEYS = 100

_INERT = re.compile(r"[\w@%+=:,./][\w@%+=:,./-]*", re.ASCII)
"""Keys without a meaning for shells: a shell would run what is in ``$(reboot)`` with the line."""


@command("source <(distq completion bash)")
@click.argument("shell", type=SHELLS)
def completion(*, shell: str) -> None:
    """Print a script by which SHELL completes commands, options, queues and keys."""
    click.echo(script(shell))


def script(shell: str) -> str:
    """Return the functions that the shell reads."""
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"no completion for {shell}. Use bash, zsh or fish.")
    instance = found(click.Command("distq"), {}, "distq", VARIABLE)  # the shell asks the program itself
    return instance.source_template % instance.source_vars()


def complete_queue(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the queues whose names begin so; none where Redis does not answer soon."""
    with contextlib.suppress(Exception):  # an error would be printed into the line that is typed
        from distq.redisio.queue_store import queue_names

        return [CompletionItem(name) for name in queue_names(_connection(ctx)) if name.startswith(incomplete)]
    return []


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return some keys of the chosen queue that begin so, without those that a shell would interpret."""
    with contextlib.suppress(Exception):
        from distq.inspector import Inspector

        escaped = "".join(f"\\{c}" if c in "*?[]\\" else c for c in incomplete)
        found = Inspector(_connection(ctx)).items(ctx.params["queue"], match=f"{escaped}*", limit=_MOST_KEYS)
        return [CompletionItem(item.key) for item in found if _INERT.fullmatch(item.key)]
    return []


def _connection(ctx: click.Context) -> "Connection":
    """Return a Connection with short timeouts to the Redis of the options so far and the environment."""
    from distq.config import Settings
    from distq.redisio.connection import Connection

    given = {name: value for name, value in ctx.params.items() if name in REDIS and value}
    return Connection(settings=Settings.from_env(**given)).with_timeout(_TIMEOUT)
