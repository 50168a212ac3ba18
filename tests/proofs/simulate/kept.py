"""Schedules that once broke a promise, or that show a planted mistake: each is played by every run."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.proofs.simulate.schedule import Schedule

FILE = Path(__file__).with_name("kept.jsonl")


@dataclass(frozen=True)
class Kept:
    """A schedule, from which seed it comes, which promise it broke, and by which control, "" for none."""

    seed: int
    promise: str
    control: str
    schedule: Schedule


def load() -> list[Kept]:
    """Read the file."""
    lines = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [
        Kept(line["seed"], line["promise"], line["control"], Schedule.load(json.dumps(line["schedule"])))
        for line in lines
    ]


def keep(kept: Kept) -> None:
    """Add a line to the file."""
    fields = {"seed": kept.seed, "promise": kept.promise, "control": kept.control}
    with FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**fields, "schedule": json.loads(kept.schedule.dump())}) + "\n")
