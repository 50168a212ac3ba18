"""A log pipe that is full and has no reader holds up no work and no shutdown."""

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.cli.log_queue import LINE_COST, WAITING_BYTES, LogQueue
from distq.client.client import Client
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.support.api_servers import EmulatedServer
from tests.support.eventually import eventually

one_server = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

LIMIT = 30.0
"""Seconds within which a process ends here, on a machine that has more to do; before it did not end."""

CHATTY = """
import logging, os
from distq import Controller, Watches

def keys_of(obj):
    logging.getLogger("foos").warning("mapping %s", obj["metadata"]["name"])
    return [obj["metadata"]["name"]]

def reconcile(request):
    logging.getLogger("foos").warning("reconciling %s", request.key)
    os.write(1, f"{request.key}\\n".encode())

controller = Controller("foos", reconcile, watches=[Watches("v1/ConfigMap", keys_of, namespaces=["default"])])
"""


class FullPipe:
    """A pipe with no room left, and nothing that reads it until ``read_all``."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.write_end, False)
        self._filling = 0
        try:
            while True:
                self._filling += os.write(self.write_end, bytes(4096))
        except BlockingIOError:
            os.set_blocking(self.write_end, True)

    def read_all(self) -> str:
        """Return all that was written after the pipe was full, once its writers have gone."""
        os.close(self.write_end)
        with os.fdopen(self.read_end, "rb") as pipe:
            return pipe.read()[self._filling :].decode()


@pytest.fixture
def emulated() -> Iterator[EmulatedServer]:
    """Run an API server of the test's own."""
    with EmulatedServer() as server:
        yield server


def start(
    redis_url: str, kubeconfig: Path, folder: Path, pipe: FullPipe, command: str
) -> "subprocess.Popen[bytes]":
    """Start a command of distq whose stderr is a pipe."""
    (folder / "foos.py").write_text(CHATTY)
    with (folder / "done").open("a") as done:
        return subprocess.Popen(
            [sys.executable, "-m", "distq", command, "foos"],
            cwd=folder,
            env={**os.environ, "DISTQ_REDIS_URL": redis_url, "KUBECONFIG": str(kubeconfig)},
            stdin=subprocess.DEVNULL,
            stdout=done,
            stderr=pipe.write_end,
        )


