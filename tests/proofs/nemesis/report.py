"""A row for each fault: what it cost, and whether that was allowed."""

import platform
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from os import cpu_count, getloadavg
from pathlib import Path
from typing import Any, Self

from distq.wording import duration
from tests import ROOT
from tests.proofs.nemesis.catalogue import Fault, faults
from tests.proofs.nemesis.redelivery import CLAIM_DURATION, Redelivery

PAGE = ROOT / "docs" / "promises.md"
HEADER = "| fault | what is done | required | Redis | lost | zombies | overlap | healed after | trace |"
UNTRACED = "left out"
NEVER = "not yet run"


@dataclass
class Row:
    """What one fault did; ``forgotten`` adds are those that Redis may forget, the others are ``lost``."""

    fault: str
    what: str
    required: str
    server: str
    api: str
    adds: int = 0
    reconciles: int = 0
    lost: int = 0
    forgotten: int = 0
    zombies: int = 0
    overlap: float = 0.0
    permitted_overlap: float = 0.0
    crowd: int = 0
    """The most items of a namespace that ran at a time, by valid claims, where there is a limit."""
    healing: float = 0.0
    calls: int = 0
    """Of scripts, which the checker of the trace played again; 0 where the fault leaves no whole trace."""
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    """Where something is wrong: what became of the keys, and what processes reported."""

    @property
    def passed(self) -> bool:
        """Return whether all was as required."""
        return not self.wrong

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**asdict(self), "pass": self.passed}

    @classmethod
    def from_json(cls, printed: dict[str, Any]) -> Self:
        """Return the row that a program printed."""
        return cls(**{name: value for name, value in printed.items() if name != "pass"})

    def as_text(self) -> str:
        """Return it for people, the first line in columns."""
        figures = (
            f"lost {self.lost}  forgotten {self.forgotten}  zombies {self.zombies}  "
            f"overlap {duration(self.overlap) if self.overlap else '0'}  healed {self.healing:.1f} s"
        )
        verdict = "pass" if self.passed else "FAIL"
        details = [f"      {text}" for text in (*self.wrong, *self.notes[:5], *self.evidence)]
        crowd = f", {self.crowd} of a namespace at most" if self.crowd else ""
        load = f"({self.adds} adds, {self.calls} calls{crowd})"
        line = f"{self.fault:<5} {verdict}  {self.server:<8} {figures}  {load}  {self.what}"
        return "\n".join([line, *details])


def write_table(
    rows: Iterable[Row], redelivery: Redelivery | None, claim_duration: float, page: Path = PAGE
) -> None:
    """Put the figures into the page; faults that were not run keep theirs."""
    text = page.read_text()
    before, _, rest = text.partition(HEADER)
    table, blank, after = rest.partition("\n\n")
    lines = {line.split("|")[1].strip(): line for line in table.splitlines()[2:]}
    for row in rows:
        lines[row.fault] = _line(row)
    kept = [lines.get(fault.name, _unknown(fault)) for fault in faults()]
    written = "\n".join([HEADER, "|---|---|---|---|---|---|---|---|---|", *kept])
    before = re.sub(r"Last run: .*", f"Last run: {_circumstances(claim_duration)}", before)
    if redelivery is not None:
        after = re.sub(r"Redelivery: .*", f"Redelivery: {_figures(redelivery)}", after)
    page.write_text(before + written + blank + after)


def _line(row: Row) -> str:
    lost = f"{row.lost}" + (f" ({row.forgotten} of {row.adds} adds of others)" if row.forgotten else "")
    overlap = duration(row.overlap) if row.overlap else "0"
    cells = (
        row.fault,
        row.what,
        row.required,
        row.server,
        lost,
        row.zombies,
        overlap,
        f"{row.healing:.1f} s",
        f"{row.calls:,} calls" if row.calls else UNTRACED,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _figures(redelivery: Redelivery) -> str:
    return (
        f"{redelivery.kills} processes were killed (-9) in the midst of their item, whose claim lasted "
        f"{CLAIM_DURATION:g} s. Another one had it after {redelivery.p50:.1f} s (median), "
        f"{redelivery.p99:.1f} s (99th percentile), {redelivery.longest:.1f} s (longest); "
        f"{redelivery.lost} were lost."
    )


def _unknown(fault: Fault) -> str:
    return f"| {fault.name} | {fault.what} | {fault.required} | {NEVER} | | | | | |"


def _circumstances(claim_duration: float) -> str:
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.system()} on "
        f"{cpu_count()} {platform.machine()} cores at load {getloadavg()[0]:.0f}, "
        f"claims of {claim_duration:g} s."
    )
