"""``docs/reference/cli.md`` has every command, with its own words, options and JSON fields."""

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from distq.cli import options
from distq.cli.program import main
from distq.inspector import AuditEntry, FlowInfo, ItemInfo, QueueInfo, StreamInfo, TraceEvent, WorkerInfo

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
GROUPS = {"Redis": options.REDIS, "logs": options.LOGS, "lease": options.LEASE, "work": options.WORK}
GROUPS["HTTP"] = options.HTTP
SHARED = {name for group in GROUPS.values() for name in group} | {"as_json", "verbose", "show_config"}
RECORDS: dict[str, list[type]] = {
    "queues": [QueueInfo, FlowInfo],
    "items": [ItemInfo],
    "workers": [WorkerInfo],
    "leader": [StreamInfo],
}
RECORDS |= {"trace": [TraceEvent], "audit": [AuditEntry]}


def section(command: str) -> str:
    """Return what the page says of a command."""
    return PAGE[PAGE.index(f"\n### `distq {command}") :].partition("\n## ")[0][1:].partition("\n### ")[0]


def own_options(command: click.Command) -> list[click.Option]:
    """Return the options that are the command's, besides the settings and what goes with them."""
    taken = [one for one in command.params if isinstance(one, click.Option)]
    has_settings = any(one.name == "show_config" for one in taken)
    return [one for one in taken if not (has_settings and one.name in SHARED)]


def row_of(option: click.Option, context: click.Context) -> str:
    """Return how the option's row begins: its name with what it takes, and its default."""
    metavar = re.sub(r"(?:INTEGER|FLOAT)(?: RANGE)?", "NUMBER", option.make_metavar(context))
    takes = "" if option.is_flag else " " + metavar.replace("|", r"\|")
    default = str(option.default) if option.show_default else ""
    return f"| `{'`, `'.join(option.opts)}{takes}` | {default} ".replace("|  ", "| ")


@pytest.mark.parametrize("name", main.commands)
def test_each_command_is_there_in_its_own_words(name: str) -> None:
    """Its arguments, the text of its help, and a row for each option of its own."""
    command = main.commands[name]
    context = click.Context(command, info_name=name)
    arguments = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
    written = section(name)
    assert written.startswith(f"### `{' '.join(['distq', name, *arguments])}`\n")
    assert (command.help or "").partition("\n")[0] in written
    rows = [row_of(option, context) for option in own_options(command)]
    assert re.findall(r"^(\| `-.* \| .*?)\| [^|]+ \|$", written, re.MULTILINE) == rows, "\n".join(rows)


def test_no_other_command_is_there() -> None:
    """The page names no command that went."""
    assert re.findall(r"^### `distq (\w+)", PAGE, re.MULTILINE) == list(main.commands)


def test_the_help_lists_the_commands_as_the_page_does() -> None:
    """Below the same titles, each with a sentence that is not cut."""
    help_text = CliRunner().invoke(main, ["--help"], terminal_width=200).output
    titles = re.findall(r"^(.+):\n((?:  .+\n)+)", help_text.partition("Options:")[2], re.MULTILINE)
    on_the_page = re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE)[1:]
    assert [(title, re.findall(r"^  (\w+)", rows, re.MULTILINE)) for title, rows in titles] == [
        (title, re.findall(r"^### `distq (\w+)", text, re.MULTILINE)) for title, text in on_the_page
    ]
    assert "..." not in help_text.partition(titles[0][0])[2]


def test_the_groups_of_settings_are_those_of_the_commands() -> None:
    """A row for each group, and in it the commands that take it."""
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
    takes = {
        group: [
            f"`{name}`"
            for name, command in main.commands.items()
            if set(names) <= {one.name for one in command.params}
        ]
        for group, names in GROUPS.items()
    }
    every = [name for name in takes["Redis"] if name in takes["logs"]]
    words = {group: "all of these" if names == every else ", ".join(names) for group, names in takes.items()}
    assert [tuple(row) for row in rows if row[0] in GROUPS] == list(words.items())


@pytest.mark.parametrize("name", RECORDS)
def test_the_json_fields_are_those_of_the_records(name: str) -> None:
    """A row for each field, in the records' order."""
    named = re.findall(r"^\| `(\w+)` \|", section(name), re.MULTILINE)
    assert named == [field.name for record in RECORDS[name] for field in fields(record)]
