"""What a fault that failed leaves for its report: the timelines of keys, and what processes logged."""

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.proofs.nemesis.stage import Stage

KEYS, LINES = 3, 12
"""Of how many keys there is a timeline, and how many of the last lines of each, and of each log."""

_TROUBLE = re.compile(
    r"^(?!.*one of those that fail).*(error|warning|lost|restored|resumed|listed|lead)", re.I
)


def evidence(stage: "Stage", keys: Collection[str]) -> list[str]:
    """Return lines: what became of some of these keys, and what each process reported."""
    found = [line for key in list(keys)[:KEYS] for line in list(story(stage, key))[-LINES:]]
    for process in stage.fleet.every_process():
        lines = [line for line in process.log().splitlines() if _TROUBLE.match(line)]
        found += [f"{process.folder.name}: {line:.300}" for line in lines[-LINES:]]
    return found


def story(stage: "Stage", key: str) -> Iterator[str]:
    """Yield what was asked of a key and what ran, in that order, by seconds from the end of the fault."""
    happened = [
        (add.asked, f"added, acknowledged after {add.answered - add.asked:.2f} s")
        for add in stage.adds()
        if add.key == key
    ]
    happened += [
        (change.asked, f"became {change.state}") for change in stage.gardener.changes() if change.key == key
    ]
    for run in stage.fleet.reconciles():
        if run.key == key:
            lasted = "never ended" if run.ended is None else f"{run.ended - run.began:.2f} s"
            kept = "kept" if run.kept else "failed, cancelled or killed"
            seen = f", saw {run.seen}" if run.seen else ""
            happened.append((run.began, f"ran in {run.process}, fence {run.fence}, {lasted}, {kept}{seen}"))
    for at, what in sorted(happened):
        yield f"{key} {at - stage.healed_from:+.2f} s: {what}"
