"""Standard streams that lead nowhere, and signals before a command has begun."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.cli.test_run import WORKER
from tests.support.eventually import eventually


@pytest.fixture
def foos(redis: Connection) -> Iterator[Queue]:
    """Fill a queue."""
    queue = Queue("foos", redis)
    queue.add("a", "b")
    yield queue
    queue.close()


def _in_shell(distq: CommandLine, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of a shell, in which ``distq`` is the command line."""
    return subprocess.run(
        ["bash", "-c", f'distq() {{ "{sys.executable}" -m distq "$@"; }}; {line}'],
        cwd=distq.folder,
        env=distq.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def in_ci(*commands: str) -> list[object]:
    """Return commands that print, or end, as another one does: CI tries them, too."""
    return [pytest.param(command, marks=pytest.mark.slow) for command in commands]


@pytest.mark.parametrize(
    "command", ["items foos", "items --help", *in_ci("items foos --json", "queues", "--help")]
)
def test_a_full_disk_is_said_in_a_line(distq: CommandLine, foos: Queue, command: str) -> None:
    """Output that could not be printed is no success, and no traceback."""
    ended = _in_shell(distq, f"distq {command} > /dev/full")
    said = "distq: cannot print: no space left on device. Make room, or let stdout lead elsewhere.\n"
    assert (ended.returncode, ended.stderr) == (2, said)


@pytest.mark.parametrize("command", ["items foos", *in_ci("items foos --json", "queues", "--help")])
def test_a_reader_that_has_left_is_no_error(distq: CommandLine, foos: Queue, command: str) -> None:
    """As ``head`` leaves: quietly, with status 0."""
    ended = _in_shell(distq, f"distq {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", ["items foos", "--version", *in_ci("items foos --json", "queues", "workers")]
)
def test_a_closed_stdout_prints_nothing(distq: CommandLine, foos: Queue, command: str) -> None:
    """Nor does a connection that would get its number receive what is printed."""
    ended = _in_shell(distq, f"distq {command} >&-")
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr
    assert foos.depth() == 2


@pytest.mark.parametrize("stderr", ["/dev/full", "&-"])
def test_an_error_that_cannot_be_said_keeps_its_status(distq: CommandLine, stderr: str) -> None:
    """A usage error is 2, also where stderr is full or closed."""
    assert _in_shell(distq, f"distq nonsense 2>{stderr}").returncode == 2


def test_a_worker_whose_output_is_not_read_works(distq: CommandLine, redis: Connection, foos: Queue) -> None:
    """It says what it runs on stderr; that its reader has left is no reason to end."""
    distq.module("foos", WORKER)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-m", "distq", "worker", "foos"],
        cwd=distq.folder,
        env=distq.environment,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
    )
    os.close(writer)
    try:
        eventually(lambda: process.poll() is not None or foos.depth() == 0)
        assert process.poll() is None
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("command", ["run", *in_ci("informer", "worker")])
@pytest.mark.parametrize("module", ["click", "foos"])
def test_a_sigterm_during_the_imports_is_a_clean_end(distq: CommandLine, module: str, command: str) -> None:
    """Those of distq, or of the TARGET: nothing has begun, so status 0, at once."""
    assert _ended_in_the_imports(distq, module, signal.SIGTERM, command, "foos") == (0, "")


@pytest.mark.parametrize("module", ["click", "foos"])
def test_a_sighup_during_the_imports_is_a_clean_end(distq: CommandLine, module: str) -> None:
    """As SIGTERM is: a terminal that closes sends it."""
    assert _ended_in_the_imports(distq, module, signal.SIGHUP, "worker", "foos") == (0, "")


def test_ctrl_c_during_the_imports_prints_no_traceback(distq: CommandLine) -> None:
    """Its status is the one of a command that is interrupted later."""
    assert _ended_in_the_imports(distq, "click", signal.SIGINT, "queues") == (130, "")


def _ended_in_the_imports(
    distq: CommandLine, module: str, number: signal.Signals, *command: str
) -> tuple[int, str]:
    """Return status and stderr of a command that gets a signal while it imports a module.

    The import sleeps in short pieces: if a signal arrives just before a system call, Python calls its handler
    when that call returns.
    """
    importing = Path(distq.folder, "importing")
    slow = f"""\
import pathlib, time
pathlib.Path({str(importing)!r}).touch()
for _ in range(3000):
    time.sleep(0.01)
"""
    distq.module(module, slow)
    process = distq.start(*command)
    eventually(importing.exists)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    return process.returncode, said
