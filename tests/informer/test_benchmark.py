"""The benchmark of informers runs, and ends with what its readers expect."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.api_servers import EmulatedServer


@pytest.mark.night
def test_the_benchmark_of_informers_ends_with_one_object_of_rows() -> None:
    """Each row has a value, a ratio, a bar and a verdict; the values of the figures are no test."""
    with EmulatedServer() as server:
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "benchmarks.informer",
                "--objects=20",
                "--events=30",
                "--rounds=1",
                "--json",
            ],
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
            check=False,
            capture_output=True,
            text=True,
            timeout=150,
        )
        namespaces = [obj["metadata"]["name"] for obj in server.client().list("v1/Namespace")]
    assert ran.returncode in {0, 1}, ran.stderr
    report = json.loads(ran.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in report["rows"]}
    assert all({"value", "unit", "ratio", "bar", "pass", "missing"} <= row.keys() for row in rows.values())
    assert all(isinstance(row["value"], float) for row in rows.values())
    assert {
        "list: CPU, to client-go",
        "list: CPU, to official",
        "list: memory, to client-go",
        "list: memory, peak to steady",
        "backlog: watch, to lightkube's watch",
        "backlog: informer with a handler, to lightkube's watch",
        "backlog into a queue: best round",
        "write to key claimable, p50",
        "write to key claimable, p99",
    } <= {name for name, row in rows.items() if row["bar"] is not None}
    assert not [name for name in namespaces if name.startswith("distq-benchmark")]
