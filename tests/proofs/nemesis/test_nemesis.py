"""Under all faults nothing is lost, no zombie is accepted, and nothing runs twice."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distq.testing import envtest
from tests import ROOT
from tests.proofs.nemesis.catalogue import faults
from tests.proofs.nemesis.release import is_in_history
from tests.proofs.nemesis.report import Row
from tests.support.redis_servers import KINDS, server_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MISTAKES = {
    "F7": (
        "workqueue/claim_deadline.py",
        "self._lasts = claim_duration - _TICK - self.cancel_time",
        "self._lasts = 3600.0  # a fence that comes too late",
        "overlaps",
    ),
    "F4": (
        "redisio/lua/include/enqueue.lua",
        "to_dirty or { 'ZADD', dirty, 'LT' }",
        "to_dirty or { 'ZADD', ready, 'LT' } -- though somebody holds it",
        "overlaps|S1 at",
    ),
    "F17": (
        "redisio/lua/include/claim.lua",
        "call('ZPOPMIN', ready, want)",
        "call('ZPOPMAX', ready, want)",
        "S5 at",
    ),
    "F46": (
        "redisio/lua/include/hold_back.lua",
        "if claimed[flow] < limit and (not",
        "if (not",
        "ran at once for .* and its limit is 2",
    ),
}
"""By the fault that shows it: a file, a text in it, its replacement, and a pattern of the message."""
AT_EACH_CHANGE = "F46"
"""The mistake that CI plants: it shows that what a fleet does reaches the judge. The night plants all."""


def nemesis(*arguments: str) -> tuple[list[Row], list[str], subprocess.CompletedProcess[str]]:
    """Run the program; return its rows, its last lines, and how it ended."""
    command = [sys.executable, "-m", "tests.proofs.nemesis", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if lines[-1:] == [] or not lines[-1].startswith("lost: "):
        pytest.fail(
            f"it broke off with status {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False
        )
    *rows, violations, lost = lines
    return [Row.from_json(json.loads(row)) for row in rows], [violations, lost], done


def test_a_fleet_withstands_each_fault() -> None:
    """The short profile: a row for each fault, all of which pass; the last lines say so."""
    for kind in KINDS:
        server_of(kind)
    rows, totals, done = nemesis("--profile", "short")
    if failed := [row for row in rows if not row.passed]:
        pytest.fail("\n".join([*(row.as_text() for row in failed), done.stderr]), pytrace=False)
    assert (totals, done.returncode) == (["violations: 0", "lost: 0"], 0)
    has_assets, has_release = envtest.assets() is not None, is_in_history()
    possible = {
        fault.name
        for fault in faults()
        if (has_assets or not fault.real) and (has_release or not fault.older)
    }
    assert {row.fault for row in rows} == possible


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=() if each == AT_EACH_CHANGE else pytest.mark.night) for each in MISTAKES],
)
def test_a_mistake_is_noticed(tmp_path: Path, fault: str) -> None:
    """Planted into a copy of distq that the fleet runs."""
    file, right, wrong, says = MISTAKES[fault]
    shutil.copytree(ROOT / "distq", tmp_path / "distq")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    text = (tmp_path / "distq" / file).read_text()
    assert text.count(right) == 1
    (tmp_path / "distq" / file).write_text(text.replace(right, wrong))
    (row,), totals, done = nemesis("--fault", fault, "--server", "valkey9", "--root", str(tmp_path))
    assert any(re.search(says, each) for each in row.wrong), row.as_text()
    assert totals[0] != "violations: 0"
    assert done.returncode == 1
