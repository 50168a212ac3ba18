"""The demo keeps its promises, and its own check would see it if it did not."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from distq.cli.demo import next_steps
from distq.cli.demo.display import HEADERS
from distq.cli.demo.journal import Entry, Journal, count_overlaps, read_journal
from distq.cli.demo.performance import Verdict
from distq.cli.program import main
from tests import ROOT
from tests.cli.conftest import CommandLine
from tests.dashboard.terminal import screen
from tests.proofs.first_contact.conftest import Window

GOOD = {"lost": 0, "overlaps": 0, "left_over": 0, "leader_changes": 1, "lists_by_new_leader": 0}

SHOW = """
from distq.cli.demo.display import Row, open_display
with open_display(as_json=False) as display:
    display.row(Row(2.4, "informer-1", 7, 0, 24, 0, 11.2, 5))
    display.event(4.5, "informer-1 killed")
    display.row(Row(14.9, "-", 0, 1, 0, 0, 124, 0))
print("nothing lost")
"""


@pytest.mark.slow  # a desk sees the demo of the quickstart, with both kills and its verdict: tests/docs
@pytest.mark.timeout(240)
def test_nothing_is_lost_though_leader_and_worker_are_killed(distq: CommandLine) -> None:
    """A small run: exit 0, the last line is the summary, and both kills are reported."""
    done = distq("demo", "--objects", "60", "--duration", "10", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[-1] == {"objects": 60, "reconciled": 60, **GOOD}
    events = [line["event"] for line in lines if "event" in line]
    assert "informer-1 killed" in events
    assert any(event.startswith("informer-2 resumed at version") for event in events)
    assert any(event.startswith("worker-1 killed in the middle of") for event in events)


def test_the_next_steps_that_it_prints_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line names a command of distq or a page; without distq on the path the first names the remedy."""
    monkeypatch.setenv("PATH", "")
    remedy, heading, *lines = next_steps()
    assert remedy.endswith("/bin/activate")
    assert heading == "# next:"
    for line in lines:
        first, second = line.removeprefix("#").split()[:2]
        assert second in main.commands if first == "distq" else (ROOT / first).is_file()


@pytest.mark.slow  # a desk sees Ctrl-C in a window: tests/proofs/first_contact/test_endings.py
def test_a_demo_that_is_asked_to_end_leaves_no_process_behind(distq: CommandLine, tmp_path: Path) -> None:
    """A user who ends it by SIGTERM finds nothing running and no files afterwards."""
    process = distq.start("demo", "--duration", "60", "--json", TMPDIR=str(tmp_path))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["leader"]
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in said
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if _mentions(path, tmp_path)]
    assert not list(tmp_path.iterdir())


def test_at_a_terminal_the_table_stays_in_place(tmp_path: Path) -> None:
    """At the end each row appears once, below all events, in columns."""
    window = Window([sys.executable, "-c", SHOW], tmp_path, os.environ | {"TERM": "xterm"})
    assert window.wait() == 0
    window.close()
    lines = screen(window.raw)
    header = lines.pop(1)
    assert header.startswith("\x1b[1m")
    assert re.sub(r"\x1b\[.m", "", header).split() == [*HEADERS]
    assert [line.rstrip() for line in lines] == [
        " 4 s  informer-1 killed",
        " 2 s  informer-1      7        0          24      0      11         5",
        "15 s  -               0        1           0      0     124         0",
        "nothing lost",
        "",
    ]


def _mentions(environment: Path, folder: Path) -> bool:
    try:
        return f"TMPDIR={folder}".encode() in environment.read_bytes()
    except OSError:
        return False


def test_anything_amiss_makes_the_verdict_bad() -> None:
    """One lost, overlapping or left over, a list too many, or no change of leader: exit 1."""
    assert Verdict(objects=1, reconciled=1, **GOOD).good
    for name in GOOD:
        bad = GOOD | {name: 0 if name == "leader_changes" else 1}
        assert not Verdict(objects=1, reconciled=1, **bad).good


def test_overlaps_are_counted() -> None:
    """Two of one key at a time are one overlap; one after the other, or of other keys, none."""
    assert count_overlaps([Entry("a", 1, 2), Entry("a", 2, 3), Entry("b", 1, 3)]) == 0
    assert count_overlaps([Entry("a", 1, 3), Entry("a", 2, 4)]) == 1
    assert count_overlaps([Entry("a", 5, 6), Entry("a", 1, 10), Entry("a", 7, 8)]) == 2
    assert count_overlaps([Entry("a", 1, None), Entry("a", 50, 51)]) == 1


def test_a_journal_records_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is open until its reconcile ends; a torn last line does not count."""
    import os

    monkeypatch.chdir(tmp_path)
    journal = Journal()
    with journal.entry("a") as entry:
        (running,) = read_journal(tmp_path, os.getpid())
        assert (running.key, running.end) == ("a", None)
        entry.gone = True
    with pytest.raises(ValueError, match="no"), journal.entry("b"):
        raise ValueError("no")
    with (tmp_path / f"journal-{os.getpid()}").open("a") as file:
        file.write('{"number": 2, "ke')
    first, second = read_journal(tmp_path, os.getpid())
    assert (first.gone, first.failed, second.failed) == (True, False, True)
    assert first.end is not None
    assert first.start <= first.end <= second.start
