"""Which test covers which promise of client-go and controller-runtime, and on which servers.

Tests name the promises by the marker ``conformance``.
"""

import contextlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest

from tests.proofs.conformance.promises import SERVERS, Row

TESTS = Path(__file__).parents[2]


@dataclass
class Coverage:
    """The tests of one id, without their parameters, and where they run."""

    tests: set[str] = field(default_factory=set)
    servers: set[str] = field(default_factory=set)

    def lacks(self, row: Row) -> tuple[str, ...]:
        """Return the servers that the row names and no test runs on; "a test" where there is none."""
        if row.kind == "not applicable":
            return ()
        if not self.tests:
            return row.on or ("a test",)
        return tuple(server for server in row.on if server not in self.servers)


class Collector:
    """A plugin of pytest that reads the markers of the tests that it collects."""

    def __init__(self) -> None:
        self.coverage: defaultdict[str, Coverage] = defaultdict(Coverage)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what each test covers; one that is always skipped covers nothing."""
        for item in items:
            if item.get_closest_marker("skip") is not None:
                continue
            for marker in item.iter_markers("conformance"):
                for identity in marker.args:
                    self.coverage[identity].tests.add(item.nodeid.partition("[")[0])
                    self.coverage[identity].servers |= servers_of(item)


def servers_of(item: pytest.Item) -> set[str]:
    """Return the servers that a test runs on: its parameters name them, and the oracle is a directory."""
    callspec: Any = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    servers = {value for value in values if isinstance(value, str) and value in SERVERS}
    return servers | ({"oracle"} if item.nodeid.startswith("tests/proofs/oracle/") else set())


def collect() -> dict[str, Coverage]:
    """Collect the tests that are marked, without running them. Raises ClickException where that fails."""
    marked = [str(path) for path in sorted(TESTS.rglob("test_*.py")) if "conformance(" in path.read_text()]
    collector, printed = Collector(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", *marked], [collector])
    if status != pytest.ExitCode.OK:
        raise click.ClickException(f"the suite cannot be collected:\n{printed.getvalue()}")
    return collector.coverage


def uncovered(rows: Mapping[str, Row], coverage: Mapping[str, Coverage]) -> dict[str, tuple[str, ...]]:
    """Return what each id lacks that lacks anything."""
    lacks = {identity: coverage.get(identity, Coverage()).lacks(row) for identity, row in rows.items()}
    return {identity: servers for identity, servers in lacks.items() if servers}


def unknown(rows: Mapping[str, Row], coverage: Mapping[str, Coverage]) -> list[str]:
    """Return the ids on tests that no row knows."""
    return sorted(identity for identity in coverage if identity not in rows)


def line(row: Row, coverage: Coverage) -> str:
    """Return the row of the table for people."""
    if row.kind == "not applicable":
        return f"{row.id:6} not applicable: {row.why} ({row.rule})"
    rule = row.rule if row.kind == "same" else f"different: {row.rule}"
    servers = " ".join(on(coverage)) or ("no server needed" if coverage.tests else "nowhere")
    return f"{row.id:6} {rule} | {servers} | {', '.join(sorted(coverage.tests)) or 'no test'}"


def record(row: Row, coverage: Coverage) -> str:
    """Return the row as an object in JSON."""
    found = {"tests": sorted(coverage.tests), "servers": on(coverage), "lacks": coverage.lacks(row)}
    return json.dumps(asdict(row) | found)


def on(coverage: Coverage) -> list[str]:
    """Return the servers in their usual order."""
    return [server for server in SERVERS if server in coverage.servers]


def summary(rows: Mapping[str, Row], coverage: Mapping[str, Coverage]) -> Iterator[str]:
    """Say how many ids there are, how many are covered where, and what is wrong."""
    kinds = Counter(row.kind for row in rows.values())
    servers = Counter(server for identity in rows for server in on(coverage.get(identity, Coverage())))
    yield f"{len(rows)} ids: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    yield "covered on " + ", ".join(f"{server}: {servers[server]}" for server in SERVERS)
    for identity in unknown(rows, coverage):
        yield f"unknown {identity}: {', '.join(sorted(coverage[identity].tests))}"
    for identity, lacks in uncovered(rows, coverage).items():
        yield f"uncovered {identity}: no test on {', '.join(lacks)}"