@one_server
@pytest.mark.parametrize(
    ("ending", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
@pytest.mark.parametrize(
    "split", [pytest.param(False, marks=pytest.mark.slow), True], ids=["run", "informer and worker"]
)
def test_a_full_log_pipe_holds_up_neither_work_nor_shutdown(
    *,
    redis_server: EmbeddedValkey,
    connection: Connection,
    emulated: EmulatedServer,
    tmp_path: Path,
    split: bool,
    ending: signal.Signals,
    status: int,
) -> None:
    """A leader feeds, a worker reconciles, and signals end both as documented, while each line waits."""
    client = Client(emulated.kubeconfig)
    names = {f"map-{number}" for number in range(20)}
    pipes = [FullPipe() for _ in range(1 + split)]
    commands = ["informer", "worker"] if split else ["run"]
    processes = [
        start(redis_server.url, emulated.kubeconfig, tmp_path, pipe, command)
        for pipe, command in zip(pipes, commands, strict=True)
    ]
    try:
        for name in sorted(names):
            client.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
            )
        eventually(lambda: names <= set((tmp_path / "done").read_text().split()), timeout=LIMIT)
        for process in processes:
            process.send_signal(ending)
        assert [process.wait(LIMIT) for process in processes] == [status] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for pipe in pipes:
            pipe.read_all()


@one_server
def test_an_error_is_no_reason_to_wait_for_a_full_pipe(
    redis_server: EmbeddedValkey, connection: Connection, tmp_path: Path
) -> None:
    """A command that fails ends with its status, also where its message finds no room."""
    pipe = FullPipe()
    process = start(redis_server.url, tmp_path / "none", tmp_path, pipe, "informer")
    try:
        assert process.wait(LIMIT) == 2
    finally:
        process.kill()
        process.wait()
        pipe.read_all()


class HeldStream:
    """A stream whose reader reads nothing until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        """Take a line, once it is let go."""
        self.let_go.wait(LIMIT)
        self.lines.append(text)

    def flush(self) -> None:
        """Do nothing: each line was taken whole."""


def test_lines_that_do_not_fit_are_dropped_counted_and_reported() -> None:
    """The bound is by bytes and, since each line costs, by number; the number of missing lines is said."""
    stream, counted = HeldStream(), list[int]()
    queue = LogQueue(logging.Formatter("%(message)s"), stream)  # type: ignore[arg-type]
    queue.on_dropped = counted.append
    fitting = WAITING_BYTES // (1000 + LINE_COST + 1) + 1
    for _ in range(fitting + 7):
        queue.handle(logging.makeLogRecord({"msg": "x" * 1000}))
    assert queue.dropped == 7
    stream.let_go.set()
    assert queue.flush_within(LIMIT)
    assert len([line for line in stream.lines if line.startswith("x")]) == fitting
    assert [line for line in stream.lines if "dropped" in line] == [
        "7 log lines dropped: stderr was full or closed, or not read fast enough\n"
    ]
    assert counted == [7]
    queue.close()


class FullDisk:
    """A stream that refuses lines until it has room."""

    def __init__(self) -> None:
        self.has_room = False
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        """Take a line, if there is room."""
        if not self.has_room:
            raise OSError(errno.ENOSPC, "no space left on device")
        self.lines.append(text)

    def flush(self) -> None:
        """Do nothing: each line was taken whole."""


def test_lines_that_a_full_disk_refuses_are_counted_and_reported() -> None:
    """The count grows at once; the log has the number once the disk has room again."""
    stream, counted = FullDisk(), list[int]()
    queue = LogQueue(logging.Formatter("%(message)s"), stream)  # type: ignore[arg-type]
    queue.on_dropped = counted.append
    for _ in range(3):
        queue.handle(logging.makeLogRecord({"msg": "refused"}))
    assert queue.flush_within(LIMIT)
    assert (queue.dropped, sum(counted)) == (3, 3)
    stream.has_room = True
    queue.handle(logging.makeLogRecord({"msg": "written"}))
    assert queue.flush_within(LIMIT)
    assert stream.lines == [
        "written\n",
        "3 log lines dropped: stderr was full or closed, or not read fast enough\n",
    ]
    assert sum(counted) == 3
    queue.close()


def test_a_record_that_cannot_be_formatted_is_reported_by_its_place() -> None:
    """Nothing is printed past the queue, and the lines after it are written."""
    stream = HeldStream()
    stream.let_go.set()
    queue = LogQueue(logging.Formatter("%(message)s"), stream)  # type: ignore[arg-type]
    queue.handle(logging.LogRecord("foos", logging.INFO, "foos.py", 7, "%d", ("seven",), None))
    queue.handle(logging.makeLogRecord({"msg": "next"}))
    assert queue.flush_within(LIMIT)
    assert stream.lines == ["a log line of foos (foos.py:7) cannot be formatted: TypeError\n", "next\n"]
    queue.close()


def test_a_child_of_a_fork_writes_its_own_lines() -> None:
    """The thread that writes is the parent's; the child has one of its own."""
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as writing:
        queue = LogQueue(logging.Formatter("%(message)s"), writing)
        child = os.fork()
        if child == 0:
            written = False
            try:  # or the child would go on with the tests, as a second process that reports them
                queue.handle(logging.makeLogRecord({"msg": "of the child"}))
                written = queue.flush_within(LIMIT)
            finally:
                os._exit(0 if written else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        queue.close()
    with os.fdopen(read_end) as reading:
        assert reading.read() == "of the child\n"
