"""Runs ``python -m distq`` without its imports: a process that has done them forks for each command.

A command imports for longer than it works. Each still has a process of its own, with its own directory,
environment, arguments, streams and end; only what it imports was there before it.
"""

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn, Self

from tests import ROOT

_IMPORTED = ("distq.cli", "distq.cli.logs", "distq.inspector", "distq.workqueue", "distq.controller.manager")
_LARGEST_REQUEST = 200_000


def environment() -> dict[str, str]:
    """Return the environment without the tester's own settings."""
    testers = ("DISTQ_", "KUBE", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if not name.startswith(testers)}


class ImportedProgram:
    """A context with the process that has imported distq."""

    def __enter__(self) -> Self:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.program", str(theirs.fileno())],
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()  # it ends
        self._process.wait()

    def run(
        self, arguments: Sequence[str], folder: Path, settings: Mapping[str, str], timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end; return what ``subprocess.run`` would."""
        request = json.dumps([[*arguments], str(folder), {**settings}]).encode()
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
            with theirs:
                fds = [out.fileno(), error.fileno(), theirs.fileno()]
                socket.send_fds(self._requests, [request], fds)
            with ours.makefile() as answers:
                process = int(answers.readline())
                ours.settimeout(timeout)
                try:
                    status = int(answers.readline())
                except TimeoutError:
                    os.kill(process, signal.SIGKILL)
                    raise subprocess.TimeoutExpired([*arguments], timeout) from None
            out.seek(0)
            error.seek(0)
            return subprocess.CompletedProcess(["distq", *arguments], status, out.read(), error.read())


def main() -> None:
    """Import, then fork for each request; in the process that was forked, become the command."""
    for name in _IMPORTED:
        import_module(name)
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        request, fds, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 3)
        if not request:
            return
        if os.fork() == 0:
            break
        for fd in fds:
            os.close(fd)
        _reap()
    requests.close()
    out, error, answers = fds
    if process := os.fork():
        _report(process, answers)
    os.close(answers)
    _become(out, error, *json.loads(request))


def _reap() -> None:
    """Let the processes go that have reported."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _report(process: int, answers: int) -> NoReturn:
    """Report the id of a process, and its status when it ends; end."""
    os.write(answers, f"{process}\n".encode())
    _, status = os.waitpid(process, 0)
    os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)  # what this process imported is the command's to close


def _become(out: int, error: int, arguments: Sequence[str], folder: str, settings: Mapping[str, str]) -> None:
    """Go on as ``python -m distq`` in that folder would."""
    os.dup2(out, sys.stdout.fileno())
    os.dup2(error, sys.stderr.fileno())
    os.close(out)
    os.close(error)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(settings)
    sys.path[0] = folder
    sys.argv[1:] = arguments
    runpy.run_module("distq", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
