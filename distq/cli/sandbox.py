"""The command that starts an embedded Valkey and API server, for a terminal or around one command."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from distq.cli.extras import require_extra
from distq.cli.output import note, print_json
from distq.cli.signals import leave_on_sigterm


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--manifest", "manifests", multiple=True, type=click.Path(exists=True), help="YAML to apply first."
)
@click.option("--json", "as_json", is_flag=True, help="Print the variables as one JSON object.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[CMD...]")
def sandbox(*, manifests: Sequence[str], as_json: bool, command: Sequence[str]) -> None:
    """Start Valkey and an emulated API server; run CMD with them, or print exports and wait."""
    leave_on_sigterm(0)
    with require_extra("demo"):
        from distq.testing.sandbox import Sandbox
    with Sandbox(manifests=[Path(manifest) for manifest in manifests]) as started:
        if command:
            click.get_current_context().exit(_run(command, started.environment))
        if as_json:
            print_json(started.environment)
        else:
            for name, value in started.environment.items():
                click.echo(f"export {name}={value}")
        sys.stdout.flush()
        note("# Valkey and an emulated API server; Ctrl-C stops both and forgets everything.")
        threading.Event().wait()


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run the command; signals for us are for it, and its status is ours."""
    try:
        child = subprocess.Popen(command, env=os.environ | environment)
    except OSError as error:
        raise click.ClickException(
            f"cannot run {command[0]}: {(error.strerror or str(error)).lower()}."
        ) from None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    status = child.wait()
    return status if status >= 0 else 128 - status
