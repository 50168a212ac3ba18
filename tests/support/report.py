"""Says at the end which suites ran on which real servers, and what was left out and why.

What was skipped must not look tested, nor have a line for each such test.
"""

import re
from collections import Counter
from itertools import chain
from pathlib import PurePosixPath

import pytest

from tests.support.parts import IN_CI
from tests.support.redis_servers import KINDS
from tests.support.runs import runs_on_one_server

SERVERS = (*KINDS, "emulator", "real")
_NO_SERVER = "other"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests of each suite passed on each server, and a line for each reason to skip some."""
    passed, skipped = (terminalreporter.stats.get(outcome, []) for outcome in ("passed", "skipped"))
    if passed:
        terminalreporter.section("passed, by suite and server")
        _print_table(terminalreporter, Counter(chain.from_iterable(_places(each.nodeid) for each in passed)))
    if skipped:
        terminalreporter.section("skipped")
        for reason, count in Counter(map(_reason, skipped)).most_common():
            terminalreporter.write_line(f"{count:>5}  {reason}")
    if runs_on_one_server(terminalreporter.config):
        terminalreporter.section("servers")
        terminalreporter.write_line(
            "each test ran on one kind of Redis, and most on the emulated API server: --every-server runs all"
        )
    if not IN_CI and any("random" in report.keywords for report in passed):
        terminalreporter.section("random")
        terminalreporter.write_line("drew little: CI takes 5,000 steps a server")


def _print_table(terminalreporter: pytest.TerminalReporter, passed: Counter[tuple[str, str]]) -> None:
    columns = (*SERVERS, _NO_SERVER)
    suites = sorted({suite for suite, _ in passed})
    _line(terminalreporter, "", *columns)
    for suite in suites:
        _line(terminalreporter, suite, *(passed[suite, column] or "-" for column in columns))
    totals = [sum(passed[suite, column] for suite in suites) for column in columns]
    _line(terminalreporter, "all", *totals)


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    assert isinstance(report.longrepr, tuple)
    return report.longrepr[2].removeprefix("Skipped: ")


def _places(nodeid: str) -> list[tuple[str, str]]:
    """Return suite and server of a test, several where it uses several: they are in its parameters."""
    path, _, test = nodeid.partition("::")
    parameters = re.split(r"[\[\]-]", test)[1:]
    suite = "/".join(PurePosixPath(path).parts[1:-1])
    return [(suite, server) for server in SERVERS if server in parameters] or [(suite, _NO_SERVER)]


def _line(terminalreporter: pytest.TerminalReporter, suite: str, *cells: object) -> None:
    terminalreporter.write_line(f"{suite:<22}" + "".join(f"{cell:>10}" for cell in cells))
