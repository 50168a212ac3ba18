"""A reconcile may fork: its child is no second worker."""

import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import os, sys
from distq import Controller, Manager
from distq.testing import MemoryQueue

def reconcile(request):
    if child := os.fork():
        os.waitpid(child, 0)
        os.write(1, b"ended\\n")
        manager.stop()
    else:
        os.write(1, b"child\\n")
        {ends}

queue = MemoryQueue("foos")
queue.add("a")
manager = Manager([Controller(queue, reconcile)])
manager.run()
"""


@pytest.mark.parametrize("ends", ["return", "sys.exit(3)", "raise OSError"])
def test_a_child_that_leaves_its_reconcile_ends(ends: str) -> None:
    """It would wait for work as its parent does, for ever, and run what its parent had claimed ahead."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM.replace("{ends}", ends)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "child\nended\n", "")
