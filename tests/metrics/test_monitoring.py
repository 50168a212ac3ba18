"""The rules and the board of deploy/monitoring: what they name exists, and each rule fires when it should."""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from distq.metrics import METRICS
from tests import ROOT
from tests.support.parts import program

MONITORING = ROOT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"][0]["rules"]
BOARD: dict[str, Any] = json.loads((MONITORING / "board.json").read_text())
PAGE = (ROOT / "docs" / "operations" / "alerts.md").read_text()
SECTIONS = re.findall(r"^## (\w+)$", PAGE, re.M)
LABELS = {metric.name: {*metric.labels} for metric in METRICS if metric.kind != "histogram"}
LABELS |= {
    f"{m.name}_{end}": {*m.labels, "le"} for m in METRICS if m.kind == "histogram" for end in ("bucket",)
}

BY_POD = 'leader_election_master_status{name="foos",pod="%s"}'
FLOW = 'distq_flow_%s{name="foos",flow="%s"}'
STREAM = '{name="foos",resource="v1/Pod"}'
ERRORS = 'controller_runtime_reconcile_errors_total{controller="foos"}'
RECONCILES = 'controller_runtime_reconcile_total{controller="foos",result="%s"}'
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "DistqNobodyLeads": (
        {BY_POD % "a": "0x200", BY_POD % "b": "0x200"},
        {BY_POD % "a": "0x200", BY_POD % "b": "1x200"},
    ),
    "DistqTwoLead": (
        {BY_POD % "a": "1x200", BY_POD % "b": "1x200"},
        {BY_POD % "a": "1x200", BY_POD % "b": "0x200"},
    ),
    "DistqNoInformer": ({'distq_workers{name="foos"}': "1x200"}, {BY_POD % "a": "0x200"}),
    "DistqNobodyWorks": ({'distq_workers{name="foos"}': "0x200"}, {'distq_workers{name="foos"}': "1x200"}),
    "DistqItemsWait": (
        {'distq_oldest_ready_seconds{name="foos"}': "0+60x200", 'distq_paused{name="foos"}': "0x200"},
        {'distq_oldest_ready_seconds{name="foos"}': "0+60x200", 'distq_paused{name="foos"}': "1x200"},
    ),
    "DistqOneFlowWaits": (
        {
            FLOW % ("ready", "prod"): "5000x200",
            FLOW % ("ready", "dev"): "3x200",
            FLOW % ("oldest_ready_seconds", "prod"): "0+60x200",
            FLOW % ("oldest_ready_seconds", "dev"): "0+60x200",
        },
        {
            FLOW % ("ready", "prod"): "5000x200",
            FLOW % ("ready", "dev"): "3x200",
            FLOW % ("oldest_ready_seconds", "prod"): "0+60x200",
            FLOW % ("oldest_ready_seconds", "dev"): "2x200",
        },
    ),
    "DistqReconcileHangs": (
        {'workqueue_longest_running_processor_seconds{name="foos",controller="foos"}': "0+60x200"},
        {'workqueue_longest_running_processor_seconds{name="foos",controller="foos"}': "60x200"},
    ),
    "DistqReconcilesFail": (
        {ERRORS: "0+6x200", RECONCILES % "error": "0+6x200", RECONCILES % "success": "0+4x200"},
        {ERRORS: "0+4x200", RECONCILES % "error": "0+4x200", RECONCILES % "success": "0+6x200"},
    ),
    "DistqItemsFail": (
        {'distq_failing{name="foos"}': "5x200", 'distq_dead{name="foos"}': "3x200"},
        {'distq_failing{name="foos"}': "5x110 3x90", 'distq_dead{name="foos"}': "3x200"},
    ),
    "DistqItemsDead": ({'distq_dead{name="foos"}': "3x200"}, {'distq_dead{name="foos"}': "0x200"}),
    "DistqItemsUnreadable": (
        {'distq_unreadable_items_total{name="foos"}': "0x100 1x100"},
        {'distq_unreadable_items_total{name="foos"}': "7x200"},
    ),
    "DistqStreamLate": (
        {f"distq_stream_lag_seconds{STREAM}": "45x200"},
        {f"distq_stream_lag_seconds{STREAM}": "2x200"},
    ),
    "DistqStreamSilent": (
        {f"distq_stream_commits_total{STREAM}": "500x200"},
        {f"distq_stream_commits_total{STREAM}": "0+60x200"},
    ),
    "DistqStreamNotSynced": (
        {f"distq_stream_synced{STREAM}": "0x200"},
        {f"distq_stream_synced{STREAM}": "1x200"},
    ),
    "DistqWatchFunctionsFail": (
        {f"distq_stream_failures_total{STREAM}": "0x145 1x50"},
        {f"distq_stream_failures_total{STREAM}": "5x200"},
    ),
    "DistqWorkDoneTwice": (
        {'distq_settlements_refused_total{name="foos"}': "0x145 1x50"},
        {'distq_settlements_refused_total{name="foos"}': "5x200"},
    ),
    "DistqClaimsLost": (
        {'distq_claims_cancelled_total{name="foos"}': "0x145 1x50"},
        {'distq_claims_cancelled_total{name="foos"}': "5x200"},
    ),
    "DistqPausedForLong": (
        {'distq_paused{name="foos"}': "1x200"},
        {'distq_paused{name="foos"}': "0x40 1x200"},
    ),
    "DistqRedisAway": ({'distq_redis_up{name="foos"}': "0x200"}, {'distq_redis_up{name="foos"}': "1x200"}),
    "DistqEventsDropped": (
        {'distq_events_dropped_total{reason="refused"}': "0x145 1x50"},
        {'distq_events_dropped_total{reason="filtered"}': "0+9x200"},
    ),
}
"""For each alert what is scraped each minute where it fires, and where it does not."""

