"""The command line as people start it: a process of its own, on an embedded server."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.cli.program import ImportedProgram, environment
from tests.support.redis_servers import server_of

TIMEOUT = 60.0


class CommandLine:
    """Runs ``distq`` in an empty directory, with nothing of the tester's own settings."""

    def __init__(self, folder: Path, settings: Mapping[str, str], program: ImportedProgram) -> None:
        self.folder = folder
        self._program = program
        self._started: list[subprocess.Popen[str]] = []
        self.environment = {**environment(), "HOME": str(folder), **settings}

    def __call__(self, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        if not any(name.startswith("PYTHON") for name in settings):  # which Python reads when it starts
            return self._program.run(arguments, self.folder, {**self.environment, **settings}, TIMEOUT)
        return subprocess.run(
            [sys.executable, "-m", "distq", *arguments],
            cwd=self.folder,
            env={**self.environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def start(self, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
        """Start it and return; the caller ends it, or else the end of the test does."""
        process = subprocess.Popen(
            [sys.executable, "-m", "distq", *arguments],
            cwd=self.folder,
            env={**self.environment, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kill what a failed test has left, and close its pipes: else a later test would fail for them."""
        for process in self._started:
            with process:
                process.kill()

    def module(self, name: str, source: str) -> None:
        """Write a Python module into the working directory."""
        path = self.folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


@pytest.fixture(scope="session")
def valkey() -> Iterator[EmbeddedValkey]:
    """Run one server for all tests of the command line."""
    with EmbeddedValkey(server=server_of("valkey9")) as server:
        yield server


@pytest.fixture
def redis(valkey: EmbeddedValkey) -> Iterator[Connection]:
    """Give a Connection to the emptied server."""
    connection = Connection(valkey.url)
    connection.execute("FLUSHALL")
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def imported_program() -> Iterator[ImportedProgram]:
    """Import what commands import once for all tests of the command line."""
    with ImportedProgram() as program:
        yield program


@pytest.fixture
def distq(
    tmp_path: Path, valkey: EmbeddedValkey, redis: Connection, imported_program: ImportedProgram
) -> Iterator[CommandLine]:
    """Give the command line, with its Redis in the environment."""
    command_line = CommandLine(tmp_path, {"DISTQ_REDIS_URL": valkey.url}, imported_program)
    yield command_line
    command_line.end()
