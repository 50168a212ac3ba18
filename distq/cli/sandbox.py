"""The command that starts an embedded Valkey and API server, for a terminal or around one command."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distq.cli import options as commands
from distq.cli.completion import script
from distq.cli.output import note, print_json
from distq.cli.signals import leave_on_signals, pass_on, status_of
from distq.extras import require_extra
from distq.signals import next_signal, received_signals
from distq.wording import counted

if TYPE_CHECKING:
    from distq.testing.sandbox import Sandbox

MARK = "(distq sandbox) "

_LOGIN = {"-l", "--login", "-il", "-li"}
_OWN_FILES = "if [ -r ~/.bashrc ]; then . ~/.bashrc; fi"
_OWN_LOGIN_FILES = """if [ -r /etc/profile ]; then . /etc/profile; fi
for own in ~/.bash_profile ~/.bash_login ~/.profile; do
    if [ -r "$own" ]; then . "$own"; break; fi
done
unset own"""


@commands.command(
    "distq sandbox --manifest foos.yaml bash",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--manifest", "manifests", multiple=True, type=click.Path(exists=True), help="YAML to apply first."
)
@click.option("--json", "as_json", is_flag=True, help="Print the variables as one JSON object.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[CMD...]")
def sandbox(*, manifests: Sequence[str], as_json: bool, command: Sequence[str]) -> None:
    """Start Valkey and an emulated API server; run CMD with them, or print exports and wait.

    Both end with CMD, or with Ctrl-C, and so does what was started inside.
    """
    leave_on_signals(0)
    with require_extra("demo"):
        from distq.testing.sandbox import Sandbox
    with Sandbox(manifests=[Path(manifest) for manifest in manifests]) as started:
        try:
            if command:
                click.get_current_context().exit(_run(command, started))
            with received_signals() as signals:
                _print_variables(started, as_json)
                number = next_signal(signals)
            signal.raise_signal(number)  # now to the handler of leave_on_signals, or to Python's of Ctrl-C
        except KeyboardInterrupt:
            note(f"stopping: {_what_runs(started)}; nothing is left of them")
            raise
        finally:
            # what the command left behind ends before the servers that it uses
            if ended := started.guard.end_all(but={started.valkey.pid}):
                note(f"# ended {counted(ended, 'program')} that still ran inside")


def _print_variables(started: "Sandbox", as_json: bool) -> None:
    if as_json:
        print_json(started.environment)
    else:
        for name, value in started.environment.items():
            click.echo(f"export {name}={value}")
    note("# Valkey and an emulated API server; Ctrl-C stops both and forgets everything.")


def _run(command: Sequence[str], started: "Sandbox") -> int:
    """Run the command; signals for us are for it, and its status is ours."""
    settings = started.environment | started.guard.environment
    if _is_interactive(command):
        note(f"# distq sandbox: {_what_runs(started)}.")
        note(
            "# distq, kubectl and your programs find both. Leave with exit; all that runs in here ends then."
        )
        command = _interactive(command, settings, started.guard.folder)
    environment = _with_programs(os.environ | settings)
    children, early = list[subprocess.Popen[bytes]](), list[int]()

    def receive(number: int, _frame: object) -> None:
        if children:
            pass_on(number, children[0])
        else:
            early.append(number)  # the command starts at this moment

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, receive)
    try:
        children.append(subprocess.Popen(command, env=environment))
    except OSError as error:
        raise click.ClickException(
            f"cannot run {command[0]}: {(error.strerror or str(error)).lower()}."
        ) from None
    for received in early:
        pass_on(received, children[0])
    return status_of(children[0])


def _what_runs(started: "Sandbox") -> str:
    return f"Valkey at 127.0.0.1:{started.valkey.port}, an emulated API server at {started.api_server.url}"


def _is_interactive(command: Sequence[str]) -> bool:
    name, *options = command
    return Path(name).name == "bash" and {*options} <= {"-i", *_LOGIN} and os.isatty(0)


def _with_programs(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in whose PATH ``distq`` is found, also where the virtualenv is not activated."""
    programs = str(Path(sys.executable).parent)
    path = environment.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != programs:
        path = f"{programs}{os.pathsep}{path}"
    return {**environment, "PATH": path}


def _interactive(command: Sequence[str], settings: Mapping[str, str], folder: Path) -> list[str]:
    """Return the command with a file in ``folder`` that it reads at its start."""
    name, *options = command
    programs = shlex.quote(str(Path(sys.executable).parent))
    lines = [
        # first: they may set PATH, KUBECONFIG and the prompt as if there were no sandbox
        _OWN_FILES if _LOGIN.isdisjoint(options) else _OWN_LOGIN_FILES,
        f'export PATH={programs}:"$PATH"',
        *(f"export {variable}={shlex.quote(value)}" for variable, value in settings.items()),
        f'PS1="{MARK}$PS1"',
        script("bash"),
    ]
    start = folder / "bashrc"
    start.write_text("\n".join(lines) + "\n")
    return [name, "--rcfile", str(start), "-i"]
