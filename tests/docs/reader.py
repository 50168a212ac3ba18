"""A reader who follows the pages: in a directory with the files that they show, with a sandbox at hand."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from distq.testing import Sandbox
from tests.cli.program import ImportedProgram
from tests.docs.pages import BLOCKS, Block

PROGRAMS = Path(sys.executable).parent
TIMEOUT = 60.0

Runner = Callable[[str, "Reader"], None]
RUNNERS: dict[str, Runner] = {}
"""What runs each block, by how its first line begins."""


def runs(*beginnings: str) -> Callable[[Runner], Runner]:
    """Register what runs the blocks whose first line begins so."""

    def register(runner: Runner) -> Runner:
        for beginning in beginnings:
            assert beginning not in RUNNERS, f"two runners of {beginning}"
            RUNNERS[beginning] = runner
        return runner

    return register


def runner_of(block: Block) -> Runner:
    """Return what runs the block; a new kind of block is added here with its check."""
    found = [beginning for beginning in RUNNERS if block.title.startswith(beginning)]
    if not found:
        pytest.fail(f"no test runs this block:\n{block.text}")
    return RUNNERS[max(found, key=len)]


def write_files(folder: Path) -> None:
    """Write the files that the pages show, as a reader would."""
    for block in BLOCKS:
        if block.file:
            assert not (folder / block.file).exists(), f"two blocks show {block.file}, and differ"
            (folder / block.file).write_text(block.text)


class Reader:
    """Runs what the pages show."""

    def __init__(self, folder: Path, sandbox: Sandbox, program: ImportedProgram) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.program = program
        own = {name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
        self.bare = {**own, "HOME": str(folder), "PATH": f"{PROGRAMS}:{own.get('PATH', '')}"}
        self.environment = self.bare | sandbox.environment
        self._passed: set[tuple[str, ...]] = set()

    def run(self, *command: str, text: str = "", **environment: str) -> str:
        """Run a command to its good end; return what it printed."""
        done = self.finished(*command, text=text, environment=environment or self.environment)
        assert done.returncode == 0, f"{shlex.join(command)}\n{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def finished(
        self, *command: str, environment: Mapping[str, str], text: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end; a process that has imported distq becomes a command of distq."""
        if command[0] == "distq" and not text:
            return self.program.run(command[1:], self.folder, environment, TIMEOUT)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def test(self, *files: str) -> None:
        """Run tests as their author would, where no server is; what has passed is not repeated."""
        if files not in self._passed:
            self.run("pytest", "-q", "-p", "no:cacheprovider", *files, **self.bare)
            self._passed.add(files)

    @contextmanager
    def started(self, *command: str) -> "Iterator[subprocess.Popen[str]]":
        """Start a command that goes on until it is stopped; end it with the block."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    """Return the next line that a started command prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def commands(text: str) -> list[list[str]]:
    """Return the words of each command of a shell block."""
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


def require_lines(shown: str, printed: str) -> None:
    """Find each line that a page shows in what was printed, apart from numbers, plurals and widths."""
    for line in shown.splitlines():
        pattern = re.sub(r"\d+(?:\\\.\d+)?", r"\\d+(?:[.]\\d+)?", re.escape(" ".join(line.split())))
        pattern = re.sub(r"s?\b(?=\\ |,|$)", "s?", pattern).replace("\\ ", " +")
        assert re.search(f"^ *{pattern} *$", printed, re.MULTILINE), f"{line}\n{printed}"
