"""The benchmark of requests runs, and gives what it measured in a form that programs read."""

import json
import subprocess
import sys

from tests.support.parts import program


def test_every_kind_of_request_has_its_bar() -> None:
    """Beside ``http.client`` and urllib3; the values of the figures are no test."""
    program("openssl", package="openssl")
    command = ["-m", "benchmarks.client", "--times", "32", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in report["rows"]}
    for act in ("get", "patch", "status patch"):
        for peer in ("http.client", "urllib3"):
            row = rows[f"{act}: CPU, to {peer}"]
            assert row["value"] > 0
            assert row["pass"] == (row["ratio"] <= row["bar"])
    assert rows["await get: CPU, to a get"]["ratio"] > 0
    assert done.returncode == (0 if report["pass"] else 1)
