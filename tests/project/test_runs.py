"""A run of the suite says what it left out, and leaves nothing out in CI."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import ROOT

SUITE = """
import subprocess
import sys
import pytest
from tests.support.parts import missing, program

@pytest.mark.parametrize("number", range(3))
def test_of_a_part(number):
    missing("no zookeeper: apt-get install zookeeper")

def test_of_another_part():
    program("zookeeper-shell", package="zookeeper")

@pytest.mark.slow
def test_that_takes_long():
    pass

@pytest.mark.random
def test_that_draws():
    script = "import signal; print(signal.SIG_IGN in map(signal.getsignal, (signal.SIGINT, signal.SIGHUP)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\\n"
"""


def run(tmp_path: Path, *arguments: str, **settings: str) -> list[str]:
    """Run a suite of six tests with what runs ours, under nohup; return the lines that it prints."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_parts.py").write_text(SUITE)
    own = {name: text for name, text in os.environ.items() if not name.startswith(("CI", "PYTEST"))}
    own |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "xdist.plugin", "-p", "tests.support.runs", "-p", "tests.support.report")
    ignored = (signal.SIGINT, signal.SIGHUP)
    handlers = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *arguments],
            cwd=tmp_path,
            env=own | settings,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for number, handler in zip(ignored, handlers, strict=True):
            signal.signal(number, handler)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_what_is_left_out_is_one_line_a_part(tmp_path: Path) -> None:
    """How many tests, why, and what gets it; and what tests start can be interrupted."""
    printed = run(tmp_path, "suite")
    assert "    3  no zookeeper: apt-get install zookeeper" in printed
    assert "    1  no zookeeper-shell: apt-get install zookeeper" in printed
    assert "    1  slow, run by CI: pytest -m slow, or name the file" in printed
    assert "drew little: CI takes 20,000 steps a server" in printed
    assert "1 passed, 5 skipped" in printed[-1]


def test_ci_leaves_nothing_out(tmp_path: Path) -> None:
    """What is missing fails, and what is slow runs."""
    assert "4 failed, 2 passed" in run(tmp_path, "suite", CI="true")[-1]


def test_what_is_named_runs_wholly_and_in_one_process(tmp_path: Path) -> None:
    """Whoever works on it waits for it, and may want a debugger."""
    printed = run(tmp_path, "suite/test_parts.py::test_that_takes_long", "--numprocesses=auto")
    assert "1 passed" in printed[-1]
    assert "bringing up nodes" not in "".join(printed)
