"""No seeded schedule of leaders, workers and faults breaks a promise; each planted mistake is found."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.proofs.simulate import kept
from tests.proofs.simulate.controls import CONTROLS, Control
from tests.proofs.simulate.kept import Kept
from tests.proofs.simulate.playing import broken_by, play, play_block, real_scripts, shrunk, world
from tests.proofs.simulate.real_scripts import RealScripts
from tests.proofs.simulate.schedule import Schedule, schedule_of
from tests.support.redis_servers import KINDS, server_of
from tests.workqueue.mutants import MUTANTS, planted

SEEDS = 600
BLOCKS = 3
AT_A_DESK = 100
WITHIN = 1000
"""Seeds in which each planted mistake is found; most within 50."""

_NONCE = re.compile(r"(?<=\d{16}-)[\w-]{22}|\b[0-9a-f]{12}(?=[-:])|(?<=people-)[0-9a-f]{16}")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "tests.proofs.simulate", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def test_some_schedules_break_no_promise() -> None:
    """The part that every run of the tests has: a tenth of what CI plays."""
    found, seen = play_block(range(AT_A_DESK))
    assert not found
    assert min(seen[what] for what in ("commit", "turn", "reconciles", "roll back", "lists", "kill")) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_breaks_a_promise(block: int) -> None:
    """Leaders, rollbacks, wipes, 410, resends, crashes, lapses: 600 seeds, the night plays 100,000."""
    size, kind = SEEDS // BLOCKS, KINDS[block % len(KINDS)]
    found, _ = play_block(range(block * size, (block + 1) * size), server=server_of(kind))
    assert not found, f"python -m tests.proofs.simulate --seed {found[0][0]} -v"


@pytest.mark.parametrize("one", kept.load(), ids=lambda one: f"{one.control or 'found'}-{one.seed}")
def test_a_kept_schedule_breaks_no_promise_any_more(one: Kept) -> None:
    """A bug that was fixed stays fixed; with its control planted, the schedule shows the mistake."""
    with world(""):
        assert broken_by(one.schedule) is None
    if one.control:
        with world(one.control):
            violation = broken_by(one.schedule)
        assert violation is not None
        assert violation.promise == one.promise


def test_each_control_has_a_kept_schedule() -> None:
    """So each is shown at once, with any seeds."""
    assert {one.control for one in kept.load()} >= {control.name for control in CONTROLS}


@pytest.mark.night
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_a_planted_mistake_is_found(control: Control) -> None:
    """The schedules are hostile enough, and the checks look; at each change the kept schedules show that."""
    with world(control.name):
        assert any(broken_by(schedule_of(seed)) for seed in range(WITHIN))


@pytest.mark.parametrize("name", ["no dirty flag", "last in, first out", "failure record leaked"])
def test_a_script_that_does_something_else_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts are played, though their specification answers."""
    (mutant,) = [each for each in MUTANTS if each.name == name]
    with world(""), ExitStack() as stack:
        with planted(mutant, monkeypatch):
            real = stack.enter_context(real_scripts(""))
        assert any(_do_otherwise(real, seed) for seed in range(WITHIN))


def _do_otherwise(real: RealScripts | None, seed: int) -> bool:
    violation = broken_by(schedule_of(seed), real=real)
    return violation is not None and violation.promise in {"the scripts answer alike", "the scripts do alike"}


def test_a_failure_shrinks_to_the_actions_that_it_needs() -> None:
    """The remaining actions break the same promise, and none of them can be left out."""
    with world("no dirty"):
        seed, violation = next(
            (seed, found) for seed in range(WITHIN) if (found := broken_by(schedule_of(seed)))
        )
        small = shrunk(schedule_of(seed), violation.promise)
        assert len(small.actions) < len(schedule_of(seed).actions) / 2
        for place in range(len(small.actions)):
            without = broken_by(small.without(place, place + 1))
            assert without is None or without.promise != violation.promise


def test_a_seed_is_the_same_schedule_for_ever() -> None:
    """Neither another process nor another order of hashes changes a step of it."""
    assert Schedule.load(schedule_of(7).dump()) == schedule_of(7)
    lines: list[str] = []
    with world(""):
        play(schedule_of(7), lines.append)
    for hashes in ("1", "2"):
        printed = run("--seed", "7", "-v", PYTHONHASHSEED=hashes).stdout.splitlines()
        assert [_NONCE.sub("*", line) for line in printed[: len(lines)]] == [
            _NONCE.sub("*", line) for line in lines
        ]


def test_the_command_reports_its_findings_in_its_last_lines() -> None:
    """Its exit status is for CI."""
    good = run("--seeds", "20")
    assert (good.returncode, good.stdout.splitlines()[-2:]) == (0, ["violations: 0", "lost: 0"])
    bad = run("--seeds", "5", "--control", "checkpoint before the list")
    assert bad.returncode == 1
    assert "shrunk to" in bad.stdout
    assert int(bad.stdout.splitlines()[-2].removeprefix("violations: ")) > 0
