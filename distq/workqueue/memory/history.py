"""The queue in numbers every ten seconds, as heartbeats and commits note it for people to look back."""

import re
from collections.abc import Callable

Line = tuple[int | str, ...]

_LEVELS = 10
"""Through how many priorities it looks for who waits longest."""


_RINGS = {"10s": (10, 30, 289), "5m": (300, 12, 193)}
"""Seconds between two samples, samples of a chunk, and chunks: a new one takes the oldest's place."""


class History:
    """Samples by ring, place and chunk, and how many reconciles ever succeeded and failed."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.done = self.failed = 0
        self.chunks: dict[tuple[str, int], tuple[int, list[Line]]] = {}

    def count_settled(self, said: str, says: str) -> None:
        """Count what a session settled between two descriptions of its process."""
        self.done += _more("done", said, says)
        self.failed += _more("failed", said, says)

    def sample(self, now: int, numbers: Callable[[], Line]) -> None:
        """Note the queue unless somebody has in these ten seconds."""
        at = now // 1_000_000
        if self.last is not None and self.last // 10 == at // 10:
            return
        self.last = at
        line = (at, *numbers(), self.done, self.failed)
        for name, (period, samples, chunks) in _RINGS.items():
            chunk = at // (period * samples)
            place = name, chunk % chunks
            number, lines = self.chunks.get(place, (chunk, []))
            lines = lines if number == chunk else []
            if not lines or int(lines[-1][0]) // period < at // period:
                self.chunks[place] = chunk, [*lines, line]


def waits_since(levels: dict[int, int], due: int | None) -> int | None:
    """Return since when the longest waits of the highest levels, or of what is due."""
    since = [levels[priority] for priority in sorted(levels, reverse=True)[:_LEVELS]]
    return min([*since, *([] if due is None else [due])], default=None)


def _more(name: str, said: str, says: str) -> int:
    before, after = (re.search(rf'"{name}": (\d+)', text) for text in (said, says))
    return max(0, int(after[1]) - int(before[1])) if before and after else 0
