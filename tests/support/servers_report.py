"""Says at the end which suites ran on which real servers, so that nobody takes a skipped one for tested."""

import re
from collections import Counter
from pathlib import PurePosixPath

import pytest

from tests.support.redis_servers import KINDS

SERVERS = (*KINDS, "emulator", "real")
_NO_SERVER = "other"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests of each suite passed on each server."""
    passed = Counter(
        place for report in terminalreporter.stats.get("passed", []) for place in _places(report.nodeid)
    )
    if not passed:
        return
    columns = (*SERVERS, _NO_SERVER)
    suites = sorted({suite for suite, _ in passed})
    terminalreporter.section("passed, by suite and server")
    _line(terminalreporter, "", *columns)
    for suite in suites:
        _line(terminalreporter, suite, *(passed[suite, column] or "-" for column in columns))
    totals = [sum(passed[suite, column] for suite in suites) for column in columns]
    _line(terminalreporter, "all", *totals)


def _places(nodeid: str) -> list[tuple[str, str]]:
    """Return suite and server of a test, several where it uses several: they are in its parameters."""
    path, _, test = nodeid.partition("::")
    parameters = re.split(r"[\[\]-]", test)[1:]
    suite = PurePosixPath(path).parts[1].removesuffix(".py")
    return [(suite, server) for server in SERVERS if server in parameters] or [(suite, _NO_SERVER)]


def _line(terminalreporter: pytest.TerminalReporter, suite: str, *cells: object) -> None:
    terminalreporter.write_line(f"{suite:<22}" + "".join(f"{cell:>10}" for cell in cells))
