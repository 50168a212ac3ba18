"""Says what a benchmark measured, and whether it keeps its bars.

A row compares one figure with a bar: the figure itself, or its ratio to a reference
(the floor, a peer). Ratios are what survives a change of machine, or a busy one.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure and its bar; without a bar it is printed and not judged.

    ``reference`` is what the floor or a peer needs for the same, in the same unit.
    """

    name: str
    value: float
    unit: str
    bar: float | None = None
    reference: float | None = None
    at_least: bool = False
    """Whether more is better: the bar is then the least."""

    missing: str = ""
    """Why there is no figure; then the bar, if there is one, is missed."""

    @property
    def ratio(self) -> float | None:
        """Return the value as a multiple of the reference."""
        return self.value / self.reference if self.reference else None

    @property
    def judged(self) -> float:
        """Return what the bar is for: the ratio where there is a reference, the value otherwise."""
        return self.value if self.ratio is None else self.ratio

    @property
    def passed(self) -> bool:
        """Whether the bar is kept."""
        if self.bar is None:
            return True
        if self.missing:
            return False
        return self.judged >= self.bar if self.at_least else self.judged <= self.bar

    def as_dict(self) -> dict[str, Any]:
        """Return the row for JSON; ``ratio`` is null where there is no reference."""
        fields = asdict(self)
        for name in ("value", "reference"):
            fields[name] = _rounded(fields[name])
        return {**fields, "ratio": _rounded(self.ratio), "pass": self.passed}


def publish(rows: Sequence[Row], *, as_json: bool, facts: Mapping[str, Any] | None = None) -> int:
    """Print the rows and return the exit code: 0 where all bars are kept, 1 otherwise.

    With ``as_json`` the last line is one JSON object: rows, pass, and facts about the machine.
    """
    about = {**machine(), **(facts or {})}
    passed = all(row.passed for row in rows)
    print(_table(rows))
    print(", ".join(f"{name} {fact}" for name, fact in about.items()))
    print("all bars kept" if passed else f"{sum(not row.passed for row in rows)} bars missed")
    if as_json:
        print(json.dumps({"rows": [row.as_dict() for row in rows], "pass": passed, "machine": about}))
    return 0 if passed else 1


def machine() -> dict[str, Any]:
    """Return what a figure depends on besides the code."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _table(rows: Sequence[Row]) -> str:
    header = ("what", "value", "unit", "reference", "ratio", "bar", "")
    lines = [header, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in (1, 3, 4, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    if row.missing:
        return (
            row.name,
            "",
            row.unit,
            "",
            "",
            "" if row.bar is None else f"{row.bar:g}",
            f"MISSING: {row.missing}",
        )
    bar = "" if row.bar is None else ("≥ " if row.at_least else "≤ ") + f"{row.bar:g}"
    verdict = "" if row.bar is None else "ok" if row.passed else "MISSED"
    return (row.name, _text(row.value), row.unit, _text(row.reference), _text(row.ratio), bar, verdict)


def _text(number: float | None) -> str:
    return "" if number is None else f"{_rounded(number):g}"


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