LOOK = "150m"
"""When it is looked whether an alert fires, after the first scrape."""


def expressions() -> Iterator[str]:
    """Yield each expression of the rules, and of the board with its variables set."""
    yield from (rule["expr"] for rule in RULES)
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$queue", ".*").replace("$__rate_interval", "5m")


def promtool(*words: str | Path) -> None:
    """Let promtool check something."""
    done = subprocess.run(
        [program("promtool", package="prometheus"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_metrics_of_the_boards_exist() -> None:
    """Each metric is one of distq's, and is selected and added up by labels that it has."""
    for expression in expressions():
        names = set(re.findall(r"\b(?:workqueue|controller_runtime|leader_election|distq)_\w+", expression))
        assert names, expression
        assert names <= LABELS.keys(), expression
        grouped = re.findall(r"\b(?:by|on) \(([\w, ]*)\)", expression)
        used = {label for labels in grouped for label in labels.split(", ")}
        used |= set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression))
        assert used <= set.union(*(LABELS[name] for name in names)), expression


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    """An operator finds what it means and what to do, by the address in the alert."""
    assert [rule["alert"] for rule in RULES] == SECTIONS
    for rule in RULES:
        address = f"docs/operations/alerts.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == address
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


@pytest.mark.parametrize("alert", SECTIONS)
def test_an_alert_fires_when_it_should_and_only_then(alert: str, tmp_path: Path) -> None:
    """Prometheus' own evaluator is asked, with what would be scraped."""
    tests = []
    for series, samples in zip(CASES[alert], ([{"labels": "{}", "value": 1}], []), strict=True):
        asked = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [{"expr": asked, "eval_time": LOOK, "exp_samples": samples}],
            }
        )
    rules = [rule for rule in RULES if rule["alert"] == alert]  # evaluating the others is most of the time
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": alert, "rules": rules}]}))
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    promtool("test", "rules", file)


def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    """Those of the board as well, as rules that record them."""
    rules = [{"record": f"a:{place}", "expr": text} for place, text in enumerate(expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    promtool("check", "rules", file)
    promtool("check", "rules", MONITORING / "rules.yaml")


def test_the_boards_panels_are_beside_each_other() -> None:
    """None covers another, each says what it shows, and each asks the chosen Prometheus."""
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    for panel in panels:
        assert panel["title"]
        assert panel["type"] == "row" or (
            panel["description"] and panel["datasource"]["uid"] == "${datasource}"
        )
