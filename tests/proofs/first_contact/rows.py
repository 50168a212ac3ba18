"""What a user does at first contact, what they see, and which tests show it.

Tests name the rows by the marker ``first_contact``, wherever they live.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

ROWS = {
    1: (
        "shuts a queue down in a signal's handler, wherever the program is",
        "`listen` and `get` end",
    ),
    2: (
        "drains a queue while a claim is on its way",
        "after True nothing of the handle begins",
    ),
    3: (
        "repeats `add_rate_limited` after RedisUnavailable",
        "one failure more, not two",
    ),
    4: (
        "delays items until the same millisecond, or settles what was not added again",
        "client-go's order and counts, or the difference in the documentation",
    ),
    5: (
        "gives a delay, a setting or an argument that makes no sense",
        "a typed error with the remedy; nothing changed",
    ),
    6: (
        "calls `sys.exit` in a reconcile",
        "a failure of that item; the worker goes on",
    ),
    7: (
        "changes an object whose item was dead",
        "the item without the reason for which it had been dead",
    ),
    8: (
        "points two programs at one queue, or two installations at one Redis",
        "a refusal that names both, or two key prefixes that never meet",
    ),
    9: (
        "writes a reconcile that fails",
        "file, line and traceback in the log, in `distq items` and on the dashboard",
    ),
    10: (
        "runs a plain program without a Redis or a cluster",
        "a few lines, of which the last has cause and remedy",
    ),
    11: (
        "has no API server, a wrong token, or no right to what is watched",
        "what fails, since when, and what would help, again and again",
    ),
    12: (
        "asks who leads after the leader has gone",
        "that it has gone, and since when; `resync --wait` follows a resync to its end",
    ),
    13: (
        "watches a worker that waits, and one that works",
        "what it waits for; counts that move; times as people write them",
    ),
    14: (
        "gives a wrong address, database or password of Redis",
        "what is wrong, by its name",
    ),
    15: (
        "closes the window of a demo or a sandbox, or kills it",
        "nothing left running; after Ctrl-C, what was stopped",
    ),
    16: (
        "pastes the documentation's commands into a sandbox's shell",
        "a marked prompt, the programs of the virtualenv, and each command at work",
    ),
    17: (
        "presses Tab, asks for help, reads tables in a narrow terminal",
        "commands, names and states; the command's own options; lines that fit",
    ),
    18: (
        "installs on Python 3.10 or older",
        "within seconds, that it is too old",
    ),
    19: (
        "tests a controller, plain or async, that fails",
        "its own error at once, with its traceback",
    ),
    20: (
        "begins a controller of their own, and changes it while it runs",
        "files that work at once, a reload, and a sandbox as a fixture",
    ),
    21: (
        "runs the README's test command under nohup, beside a load, on any Python from 3.11",
        "green; what was left out, and why",
    ),
    22: (
        "makes a Controller that cannot work",
        "file and line of the Controller, before the cause and the remedy",
    ),
    23: (
        "mistypes a target, a resource, an option, an argument or a setting",
        "the name that was probably meant",
    ),
    24: (
        "misses an extra",
        "the command that adds it to the distq that is installed: a clone, a wheel, or from an index",
    ),
}
"""By number: what a user does, what they see."""


@dataclass
class Outcome:
    """What became of the tests of one row."""

    passed: int = 0
    failed: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Return whether a test has shown it, and none the contrary."""
        return bool(self.passed) and not self.failed


class Collector:
    """A plugin of pytest that reads the markers of the tests that it collects."""

    def __init__(self) -> None:
        self.tests: defaultdict[int, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which tests, each with its parameters, show which row."""
        for item in items:
            for marker in item.iter_markers("first_contact"):
                for number in marker.args:
                    self.tests[number].add(item.nodeid)


class Results:
    """A plugin of pytest that notes which tests passed and which failed, in all processes."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a result; one that fails as it is set up or cleaned up has failed."""
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def files() -> list[str]:
    """Return the files that have the marker."""
    return [str(path) for path in sorted(TESTS.rglob("test_*.py")) if "first_contact(" in path.read_text()]


def collect() -> dict[int, set[str]]:
    """Return the tests of each row, without running them. Raises RuntimeError where that fails."""
    collector = Collector()
    status = pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", *files()], [collector])
    if status != pytest.ExitCode.OK:
        raise RuntimeError("the tests of the first contact cannot be collected")
    return collector.tests


def outcomes(tests: Mapping[int, set[str]], results: Results) -> dict[int, Outcome]:
    """Return what became of each row."""
    return {
        number: Outcome(
            len(tests.get(number, set()) & (results.passed - results.failed)),
            tuple(sorted(tests.get(number, set()) & results.failed)),
        )
        for number in ROWS
    }


def lines(tests: Mapping[int, set[str]], found: Mapping[int, Outcome]) -> Iterator[str]:
    """Say of each row what a user does and sees, then what is wrong with it, and last how many are wrong."""
    for number, (does, sees) in ROWS.items():
        yield f"{number:>2}  {does}: {sees} | {_verdict(tests.get(number, set()), found[number])}"
        yield from (f"    failed: {test}" for test in found[number].failed)
    unknown = sorted(tests.keys() - ROWS.keys())
    yield from (f"{number:>2}  no such row: {', '.join(sorted(tests[number]))}" for number in unknown)
    yield f"wrong: {wrong(tests, found)}"


def wrong(tests: Mapping[int, set[str]], found: Mapping[int, Outcome]) -> int:
    """Return how many rows are not right, or do not exist."""
    return sum(not outcome.is_right for outcome in found.values()) + len(tests.keys() - ROWS.keys())


def _verdict(tests: set[str], outcome: Outcome) -> str:
    if not tests:
        return "NO TEST"
    if outcome.failed:
        return f"WRONG, {len(outcome.failed)} of {len(tests)} tests failed"
    if not outcome.passed:
        return f"NOT SEEN, {len(tests)} tests were left out"
    return f"right, {outcome.passed} tests"
