"""The README's tables are the code's, its links lead somewhere, and the tests that it names exist."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import distq
from distq.cli.options import _DEFAULTS
from distq.cli.program import main
from distq.config import Settings
from distq.metrics import METRICS
from distq.redisio import keys
from tests import ROOT
from tests.documentation.test_readme import README

PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins so, without the code's backquotes."""
    table = README[README.index(f"\n| {header} |") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in table[2:]]


def test_the_settings_are_those_of_the_code() -> None:
    """Variables, flags and defaults, in the code's order."""
    words = dict.fromkeys(("concurrency", "fleet_concurrency"), "the Controller's")
    words["redis_ca_file"] = "the system's"
    assert [row[:3] for row in rows("variable")] == [
        [setting.metadata["variable"], f"--{setting.name.replace('_', '-')}", default(setting.name, words)]
        for setting in fields(Settings)
    ]


def default(name: str, words: dict[str, str]) -> str:
    """Return a setting's default as the README writes it; what is not a value in ``words``."""
    value = getattr(Settings(), name)
    if value in {None, ""}:
        return words.get(name) or _DEFAULTS.get(name, "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_metrics_are_those_of_the_code() -> None:
    """Names, types and labels, in the code's order."""
    assert [row[:3] for row in rows("metric")] == [
        [metric.name, metric.kind, ", ".join(metric.labels)] for metric in METRICS
    ]


def test_the_flags_are_taken_by_some_command() -> None:
    """Every flag of the table is an option of a command."""
    options = {flag for command in main.commands.values() for one in command.params for flag in one.opts}
    assert {row[1] for row in rows("variable")} <= options
    assert {"--kubeconfig", "--show-config", "--json", "--acl"} <= options


def test_the_keys_are_those_of_the_layout() -> None:
    """Names and types, in the code's order."""
    layout = re.findall(r"^    (\w+(?::S)?) +(ZSET|HASH|LIST)  ", keys.__doc__ or "", re.MULTILINE)
    assert [tuple(row[:2]) for row in rows("key")] == layout
    assert keys.QUEUES in README


def test_the_promises_are_those_of_the_package() -> None:
    """Each promise of the package's docstring has a row, in its words and order."""
    numbered = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\n\n)", distq.__doc__ or "", re.MULTILINE | re.DOTALL)
    promised = [" ".join(text.split()).rstrip(".").replace("``", "`") for text in numbered]
    table = README[README.index("\n| promise |") :].partition("\n\n")[0].splitlines()[3:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table] == promised
    assert all("test_" in line for line in table)


def links() -> Iterator[tuple[str, str]]:
    """Yield text and target of each link into the tree."""
    for text, target in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", PROSE):
        if "://" not in target:
            yield text.strip("`"), target


@pytest.mark.parametrize(("text", "target"), list(links()))
def test_a_link_leads_to_what_it_names(text: str, target: str) -> None:
    """The file is there, and holds the test that the link names."""
    path = ROOT / target
    assert path.exists()
    if text.startswith("test_"):
        assert re.search(rf"def {text}\(", path.read_text())


def test_paths_and_commands_in_the_text_exist() -> None:
    """What is written as a path or a command of distq is one."""
    for path in re.findall(r"`((?:distq|tests|workers|lua)/[\w/.]+)`", PROSE):
        assert any((base / path).exists() for base in (ROOT, ROOT / "distq" / "redisio"))
    for command in re.findall(r"`distq (\w+)", PROSE):
        assert command in main.commands


def test_what_logs_are_said_to_say_is_said() -> None:
    """Each message quoted in the table of failures is in the code, apart from its numbers."""
    source = "\n".join(path.read_text() for path in (ROOT / "distq").rglob("*.py"))
    table = README[README.index("\n| what |") :].partition("\n\n")[0].splitlines()[3:]
    quoted = [text for line in table for text in re.findall(r"`([^`]+)`", line.split("|")[2])]
    messages = [text for text in quoted if not text.startswith("distq ")]
    assert len(messages) >= 10
    for message in messages:
        for part in re.split(r"[\d.]{1,}(?=[ :,]|$)|nothing", message):
            assert part in source, message


def test_public_names_in_the_text_exist() -> None:
    """The names that the text calls client-go's are there, and no other extras than the package's."""
    from distq import informer, workqueue

    same = README[README.index("**Same**") :].partition("\n\n")[0]
    for name in re.findall(r"`(\w+)`", same.partition("From controller-runtime")[0]):
        homes = (distq.Queue, workqueue, Settings, informer)
        known = name in {"distq", "informer", "LeaderElector"}
        assert known or any(hasattr(home, name) for home in homes), name
    for name in re.findall(r"`(\w+)`", same.partition("From controller-runtime")[2]):
        assert hasattr(distq, name), name


def test_the_changelog_knows_this_version() -> None:
    """The version of the package has its section."""
    assert distq.__version__ in Path(ROOT, "CHANGELOG.md").read_text()
