"""Every promise of the originals is covered by a test, and documented where ours is another."""

import json
import subprocess
import sys

import pytest

from tests import ROOT
from tests.docs.pages import table
from tests.proofs.conformance.coverage import Coverage, record, summary, uncovered, unknown
from tests.proofs.conformance.promises import REDIS, SERVERS, different, load, not_applicable, same

BEYOND_THE_QUEUE = {
    "`Get` returns an item and whether the queue shut down",
    "a health check that hangs holds its probe; checks are added before the start",
    "an error of a runnable ends the process",
    "a handler calls `AddAfter` to collect the events of a resource (Endpoints' batch period)",
    "an error with `RequeueAfter` drops the delay",
    "the client reads from a cache",
    "one reconcile at a time by default",
}
"""Rows of the table about what has no id: Python's way to say it, controllers and clients."""


@pytest.mark.slow
def test_every_promise_is_covered_on_every_server_that_it_needs() -> None:
    """The program says so, and its last line is the answer."""
    program = subprocess.run(
        [sys.executable, "-m", "tests.proofs.conformance"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.stdout.splitlines()[-1:] == ["uncovered: 0"], program.stdout[-3000:] + program.stderr
    assert program.returncode == 0, program.stdout[-3000:]


def test_the_table_has_all_ids() -> None:
    """Numbered without gaps."""
    numbered = {"WQ": 23, "WQ-D": 5, "DQ": 13, "RL": 16, "MX": 4, "PQ": 22, "RD": 20}
    expected = {
        f"{group}{number}" if group == "WQ-D" else f"{group}-{number:02}"
        for group, count in numbered.items()
        for number in range(1, count + 1)
    }
    rows = load()
    assert expected <= set(rows)
    assert all(row.rule and set(row.on) <= set(SERVERS) for row in rows.values())
    assert all(row.why for row in rows.values() if row.kind == "not applicable")


def test_each_difference_is_documented() -> None:
    """Each difference has its row there, and each row is about an id or about what has none."""
    documented = {row[0] for row in table("client-go, controller-runtime", "distq")}
    named = {row.documented for row in load().values() if row.kind == "different"}
    assert named - documented == set()
    assert documented - named == BEYOND_THE_QUEUE


def test_a_missing_test_is_named() -> None:
    """An id without a test, one that lacks a server, and an unknown one."""
    rows = {row.id: row for row in (same("A-1", "a"), different("A-2", "b", "B"), same("A-3", "c", on=()))}
    rows["A-4"] = not_applicable("A-4", "d", "there is none")
    coverage = {
        "A-1": Coverage({"test_a"}, {"redis7", "memory"}),
        "B-1": Coverage({"test_b"}),
    }
    assert uncovered(rows, coverage) == {
        "A-1": ("redis6", "valkey9"), "A-2": REDIS, "A-3": ("a test",),
    }  # fmt: skip
    assert unknown(rows, coverage) == ["B-1"]
    printed = list(summary(rows, coverage))
    assert "unknown B-1: test_b" in printed
    assert "uncovered A-1: no test on redis6, valkey9" in printed


def test_the_table_can_be_read_by_programs() -> None:
    """A row is one object, with the servers that it lacks."""
    row = json.loads(record(same("A-1", "a"), Coverage({"test_a"}, {"redis7"})))
    assert (row["id"], row["kind"], row["tests"], row["servers"]) == ("A-1", "same", ["test_a"], ["redis7"])
    assert row["lacks"] == ["redis6", "valkey9"]
