"""What a program does before its command runs."""

import pytest

from tests.cli.conftest import CommandLine

TARGET = """
import gc, sys
print(gc.isenabled(), gc.get_freeze_count() > 10_000, "distq.controller.manager" in sys.modules)
raise SystemExit(7)
"""


@pytest.mark.parametrize("command", ["run", "informer", "worker"])
def test_what_a_program_imports_is_no_matter_of_garbage_collection(distq: CommandLine, command: str) -> None:
    """The collector finds nothing there: it costs an eighth of the start, and later 30 ms a pass."""
    distq.module("foos", TARGET)
    ended = distq(command, "foos")
    assert ended.stdout == "True True True\n"
    assert ended.returncode == 7


def test_what_cannot_be_imported_is_one_line(distq: CommandLine) -> None:
    """Of the command, which knows how to say it."""
    distq.module("msgspec", "raise ModuleNotFoundError('no msgspec', name='msgspec')")
    distq.module("foos", "from distq import Controller, For\nFor('v1/Pod')")
    ended = distq("worker", "foos")
    assert "pip install 'distq[kubernetes]'" in ended.stderr
    assert ended.returncode == 2
