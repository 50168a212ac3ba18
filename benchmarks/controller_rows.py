"""What ``benchmarks.end_to_end`` measured, as rows with their bars."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.report import Row

CPU_EACH = 1.7
"""ms of CPU time, of all processes of distq and Redis, that an object may take from their start on."""

FIRST = 1.8
"""Seconds after the start within which the first object is done."""

SETS_TO_GO = 3.0
"""The most that the sets' controller may need of CPU time, as a multiple of controller-runtime's."""

GO = "controller-runtime"


@dataclass(frozen=True)
class Run:
    """What one contender did with one load; times in seconds from the start, memory in MB."""

    objects: int
    first: float
    wall: float
    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    requests: Counter[str]

    @property
    def cpu_each(self) -> float:
        """Return the CPU time of all processes, in ms an object."""
        return 1000 * sum(self.cpu.values()) / self.objects


@dataclass(frozen=True)
class Runs:
    """The rounds by load, by whether the objects were there, and by contender; and why some have none."""

    values: Mapping[tuple[str, str, str], list[Run]]
    missing: dict[str, str]

    def median(self, load: str, when: str, name: str, figure: Callable[[Run], float]) -> float | None:
        """Return the median of the rounds, None where there is none."""
        found = self.values.get((load, when, name))
        return median(map(figure, found)) if found else None


def rows(runs: Runs) -> list[Row]:
    """Return all rows, those with bars first."""
    return [
        *_judged(runs),
        *(row for key, found in runs.values.items() if found for row in _each(runs, *key)),
        *(Row(name, 0.0, "", missing=why) for name, why in runs.missing.items()),
    ]


def _judged(runs: Runs) -> Iterator[Row]:
    there = "there already"
    cpu = runs.median("items", there, "distq", _cpu_each)
    first = runs.median("items", there, "distq", lambda run: run.first)
    yield _row(f"items {there}: CPU each", cpu, "ms", CPU_EACH)
    yield _row(f"items {there}: first done", first, "s", FIRST)
    for when in (there, "created live"):
        ours = runs.median("items", when, "distq", _cpu_each)
        for peer in (GO, "kopf"):
            reference = runs.median("items", when, peer, _cpu_each)
            if ours is not None and reference is not None:
                yield Row(f"items {when}: CPU each, to {peer}", ours, "ms", reference=reference)
    if any(load == "sets" for load, _, _ in runs.values) or GO in runs.missing:
        ours = runs.median("sets", there, "distq", _cpu_each)
        yield _row(
            f"sets {there}: CPU, to {GO}", ours, "ms", SETS_TO_GO, runs.median("sets", there, GO, _cpu_each)
        )


def _row(name: str, value: float | None, unit: str, bar: float, reference: float | None = None) -> Row:
    """Return a row with a bar; one that has nothing to be compared with misses it."""
    if value is None:
        return Row(name, 0.0, unit, bar, missing="distq has no figure")
    if reference is None and " to " in name:
        return Row(name, value, unit, bar, missing=f"{GO} has no figure")
    return Row(name, value, unit, bar, reference)


def _each(runs: Runs, load: str, when: str, name: str) -> Iterator[Row]:
    """Say what one contender came to."""
    about = f"{load} {when}, {name}"

    def value(figure: Callable[[Run], float]) -> float:
        return runs.median(load, when, name, figure) or 0.0

    yield Row(f"{about}: first done", value(lambda run: run.first), "s")
    yield Row(f"{about}: all done", value(lambda run: run.wall), "s")
    yield Row(f"{about}: rate", value(lambda run: run.objects / run.wall), "objects/s")
    yield Row(f"{about}: CPU each", value(_cpu_each), "ms")
    found = runs.values[load, when, name]
    for part in found[0].cpu:
        cpu = median(1000 * run.cpu[part] / run.objects for run in found)
        yield Row(f"{about}: CPU each, {part}", cpu, "ms")
    for part in found[0].memory:
        yield Row(f"{about}: memory, {part}", median(run.memory[part] for run in found), "MB")
    for verb in sorted({verb for run in found for verb in run.requests}):
        each = median(run.requests[verb] / run.objects for run in found)
        yield Row(f"{about}: {verb} an object", each, "")


def _cpu_each(run: Run) -> float:
    return run.cpu_each
