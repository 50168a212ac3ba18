"""Nothing is lost, no zombie is heard, and nothing runs twice, whatever is done to the fleet."""

import json
import subprocess
import sys

import pytest

from tests import ROOT
from tests.nemesis.catalogue import faults
from tests.support.parts import IN_CI
from tests.support.redis_servers import KINDS, server_of


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_fleet_withstands_each_fault() -> None:
    """The short profile: a row for each fault, all of which pass; the last lines say so."""
    for kind in KINDS:
        server_of(kind)
    done = subprocess.run(
        [sys.executable, "-m", "tests.nemesis", "--profile", "short", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    *rows, violations, lost = done.stdout.splitlines()
    wrong = [row for row in map(json.loads, rows) if not row["pass"]]
    assert (wrong, violations, lost) == ([], "violations: 0", "lost: 0"), done.stderr
    assert done.returncode == 0
    names = {json.loads(row)["fault"] for row in rows}
    assert names == {fault.name for fault in faults() if IN_CI or fault.name in names or not fault.real}
