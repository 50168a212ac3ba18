"""Runs a kubeconfig's exec plugin for so long and no longer; the ``kubernetes`` package would wait for ever.

The package runs this file instead of the plugin, and the file runs the plugin.
"""

import contextlib
import copy
import os
import signal
import subprocess
import sys
from typing import Any

TIMEOUT, INTERACTIVE_TIMEOUT = 15.0, 300.0
"""Seconds that a plugin gets; the second one where a person at a terminal may have to log in."""

_TIMED_OUT, _NOT_RUN = 124, 127  # as timeout and the shell have it


def bound_plugins(users: list[Any]) -> None:
    """Let the exec plugins of these users, as the package merged them, run by this file."""
    for place, node in enumerate(users):
        plugin = ((node.value or {}).get("user") or {}).get("exec")
        if isinstance(plugin, dict) and "command" in plugin:
            bounded = copy.deepcopy(node.value)  # the package writes changes back to the file
            seconds = INTERACTIVE_TIMEOUT if sys.stdout is not None and sys.stdout.isatty() else TIMEOUT
            ours = ["-I", "-S", __file__, str(seconds), plugin["command"], *(plugin.get("args") or ())]
            bounded["user"]["exec"] |= {"command": sys.executable, "args": ours}
            users[place] = type(node)(node.name, bounded, node.path)


def _main(seconds: str, *command: str) -> int:
    own_group = not sys.stderr.isatty()  # or it could not ask at the terminal
    pipe = subprocess.PIPE
    try:
        plugin = subprocess.Popen(
            command, stdout=pipe, stderr=pipe if own_group else None, start_new_session=own_group
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _NOT_RUN
    try:
        output, errors = plugin.communicate(timeout=float(seconds))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):  # it ended just now
            # the group: a process of the plugin's may hold the pipes on which the package waits
            os.killpg(plugin.pid, signal.SIGKILL) if own_group else plugin.kill()
        sys.stderr.write(f"{command[0]}: no credentials within {seconds} s\n")
        return _TIMED_OUT
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors or b"")
    return plugin.returncode


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
