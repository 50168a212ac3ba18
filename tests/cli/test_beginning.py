"""What a program does before its command runs."""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import CommandLine

TARGET = """
import gc, sys
print(gc.isenabled(), gc.get_freeze_count() > 10_000, "distq.controller.manager" in sys.modules)
raise SystemExit(7)
"""


@pytest.mark.parametrize("command", ["run", "informer", "worker"])
def test_the_imports_of_a_program_are_no_matter_of_garbage_collection(
    distq: CommandLine, command: str
) -> None:
    """The collector finds nothing there: it costs an eighth of the start, and later 30 ms a pass."""
    distq.module("foos", TARGET)
    ended = distq(command, "foos")
    assert ended.stdout == "True True True\n"
    assert ended.returncode == 7


def test_a_module_that_cannot_be_imported_is_one_line(distq: CommandLine) -> None:
    """Of the command, which knows how to say it."""
    distq.module("msgspec", "raise ModuleNotFoundError('no msgspec', name='msgspec')")
    distq.module("foos", "from distq import Controller, For\nFor('v1/Pod')")
    ended = distq("worker", "foos")
    assert "[kubernetes]'." in ended.stderr
    assert ended.returncode == 2


@pytest.mark.slow
def test_a_start_is_measured_by_stages() -> None:
    """Each with its CPU time and its time; the values are no test."""
    command = ["-m", "benchmarks.starting", "--objects", "20", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row["value"] for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    for what in ("CPU", "time"):
        assert 0 < rows[f"TARGET imported: {what}"] < rows[f"first object done: {what}"]
