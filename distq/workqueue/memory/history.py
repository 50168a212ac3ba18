"""The history of a queue: its numbers every ten seconds, noted by heartbeats and commits."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

Line = tuple[int | str, ...]
Durations = Counter[str]
"""The number of durations in each range, by its letter."""

_LEVELS = 10
"""The number of priorities, from the highest, in which it looks for the longest waiting item."""


_RINGS = {"10s": (10, 30, 289), "5m": (300, 12, 193)}
"""Seconds between two samples, samples of a chunk, and chunks: a new one takes the oldest's place."""


class History:
    """Samples by ring, place and chunk, and the total of reconciles that succeeded and failed.

    ``durations`` counts, for each ring, how long items waited and were held since its last sample.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self.done = self.failed = 0
        self.durations = {ring: (Durations(), Durations()) for ring in _RINGS}
        self.chunks: dict[tuple[str, int], tuple[int, list[Line]]] = {}

    def count_settled(self, before: str, after: str) -> None:
        """Count a session's settlements between two descriptions of its worker, with their durations."""
        self.done += _more("done", before, after)
        self.failed += _more("failed", before, after)
        for waiting, working in self.durations.values():
            waiting.update(_longer("waiting", before, after))
            working.update(_longer("working", before, after))

    def sample(self, now: int, numbers: Callable[[], Line]) -> None:
        """Note a sample unless there is one of these ten seconds."""
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
                self.chunks[place] = chunk, [*lines, (*line, *map(word_of, self.durations[name]))]
                self.durations[name] = Durations(), Durations()


def waits_since(parts: Sequence[dict[int, int]], due: int | None) -> int | None:
    """Return since when the first item waits, of the highest levels of each part and of the due ones."""
    since = [levels[priority] for levels in parts for priority in sorted(levels, reverse=True)[:_LEVELS]]
    return min([*since, *([] if due is None else [due])], default=None)


def word_of(durations: Durations) -> str:
    """Return durations in their written form."""
    return "".join(f"{letter}{durations[letter]}" for letter in sorted(durations) if durations[letter]) or "-"


def durations_of(word: str) -> Durations:
    """Return the durations that a word holds."""
    return Durations({letter: int(count) for letter, count in re.findall(r"([a-z])(\d+)", word)})


def _more(name: str, before: str, after: str) -> int:
    old, new = (re.search(rf'"{name}": (\d+)', text) for text in (before, after))
    return max(0, int(new[1]) - int(old[1])) if old and new else 0


def _longer(name: str, before: str, after: str) -> Durations:
    old, new = (re.search(rf'"{name}": "([^"]*)"', text) for text in (before, after))
    return durations_of(new[1]) - durations_of(old[1]) if old and new else Durations()
