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


def outcome(program: str) -> tuple[int, str, str]:
    """Run a program; return its status, and what it printed."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("ends", ["return", "sys.exit(3)", "raise OSError"])
def test_a_child_that_leaves_its_reconcile_ends(ends: str) -> None:
    """It would wait for work as its parent does, for ever, and run what its parent had claimed ahead."""
    assert outcome(PROGRAM.replace("{ends}", ends)) == (0, "child\nended\n", "")


POOL = """
import multiprocessing, time
from distq import Controller, Manager
from distq.testing import MemoryQueue

def reconcile(request):
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600], daemon=True)
    worker.start()
    worker.terminate()
    worker.join(20)
    print(worker.exitcode)
    worker.kill()
    manager.stop()

queue = MemoryQueue("foos")
queue.add("a")
manager = Manager([Controller(queue, reconcile)])
manager.run()
"""


def test_a_child_can_be_terminated() -> None:
    """As the end of a ``multiprocessing.Pool`` does; with its parent's handler it would live on, unheard."""
    assert outcome(POOL) == (0, "-15\n", "")
