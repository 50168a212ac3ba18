"""A histogram of durations as one word: ``b12e3`` is 12 durations of 1 to 2 ms and 3 of 8 to 16 ms.

A letter is a range of durations; the number after it is the count of that range. ``a`` is less than 1 ms;
each later letter ends at twice the duration of the one before; ``z`` has no end: 4.7 hours and more. An empty
histogram is ``-``. In this form a heartbeat reports how long items waited and were held
(``lua/include/count_settled.lua``), and a sample keeps it, in a few bytes and exact to a factor of two.
"""

import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Self

NOTHING = "-"
WORD = rb"[a-z0-9-]{1,900}"
"""The pattern of a word; a part that cannot be read counts as nothing."""

_LAST = len(ascii_lowercase) - 1
_TOGETHER = 1000
"""How many durations are counted together: that costs less than to count each turn's."""
_COUNT = re.compile(rb"([a-z])(\d{1,16})")


class Durations:
    """Counts durations by the letter of their range."""

    __slots__ = ("_noted",)

    def __init__(self, counts: Sequence[int] = (0,) * len(ascii_lowercase)) -> None:
        self._noted: tuple[Sequence[int], list[int]] = counts, []
        """The counts, and durations that are not counted yet."""

    @classmethod
    def parse(cls, word: bytes) -> Self:
        """Read a word; a part that cannot be read counts as nothing."""
        counts = {letter.decode(): int(count) for letter, count in _COUNT.findall(word)}
        return cls([counts.get(letter, 0) for letter in ascii_lowercase])

    def note(self, milliseconds: Sequence[int]) -> None:
        """Count durations; one below 0, from a clock that was set back, counts as 0."""
        recent = self._noted[1]
        recent += milliseconds
        if len(recent) >= _TOGETHER:  # in one step: a heartbeat may read it meanwhile
            self._noted = self._all(), []

    def _all(self) -> Sequence[int]:
        before, recent = self._noted
        if not recent:
            return before
        counts = [*before]
        for each, times in Counter(recent).items():  # a busy worker has few different ones
            counts[min(max(0, each).bit_length(), _LAST)] += times
        return counts

    def __add__(self, other: "Durations") -> "Durations":
        return Durations([ours + theirs for ours, theirs in zip(self._all(), other._all(), strict=True)])

    def __str__(self) -> str:
        counted = zip(ascii_lowercase, self._all(), strict=True)
        return "".join(f"{letter}{count}" for letter, count in counted if count) or NOTHING

    def quantile(self, share: float) -> float | None:
        """Return the duration, in seconds, that this share did not exceed; None if nothing was counted.

        Durations are assumed to be spread evenly within a range, as in Prometheus' ``histogram_quantile``;
        one in the last range counts as 4.7 hours.
        """
        counts = self._all()
        wanted = share * sum(counts)
        below = 0
        for place, count in enumerate(counts):
            if count and below + count >= wanted:
                least, end = (1 << place) // 2, 1 << place
                if place == _LAST:
                    end = least
                return (least + (end - least) * (wanted - below) / count) / 1000
            below += count
        return None

    def total(self) -> int:
        """Return how many durations were counted."""
        return sum(self._all())
