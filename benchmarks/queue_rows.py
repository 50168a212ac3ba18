"""What ``benchmarks.queues`` measured, as rows with their bars."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median, quantiles

from benchmarks.peers import PEERS
from benchmarks.report import Row

GROUPS = ("drain", "async", "loop", "add", "bulk", "idle")

CPU = 6.5
"""µs of a worker's CPU time that an item may take."""


@dataclass(frozen=True)
class Rate:
    """Items a second, of which distq needs a multiple of what the best peer has."""

    group: str
    what: str
    kind: str
    of_peers: str
    bar: float


RATES = (
    Rate("drain", "drain, threads", "threads", "drain", 25.0),
    Rate("async", "drain, async def", "async", "drain", 20.0),
    Rate("loop", "loop of one's own, 2 threads", "loop", "drain", 2.0),
    Rate("add", "add one by one", "threads", "add", 1.05),
    Rate("bulk", "bulk add", "threads", "bulk", 20.0),
)


@dataclass(frozen=True)
class Figures:
    """Figures of all rounds, by contender and group; and why some have none."""

    values: Mapping[tuple[str, str], list[float]]
    missing: dict[str, str]

    def median(self, label: str, group: str) -> float | None:
        """Return the median of the rounds, None where there is none."""
        values = self.values.get((label, group))
        return median(values) if values else None

    def percentile(self, label: str, which: int) -> float | None:
        """Return a percentile of all samples of idle wake-ups."""
        values = self.values.get((label, "idle"))
        return quantiles(values, n=100)[which - 1] if values and len(values) > 1 else None

    def peers(self, figure: Callable[[str], float | None]) -> dict[str, float]:
        """Return a figure of each peer that has it."""
        return {name: value for name in PEERS if (value := figure(name)) is not None}


def rows(measured: Figures, groups: frozenset[str], against: str | None) -> list[Row]:
    """Return the rows of these groups: those with bars, another version, all contenders."""
    found = [_to_the_best(measured, rate) for rate in RATES if rate.group in groups]
    if "drain" in groups:
        cpu = measured.median("distq threads", "drain CPU")
        found.insert(1, _row("drain, threads: worker's CPU an item", cpu, "µs", CPU))
    if "idle" in groups:
        found += _wake_ups(measured)
    if against is not None:
        found += _against(measured, groups, against)
    found += _each(measured, groups)
    found += [Row(name, 0.0, "", missing=why) for name, why in measured.missing.items()]
    return found


def _to_the_best(measured: Figures, rate: Rate) -> Row:
    """Compare with the peer that is best at it; where none was asked for there is no bar."""
    ours = measured.median(f"distq {rate.kind}", rate.group)
    theirs = measured.peers(lambda name: measured.median(name, rate.of_peers))
    if not theirs and measured.missing.keys() & PEERS.keys():
        return Row(rate.what, 0.0, "items/s", rate.bar, at_least=True, missing="no peer has a figure")
    if not theirs:
        return _row(rate.what, ours, "items/s")
    best = max(theirs, key=theirs.__getitem__)
    return replace(_row(f"{rate.what}, to {best}", ours, "items/s", rate.bar, theirs[best]), at_least=True)


def _wake_ups(measured: Figures) -> Iterator[Row]:
    """Compare with huey, the quickest peer at the median, with the best peer at worst, and the floor."""
    p50, p99 = (measured.percentile("distq threads", which) for which in (50, 99))
    for name, bar in (("huey", 1.0), ("BLPOP + claim", None), ("BLPOP", None)):
        if reference := measured.percentile(name, 50):
            yield _row(f"idle wake-up, p50, to {name}", p50, "ms", bar, reference)
    if late := measured.peers(lambda name: measured.percentile(name, 99)):
        best = min(late, key=late.__getitem__)
        yield _row(f"idle wake-up, p99, to {best}", p99, "ms", 1.0, late[best])


def _row(
    name: str, value: float | None, unit: str, bar: float | None = None, reference: float | None = None
) -> Row:
    if value is None:
        return Row(name, 0.0, unit, bar, missing="distq has no figure")
    return Row(name, value, unit, bar, reference)


def _against(measured: Figures, groups: frozenset[str], against: str) -> Iterator[Row]:
    """Compare this version with another one, in all that both were measured in."""
    for kind in ("threads", "async", "loop"):
        for what, unit, figure in _columns(measured, groups):
            ours, theirs = figure(f"distq {kind}"), figure(f"{against} {kind}")
            if ours is not None and theirs is not None:
                yield Row(f"{what}, {kind}, to {against}", ours, unit, reference=theirs)


def _each(measured: Figures, groups: frozenset[str]) -> Iterator[Row]:
    """Say what each contender came to."""
    labels = list(dict.fromkeys(label for label, _ in measured.values))
    for what, unit, figure in _columns(measured, groups):
        for label in labels:
            if (value := figure(label)) is not None:
                yield Row(f"{what}: {label}", value, unit)


def _columns(
    measured: Figures, groups: frozenset[str]
) -> Iterator[tuple[str, str, Callable[[str], float | None]]]:
    """Yield what was measured of each contender, its unit, and the figure by the contender's label."""
    for group in GROUPS:
        compared = group == "drain" and groups & {"async", "loop"}
        if group not in groups and not compared:
            continue
        if group == "idle":
            for which in (50, 99):
                yield f"idle wake-up, p{which}", "ms", partial(measured.percentile, which=which)
        else:
            yield group, "items/s", partial(measured.median, group=group)
        yield f"{group}: CPU an item", "µs", partial(measured.median, group=f"{group} CPU")
