"""The environment of a command inside the sandbox: the programs beside this Python, and a marked prompt.

An interactive bash reads its owner's files first, which may set PATH, KUBECONFIG and the prompt as if
there were no sandbox; so the sandbox's settings come after them.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MARK = "(distq sandbox) "

_LOGIN = {"-l", "--login", "-il", "-li"}
_OWN_FILES = "if [ -r ~/.bashrc ]; then . ~/.bashrc; fi"
_OWN_LOGIN_FILES = """if [ -r /etc/profile ]; then . /etc/profile; fi
for own in ~/.bash_profile ~/.bash_login ~/.profile; do
    if [ -r "$own" ]; then . "$own"; break; fi
done
unset own"""


def is_interactive(command: Sequence[str]) -> bool:
    """Return whether the command is an interactive bash at a terminal."""
    name, *options = command
    return Path(name).name == "bash" and {*options} <= {"-i", *_LOGIN} and os.isatty(0)


def with_programs(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in whose PATH ``distq`` is found, also where the virtualenv is not activated."""
    programs = str(Path(sys.executable).parent)
    path = environment.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != programs:
        path = f"{programs}{os.pathsep}{path}"
    return {**environment, "PATH": path}


def interactive(command: Sequence[str], settings: Mapping[str, str], folder: Path) -> list[str]:
    """Return the command with a file in ``folder`` that it reads at its start."""
    from distq.cli.completion import script

    name, *options = command
    programs = shlex.quote(str(Path(sys.executable).parent))
    lines = [
        _OWN_FILES if _LOGIN.isdisjoint(options) else _OWN_LOGIN_FILES,
        f'export PATH={programs}:"$PATH"',
        *(f"export {variable}={shlex.quote(value)}" for variable, value in settings.items()),
        f'PS1="{MARK}$PS1"',
        script("bash"),
    ]
    start = folder / "bashrc"
    start.write_text("\n".join(lines) + "\n")
    return [name, "--rcfile", str(start), "-i"]
