"""What handlers did, joined with the trace by key and fence."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from distq.redisio.trace import TracedCall
from tests.proofs.history.records import Ack, Interval, Segment, Violation


class Runs:
    """The runs of all handlers, and the claims that the trace has of them."""

    def __init__(self, segments: Sequence[Segment], intervals: Sequence[Interval] | None) -> None:
        self._segments = segments
        self._intervals = intervals
        self._runs: Mapping[str, list[Interval]] = defaultdict(list)
        for interval in sorted(intervals or (), key=lambda each: each.began):
            self._runs[interval.key].append(interval)
        self._claims: dict[tuple[str, int], tuple[int, int]] = {}
        """The segment and the entry of each claim."""
        self._lapses: Mapping[str, list[tuple[int, int]]] = defaultdict(list)
        self._adds: Mapping[str, list[tuple[int, int]]] = defaultdict(list)
        for number, segment in enumerate(segments):
            for place in range(segment.shared, len(segment.entries)):
                self._note(segment.entries[place], (number, place))

    def _note(self, entry: TracedCall, at: tuple[int, int]) -> None:
        for item, _, _ in entry.taken_back:
            self._lapses[_text(item)].append(at)
        if entry.script == "turn" and isinstance(entry.reply, list):
            for item in entry.reply[5][::2]:
                self._claims.setdefault((_text(item), int(entry.reply[0])), at)
        elif entry.script in {"add", "add_after"} and not entry.cut:
            for item in entry.inputs["items"][: entry.reply[1]]:
                self._adds[_text(item)].append(at)

    def unkept(self, acks: Sequence[Ack]) -> Iterator[Violation]:
        """Yield what was added, and not reconciled by a run that began later; once a key."""
        last = {ack.key: ack for ack in sorted(acks)}
        for key, ack in last.items():
            if self._is_left(key):
                continue
            if self._intervals is not None:
                kept = any(run.began >= ack.sent for run in self._runs[key])
            else:
                kept = self._was_claimed_since(key)
            if not kept:
                lost = "S3'" if len(self._segments) > 1 else "S3"
                yield Violation(
                    lost, f"{ack.sent:.3f} s", f"{key} was added, and never reconciled after that"
                )

    def overlaps(self, *, overlap: float, overlap_of_lapsed: float) -> Iterator[Violation]:
        """Yield the runs of one item at one time, where they may not be, or for longer than they may."""
        for key, runs in self._runs.items():
            for one, other in combinations(runs, 2):
                if other.began >= (one.ended or one.began):
                    continue
                both = min(one.ended or one.began, other.ended or other.began) - other.began
                may = self._may_overlap(key, one, other, overlap, overlap_of_lapsed)
                if both > may:
                    text = f"{key} was run by {one.who} and {other.who} at once, for {both:.3f} s"
                    yield Violation("S1'", f"{other.began:.3f} s", f"{text}; {may:.3f} s were allowed")

    def _may_overlap(
        self, key: str, one: Interval, other: Interval, overlap: float, overlap_of_lapsed: float
    ) -> float:
        found = [self._claims.get((key, each.fence)) for each in (one, other)]
        claims = sorted(claim for claim in found if claim)  # of a frozen run a part begins after the other
        if len(claims) < len(found):
            return overlap if len(self._segments) > 1 else 0.0
        begin, end = claims
        if begin[0] != end[0]:
            return max(overlap, overlap_of_lapsed)
        return overlap_of_lapsed if any(begin < at <= end for at in self._lapses[key]) else 0.0

    def unclaimed(self) -> Iterator[Violation]:
        """Yield runs whose claim the trace does not have, where it lost nothing."""
        if len(self._segments) != 1:
            return
        for key, runs in self._runs.items():
            for run in runs:
                if (key, run.fence) not in self._claims and run.fence >= self._first_fence():
                    text = f"{run.who} ran {key} with fence {run.fence}, which was never handed out"
                    yield Violation("S2", f"{run.began:.3f} s", text)

    def _first_fence(self) -> int:
        return int(self._segments[0].start.meta.get("stamp", b"0"))

    def _is_left(self, key: str) -> bool:
        """Return whether the item is dead or pending at the end: it is not forgotten."""
        final = self._segments[-1].final if self._segments else None
        return final is not None and any(
            key in each for each in (final.dead, final.ready, final.dirty, final.delayed)
        )

    def _was_claimed_since(self, key: str) -> bool:
        claims = [at for (item, _), at in self._claims.items() if item == key]
        return bool(claims) and max(claims) > max(self._adds[key], default=(0, 0))


def _text(item: bytes) -> str:
    return item.decode(errors="surrogateescape")
