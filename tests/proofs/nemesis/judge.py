"""What must hold of the journals after every fault; one function for each property."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tests.proofs.nemesis.journal import Add, Attempt, Change, Reconcile

Span = tuple[float, float]
FOREVER = float("inf")
LATE = 1.0
"""Seconds; on a busy machine a reconcile may begin so late without a fault."""


@dataclass(frozen=True)
class Overlap:
    """Two runs of one key at the same time, and for how many seconds."""

    one: Reconcile
    other: Reconcile
    seconds: float


def unmet(adds: Iterable[Add], reconciles: Iterable[Reconcile]) -> list[Add]:
    """Return the adds after which no reconcile of the key began that went through to its end."""
    last: dict[str, float] = {}
    for run in reconciles:
        if run.kept and run.queue == "jobs":
            last[run.key] = max(run.began, last.get(run.key, 0.0))
    return [add for add in adds if last.get(add.key, 0.0) < add.asked]


def unseen(changes: Iterable[Change], reconciles: Iterable[Reconcile]) -> list[str]:
    """Return the objects whose last state no reconcile saw last."""
    states = {change.key: change.state for change in changes}
    seen: dict[str, tuple[float, str]] = {}
    for run in reconciles:
        if run.kept and run.queue == "maps":
            seen[run.key] = max((run.began, run.seen), seen.get(run.key, (0.0, "")))
    never_there = (0.0, "gone")  # made and deleted unseen: no reconcile is owed
    return [key for key, state in states.items() if seen.get(key, never_there)[1] != state]


def overlaps(reconciles: Iterable[Reconcile], frozen: Mapping[str, Sequence[Span]]) -> Iterator[Overlap]:
    """Yield what ran twice at a time; while its process was ``frozen`` nothing runs."""
    by_key = defaultdict(list)
    for run in reconciles:
        by_key[run.queue, run.key].append(run)
    for runs in by_key.values():
        runs.sort(key=lambda run: run.began)
        for one, other in combinations(runs, 2):
            if other.began >= _end(one):
                continue
            seconds = _shared(
                awake(one, frozen.get(one.process, ())), awake(other, frozen.get(other.process, ()))
            )
            if seconds > 0:
                yield Overlap(one, other, seconds)


@dataclass(frozen=True)
class Crowd:
    """So many items of a namespace that ran at the same time by valid claims, and for how many seconds."""

    namespace: str
    runs: Sequence[Reconcile]
    seconds: float


def crowds(
    reconciles: Iterable[Reconcile], frozen: Mapping[str, Sequence[Span]], limit: int
) -> Iterator[Crowd]:
    """Yield for how long more than ``limit`` items of a namespace ran, each time; of one queue.

    A run counts while its claim is valid: until a later claim of its key runs, though a zombie may go on.
    While its process was ``frozen`` nothing runs.
    """
    by_key = defaultdict(list)
    for run in reconciles:
        by_key[run.key].append(run)
    moments: defaultdict[str, list[tuple[float, bool, Reconcile]]] = defaultdict(list)
    for runs in by_key.values():
        for run in runs:
            until = min([_end(run), *(other.began for other in runs if other.fence > run.fence)])
            for began, ended in awake(replace(run, ended=until), frozen.get(run.process, ())):
                moments[_namespace(run.key)] += [(began, True, run), (ended, False, run)]
    for namespace, changes in moments.items():
        yield from _above(limit, namespace, sorted(changes, key=lambda change: change[:2]))


def _above(limit: int, namespace: str, changes: Iterable[tuple[float, bool, Reconcile]]) -> Iterator[Crowd]:
    """Yield the times with more than ``limit`` runs; what ends and what begins at one moment do not meet."""
    running: list[Reconcile] = []
    most: list[Reconcile] = []
    since = 0.0
    for at, begins, run in changes:
        if begins:
            running.append(run)
            since = at if len(running) == limit + 1 else since
            most = max(most, [*running], key=len)
        else:
            running.remove(run)
            if len(running) == limit:
                yield Crowd(namespace, most, at - since)
                most = []


def zombies(attempts: Iterable[Attempt], reconciles: Iterable[Reconcile]) -> list[Attempt]:
    """Return the accepted settlements that were tried after a later claim of the key had begun to run."""
    runs = defaultdict(list)
    for run in reconciles:
        runs[run.queue, run.key].append(run)
    return [
        attempt
        for attempt in attempts
        if attempt.accepted
        and any(
            run.fence > attempt.fence and run.began < attempt.tried
            for run in runs[attempt.queue, attempt.key]
        )
    ]


def stale_fences(reconciles: Iterable[Reconcile], overlap: float = 0.0) -> list[Reconcile]:
    """Return the runs whose fence is no higher than that of a run of the key that had ended before.

    Where two runs may overlap for so many seconds, because Redis forgot the earlier claim, the run of that
    claim may as well begin once the later one is over, and in that time.
    """
    found: list[Reconcile] = []
    by_key: defaultdict[tuple[str, str], list[Reconcile]] = defaultdict(list)
    for run in sorted(reconciles, key=lambda run: run.began):
        earlier = by_key[run.queue, run.key]
        over = [each for each in earlier if _end(each) < run.began and run.began - each.began >= overlap]
        if any(each.fence >= run.fence for each in over):
            found.append(run)
        earlier.append(run)
    return found


def healing(
    adds: Iterable[Add], changes: Iterable[Change], reconciles: Iterable[Reconcile], healed_from: float
) -> float:
    """Return how long after that moment the last overdue item began to run for good.

    Overdue are items that had been added or changed before and did not yet run, that had begun and were cut
    off, and that waited afterwards for more than ``LATE`` seconds. Or, where that is later, until an add was
    acknowledged again.
    """
    by_key = defaultdict(list)
    for run in sorted(reconciles, key=lambda run: run.began):
        by_key[run.queue, run.key].append(run)
    begun = [healed_from]

    def take(runs: Sequence[Reconcile], asked: float, since: float) -> None:
        """Note the first of these runs that was kept, if it was overdue."""
        first = next((run.began for run in runs if run.kept and run.began >= asked), healed_from)
        if since < healed_from or first - since > LATE:
            begun.append(first)

    for add in adds:
        if not add.delay:
            runs = by_key["jobs", add.key]
            take(runs, add.asked, _free_since(runs, add.answered))
    for change in changes:
        runs = by_key["maps", change.key]
        take([run for run in runs if change.is_in(run)], change.asked, _free_since(runs, change.answered))
    for runs in by_key.values():
        for run in runs:
            if not run.kept:
                take(runs, run.began, run.began if run.began < healed_from else _end(run))
    begun += sorted(add.answered for add in adds if add.answered >= healed_from)[:1]
    return max(begun) - healed_from


def _free_since(runs: Sequence[Reconcile], asked: float) -> float:
    """Return since when a key that was asked for could run: not while it ran already."""
    return max([asked, *(_end(run) for run in runs if run.began < asked)])


def _namespace(key: str) -> str:
    before, slash, _ = key.partition("/")
    return before if slash else ""


def _end(run: Reconcile) -> float:
    return FOREVER if run.ended is None else run.ended


def awake(run: Reconcile, frozen: Sequence[Span]) -> list[Span]:
    """Return when it ran, less the time for which its process was frozen."""
    spans, began = [], run.began
    for stopped, went_on in sorted(frozen):
        if stopped >= _end(run) or went_on <= began:
            continue
        spans.append((began, stopped))
        began = went_on
    return [(start, end) for start, end in [*spans, (began, _end(run))] if start < end]


def _shared(one: Sequence[Span], other: Sequence[Span]) -> float:
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)
