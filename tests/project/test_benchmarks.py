"""The benchmarks run, and say what they measured in a form that programs read; what they say is no test."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.report import Row, publish
from tests.support.api_servers import real_api_server_assets
from tests.support.redis_servers import KINDS, server_of

_OWN_CLUSTER = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_floor_prints_every_figure_with_its_bar(kind: str) -> None:
    """The last line is one JSON object, whose rows have ratio, bar and pass; the exit code says the same."""
    server_of(kind)
    command = ["-m", "benchmarks.floor", "--quick", "--json", "--rounds", "1", "--items", "200"]
    done = subprocess.run(
        [sys.executable, *command, "--server", kind], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in report["rows"]}
    assert all(row["value"] > 0 for row in rows.values())
    for how in ("batches of 100", "one at a time"):
        row = rows[f"{kind}: {how}: all three"]
        assert row["bar"] > 1
        assert row["ratio"] == pytest.approx(row["value"] / row["reference"], rel=0.01)
        assert row["pass"] == (row["ratio"] <= row["bar"])
    assert {name for name in rows if "memory of an item" in name} == {
        f"{kind}: memory of an item {state}" for state in ("ready", "processing", "delayed")
    }
    assert any("longest scripts" in name for name in rows)
    assert report["pass"] == all(row["pass"] for row in rows.values())
    assert done.returncode == (0 if report["pass"] else 1)


@pytest.mark.night
def test_shares_of_a_fair_queue_are_measured_beside_a_plain_one() -> None:
    """Places, differences and costs, each with its bar except the plain queue's."""
    server_of("redis7")
    command = ["-m", "benchmarks.fairness", "--quick", "--json", "--rounds", "1", "--waiting", "8000"]
    done = subprocess.run(
        [sys.executable, *command, "--server", "redis7"],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"].partition(": ")[2]: row for row in report["rows"]}
    assert rows["8,000 items of a namespace wait: place of another's item, fair"]["pass"]
    assert rows["8,000 items of a namespace at its limit: turns until another's item is claimed"]["pass"]
    (differ,) = (row for name, row in rows.items() if "claims of any two differ by" in name)
    assert differ["value"] <= differ["bar"] == 1
    for how, bar in {"one at a time": 1.6, "batches of 100": 2, "batches of 1000": 2}.items():
        assert rows[f"{how}: add, fair against plain"]["bar"] == bar
    assert report["pass"] == all(row["pass"] for row in rows.values())


@pytest.mark.night
def test_waiting_beside_a_busy_namespace_is_measured_with_and_without_shares() -> None:
    """On real workers; each figure beside that of the quiet queue, and a bar where it is fair."""
    server_of("redis7")
    command = ["-m", "benchmarks.neighbours", "--json", "--items", "400", "--server", "redis7"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"].rpartition("another, ")[2]: row for row in report["rows"]}
    fair, plain = rows["fair: p99 of their waiting"], rows["not fair: p99 of their waiting"]
    assert (fair["bar"], plain["bar"]) == (3, None)
    assert fair["reference"] == plain["reference"] > 0
    assert report["pass"] == all(row["pass"] for row in rows.values())


@pytest.mark.night
def test_the_cache_prints_every_figure() -> None:
    """Commits with objects and without, a first read, reads in one round trip, bytes; judged as the rest."""
    server_of("redis7")
    command = ["-m", "benchmarks.cache", "--objects", "1000", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"].partition(": ")[2]: row for row in report["rows"]}
    for what in ("first", "changed"):
        assert rows[f"commit of {what} objects, a second"]["reference"] > 0
        assert rows[f"commit of {what} objects, against moving them alone"]["bar"] == 0.5
    assert rows["a new worker's first read"]["bar"] == 50
    for read in ("get", "by_index of 10"):
        assert rows[f"{read} among 1000, p50"]["value"] > 0
        assert rows[f"{read} among 1000, round trips"]["value"] == 1
    assert rows["bytes of an object"]["ratio"] > 1
    assert rows["failover with 1000 cached objects: pages listed"]["pass"]
    assert rows["requests of 100 reconciles that list by index"]["pass"]


@pytest.mark.night
def test_the_dashboard_prints_the_costs_of_looking() -> None:
    """Each page's growth and commands, the worst PING of a repair, and the turn with the trace off and on."""
    server_of("redis7")
    command = ["-m", "benchmarks.dashboard", "--keys", "2000", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"].partition(": ")[2]: row for row in report["rows"]}
    commands = [row for name, row in rows.items() if name.endswith(", commands")]
    assert len(commands) == 9
    assert all(0 < row["value"] <= row["bar"] == 6 for row in commands)
    assert rows["page: first page, 2,000 items against 1,000"]["bar"] == 2
    assert rows["worst PING while 2,000 are requeued, the least of three"]["value"] > 0
    assert rows["turn, batches of 100, trace off"]["bar"] == 1.02
    assert rows["turn, one at a time, trace on"]["ratio"] > 0


@pytest.mark.night
def test_a_change_of_leaders_is_counted_on_a_real_api_server() -> None:
    """Whether the watch resumes or not, missed changes are enqueued; the rows and the exit code show this."""
    real_api_server_assets()
    command = ["-m", "benchmarks.failover", "--objects", "60", "--no-takeovers", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=150, env=_OWN_CLUSTER
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"]: row["value"] for row in report["rows"]}
    for how, what in (("resumes", "missed events"), ("is refused", "differences")):
        assert rows[f"the watch {how}: {what} not enqueued"] == 0
        assert rows[f"the watch {how}: deletions not enqueued"] == 0
    assert rows["the watch resumes: pages listed"] == 0
    assert done.returncode == (0 if report["pass"] else 1)


@pytest.mark.night
def test_queues_are_measured_beside_another_version() -> None:
    """Each version in processes of its own, whichever way its worker goes; and a peer that is not there."""
    server_of("redis7")
    command = ["-m", "benchmarks.queues", "--quick", "--rounds", "1", "--peers", "", "--json"]
    chosen = ["--only", "loop", "--only", "add", "--only", "idle", "--against", "HEAD"]
    done = subprocess.run(
        [sys.executable, *command, *chosen], capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in report["rows"]}
    for row in ("loop, loop", "add, threads", "add: CPU an item, threads", "idle wake-up, p50, async"):
        assert rows[f"{row}, to HEAD"]["ratio"] > 0
    assert rows["idle wake-up, p50, to BLPOP + claim"]["ratio"] > 0
    assert report["pass"] == (done.returncode == 0)


@pytest.mark.night
def test_whole_controllers_are_measured_on_a_real_api_server() -> None:
    """Each object is patched once; each process has its CPU time, and so has each contender that is there."""
    real_api_server_assets()
    server_of("redis7")
    command = ["-m", "benchmarks.end_to_end", "--items", "20", "--sets", "4", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=170, env=_OWN_CLUSTER
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in report["rows"]}
    missing = {name: row["missing"] for name, row in rows.items() if row.get("missing")}
    assert not {"distq", "distq, 3 workers"} & missing.keys(), missing
    assert rows["items there already: CPU each"]["bar"] == 1.7
    for name in ("distq", "distq, 3 workers"):
        for when in ("there already", "created live"):
            assert rows[f"items {when}, {name}: PATCH an object"]["value"] == 1
            assert rows[f"items {when}, {name}: CPU each, Redis"]["value"] > 0
    assert rows["sets there already, distq: all done"]["value"] > 0


def test_a_row_is_judged_by_its_ratio_where_it_has_a_reference() -> None:
    """Less is better unless stated otherwise, and a figure without a bar is only printed."""
    assert Row("slow", 3, "µs", bar=1.5, reference=2).passed
    assert not Row("slow", 4, "µs", bar=1.5, reference=2).passed
    assert not Row("big", 4, "bytes", bar=3).passed
    assert Row("fast", 400, "items/s", bar=2, reference=100, at_least=True).passed
    assert not Row("fast", 100, "items/s", bar=2, reference=100, at_least=True).passed
    assert Row("printed", 4, "bytes").passed


def test_a_missed_bar_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """And it is said in the table."""
    rows = [Row("big", 4, "bytes", bar=3), Row("small", 2, "bytes", bar=3)]
    assert publish(rows, as_json=False) == 1
    out = capsys.readouterr().out
    assert "MISSED" in out
    assert "1 bars missed" in out
    assert publish(rows[1:], as_json=False) == 0
