"""The queue in numbers every ten seconds, as heartbeats and commits note it for people to look back."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

Line = tuple[int | str, ...]
Durations = Counter[str]
"""How many durations fell into each range, by its letter."""

_LEVELS = 10
"""Through how many priorities it looks for who waits longest."""


_RINGS = {"10s": (10, 30, 289), "5m": (300, 12, 193)}
"""Seconds between two samples, samples of a chunk, and chunks: a new one takes the oldest's place."""


class History:
    """Samples by ring, place and chunk, and how many reconciles ever succeeded and failed.

    ``durations`` is for how long items waited and were held since a ring's last sample.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self.done = self.failed = 0
        self.durations = {ring: (Durations(), Durations()) for ring in _RINGS}
        self.chunks: dict[tuple[str, int], tuple[int, list[Line]]] = {}

    def count_settled(self, said: str, says: str) -> None:
        """Count what a session settled between two descriptions of its process, and how long that took."""
        self.done += _more("done", said, says)
        self.failed += _more("failed", said, says)
        for waiting, working in self.durations.values():
            waiting.update(_longer("waiting", said, says))
            working.update(_longer("working", said, says))

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
                self.chunks[place] = chunk, [*lines, (*line, *map(word_of, self.durations[name]))]
                self.durations[name] = Durations(), Durations()


def waits_since(parts: Sequence[dict[int, int]], due: int | None) -> int | None:
    """Return since when the longest waits of the highest levels of each part, or of what is due."""
    since = [levels[priority] for levels in parts for priority in sorted(levels, reverse=True)[:_LEVELS]]
    return min([*since, *([] if due is None else [due])], default=None)


def word_of(durations: Durations) -> str:
    """Return how durations are written."""
    return "".join(f"{letter}{durations[letter]}" for letter in sorted(durations) if durations[letter]) or "-"


def durations_of(word: str) -> Durations:
    """Return what a word of durations says."""
    return Durations({letter: int(count) for letter, count in re.findall(r"([a-z])(\d+)", word)})


def _more(name: str, said: str, says: str) -> int:
    before, after = (re.search(rf'"{name}": (\d+)', text) for text in (said, says))
    return max(0, int(after[1]) - int(before[1])) if before and after else 0


def _longer(name: str, said: str, says: str) -> Durations:
    before, after = (re.search(rf'"{name}": "([^"]*)"', text) for text in (said, says))
    return durations_of(after[1]) - durations_of(before[1]) if before and after else Durations()
