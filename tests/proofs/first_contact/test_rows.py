"""Each thing that a new user meets has tests that show it, and the program judges by them."""

import subprocess
import sys

import pytest

from tests import ROOT
from tests.proofs.first_contact.rows import ROWS, Outcome, Results, lines, outcomes, wrong

RIGHT = {number: {f"test_{number}[a]", f"test_{number}[b]"} for number in ROWS}


def results(*failed: str) -> Results:
    """Return what became of the tests of all rows."""
    found = Results()
    found.failed = set(failed)
    found.passed = {test for tests in RIGHT.values() for test in tests} - found.failed
    return found


@pytest.mark.slow
def test_every_row_has_its_tests() -> None:
    """Numbered without gaps; no test shows a row that does not exist."""
    program = subprocess.run(
        [sys.executable, "-m", "tests.proofs.first_contact", "--collect-only"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = program.stdout.splitlines()
    without = {int(line.split()[0]) for line in printed if line.endswith("NO TEST")}
    assert [line.split()[0] for line in printed[:-1]] == [str(number) for number in range(1, 25)], printed
    assert not without, program.stderr[-3000:]
    assert program.returncode == 1, "nothing was seen"


def test_rows_that_were_seen_are_right() -> None:
    """The last line counts what is wrong."""
    found = outcomes(RIGHT, results())
    printed = list(lines(RIGHT, found))
    assert len(printed) == len(ROWS) + 1
    assert printed[-1] == "wrong: 0"
    assert printed[0].endswith("`listen` and `get` end | right, 2 tests")


def test_one_failure_makes_its_row_wrong() -> None:
    """Also where the test passed first and failed as it was cleaned up; it is named."""
    found = results("test_3[b]")
    found.passed.add("test_3[b]")
    judged = outcomes(RIGHT, found)
    printed = list(lines(RIGHT, judged))
    assert judged[3] == Outcome(1, ("test_3[b]",))
    assert "    failed: test_3[b]" in printed
    assert printed[-1] == "wrong: 1"


def test_a_row_that_no_run_saw_is_wrong() -> None:
    """Without a test, with one that never ran, and without a row."""
    tests = {**RIGHT, 1: set[str](), 2: {"test_skipped"}, 99: {"test_stray"}}
    found = outcomes(tests, results())
    printed = "\n".join(lines(tests, found))
    assert wrong(tests, found) == 3
    assert "NO TEST" in printed
    assert "NOT SEEN, 1 tests were left out" in printed
    assert "99  no such row: test_stray" in printed
