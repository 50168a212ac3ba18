"""Checks a history against the invariants of a queue.

S1   one claim an item at a time; S1' one handler, where no claim lapsed and nothing was lost in between
S2   only the holder ends a claim, or keeps it alive; fences grow over the whole history
S3   what was added is reconciled by a run that begins later; S3' so is what Redis lost since
S4   nothing is claimed or enqueued without a cause
S5   claims are in order; S6 nothing is claimed or promoted before it is due
S7   failures are counted once; S8 in the end nothing is left; S9 dead is what is to be, and stays so
S10  a paused queue claims nothing
S11  a stream moves from batch to batch; S12 no epoch of the past; S13 all else is as specified
S14  at most as many items of a flow are claimed at a time as its limit allows

A claim is known by its session and the fence of its turn. Redis runs one script after the other, and each
leaves its entry, so nothing about the order is inferred: a trace is played to the specification, whose
answers must be the same. A second, naive reading of the entries looks for what matters most, so that a
mistake that the specification shares is not missed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.proofs.history.ledger import Ledger
from tests.proofs.history.records import Ack, Interval, Segment, Violation
from tests.proofs.history.replay import Replay, difference_at_end
from tests.proofs.history.runs import Runs


def check(
    segments: Sequence[Segment],
    *,
    acks: Sequence[Ack] = (),
    intervals: Sequence[Interval] | None = None,
    overlap: float = 0.0,
    overlap_of_lapsed: float = 0.0,
    drained: bool = False,
) -> list[Violation]:
    """Return what is wrong with a history, in its order; nothing where all is well.

    Runs of one item may overlap for ``overlap`` seconds where Redis lost something between their claims, and
    for ``overlap_of_lapsed`` where the first claim lapsed. Without ``intervals`` what was added must have
    been claimed later. ``drained``: nothing but the dead may be left.
    """
    violations: list[Violation] = []
    last_fence = 0
    for number, segment in enumerate(segments):
        found, last_fence = _check_segment(number, segment, last_fence, drained=drained)
        violations += found
    runs = Runs(segments, intervals)
    violations += runs.unkept(acks)
    violations += runs.overlaps(overlap=overlap, overlap_of_lapsed=overlap_of_lapsed)
    violations += runs.unclaimed()
    return violations


def _check_segment(
    number: int, segment: Segment, last_fence: int, *, drained: bool
) -> tuple[list[Violation], int]:
    """Check one segment; of what it shares with the one before only what follows from it."""
    violations: list[Violation] = []
    replay, ledger = Replay(segment.start), Ledger.at(segment.start)
    agrees = True
    for place, entry in enumerate(segment.entries):
        where = f"segment {number}, entry {place} ({entry.script} {entry.id})"
        if place == segment.shared:
            ledger.last_fence = max(ledger.last_fence, last_fence)
        broken = list(ledger.read(entry))
        difference = replay.play(entry) if agrees else None
        if difference is not None:
            agrees = False  # all that follows would differ, too
            broken.append(difference)
        if place >= segment.shared:
            violations += [Violation(invariant, where, text) for invariant, text in broken]
    if segment.final is not None:
        violations += _check_end(f"the end of segment {number}", replay if agrees else None, segment, drained)
    return violations, max(last_fence, ledger.last_fence)


def _check_end(where: str, replay: Replay | None, segment: Segment, drained: bool) -> Iterator[Violation]:
    assert segment.final is not None
    different = difference_at_end(replay, segment.final) if replay else None
    if different:
        yield Violation("S13", where, different)
    if drained:
        left = Counter(
            {
                name: len(getattr(segment.final, name))
                for name in ("ready", "suspects", "held_back", "dirty", "delayed", "claims")
            }
        )
        left["failures of no item"] = len(segment.final.failures.keys() - segment.final.dead.keys())
        for name, count in (+left).items():
            yield Violation("S8", where, f"{name}: {count} left")
