"""The tables of the pages are the code's."""

import re
import tomllib
from dataclasses import fields

import distq
from distq.cli.options import _DEFAULTS
from distq.cli.program import main
from distq.config import Settings, variable_of
from distq.metrics import METRICS
from distq.redisio import keys
from tests.docs.pages import PAGES, ROOT, table


def plain(*header: str) -> list[list[str]]:
    """Return a table's cells without the code's backquotes."""
    return [[cell.replace("`", "") for cell in row] for row in table(*header)]


def test_the_extras_are_those_of_the_project() -> None:
    """Each extra has its row, and the one that says *all* brings those above it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [row[0] for row in plain("extra", "brings")]
    assert sorted(named) == sorted(extras)
    assert extras["all"] == [f"distq[{','.join(named[: named.index('all')])}]"]


def test_the_settings_are_those_of_the_code() -> None:
    """Variables, flags and defaults, in the code's order."""
    words = dict.fromkeys(
        ("concurrency", "fleet_concurrency", "fleet_concurrency_per_flow"), "the Controller's"
    )
    words["redis_ca_file"] = "the system's"
    assert [row[:3] for row in plain("variable")] == [
        [variable_of(setting.name), f"--{setting.name.replace('_', '-')}", default(setting.name, words)]
        for setting in fields(Settings)
    ]


def default(name: str, words: dict[str, str]) -> str:
    """Return a setting's default as the table writes it; what is not a value in ``words``."""
    value = getattr(Settings(), name)
    if value in {None, ""}:
        return words.get(name) or _DEFAULTS.get(name, "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_metrics_are_those_of_the_code() -> None:
    """Names, types and labels, in the code's order."""
    assert [row[:3] for row in plain("metric")] == [
        [metric.name, metric.kind, ", ".join(metric.labels)] for metric in METRICS
    ]


def test_the_flags_are_taken_by_some_command() -> None:
    """Every flag of the table is an option of a command."""
    options = {flag for command in main.commands.values() for one in command.params for flag in one.opts}
    assert {row[1] for row in plain("variable")} <= options
    assert {"--kubeconfig", "--show-config", "--json", "--acl"} <= options


def test_the_keys_are_those_of_the_layout() -> None:
    """Names and types, in the code's order."""
    layout = re.findall(r"^    (\w+(?::S)?) +(ZSET|HASH|LIST|STREAM)  ", keys.__doc__ or "", re.MULTILINE)
    assert [tuple(row[:2]) for row in plain("key", "type")] == layout
    assert any(keys.queues_key(Settings.prefix) in page.prose for page in PAGES)


def test_the_promises_are_those_of_the_package() -> None:
    """Each promise of the package's docstring has a row, in its words and order, that names a test."""
    rows = table("promise", "how it is kept")
    assert [row[0] for row in rows] == promises()
    assert all("test_" in row[-1] for row in rows)


def promises() -> list[str]:
    """Return the promises of the package's docstring, a line each."""
    numbered = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\n\n)", distq.__doc__ or "", re.MULTILINE | re.DOTALL)
    return [" ".join(text.split()).rstrip(".").replace("``", "`") for text in numbered]


def test_quoted_log_messages_are_in_the_code() -> None:
    """Each message quoted in the table of failures is in the code, apart from its numbers."""
    source = "\n".join(path.read_text() for path in (ROOT / "distq").rglob("*.py"))
    quoted = [text for row in table("what", "what you see") for text in re.findall(r"`([^`]+)`", row[1])]
    messages = [text for text in quoted if not text.startswith("distq ")]
    assert len(messages) >= 10
    for message in messages:
        for part in re.split(r"[\d.]{1,}(?=[ :,]|$)|nothing", message):
            assert part in source, message


def test_the_changelog_knows_this_version() -> None:
    """The version of the package has its section."""
    assert distq.__version__ in (ROOT / "CHANGELOG.md").read_text()
