"""How often something took how long, as one word: ``b12e3`` is 12 times 1 to 2 ms and 3 times 8 to 16 ms.

A letter is a range of durations, and the number behind it how many fell there: ``a`` is less than 1 ms, each
letter after it ends at twice as long as the one before, and ``z`` has no end: 4.7 hours and more. Nothing at
all is ``-``. So a process says with a heartbeat how long items waited and were held
(``lua/include/count_settled.lua``), and a sample keeps it, in a few bytes and exact to a factor of two.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from string import ascii_lowercase
from typing import Self

NOTHING = "-"
WORD = rb"[a-z0-9-]{1,900}"
"""What may stand there, as a pattern; what makes no sense in it counts nothing."""

_LAST = len(ascii_lowercase) - 1
_COUNT = re.compile(rb"([a-z])(\d{1,16})")


class Durations:
    """Counts durations by the letter of their range."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Sequence[int] = (0,) * len(ascii_lowercase)) -> None:
        self._counts = list(counts)

    @classmethod
    def parse(cls, word: bytes) -> Self:
        """Read a word; of what cannot be read nothing is counted."""
        counts = {letter.decode(): int(count) for letter, count in _COUNT.findall(word)}
        return cls([counts.get(letter, 0) for letter in ascii_lowercase])

    def note(self, milliseconds: Iterable[int]) -> None:
        """Count some more; what is below 0, since a clock was set back, counts as 0."""
        for each, times in Counter(milliseconds).items():  # a busy worker's are few
            self._counts[min(max(0, each).bit_length(), _LAST)] += times

    def __add__(self, other: "Durations") -> "Durations":
        return Durations([ours + theirs for ours, theirs in zip(self._counts, other._counts, strict=True)])

    def __str__(self) -> str:
        counted = zip(ascii_lowercase, self._counts, strict=True)
        return "".join(f"{letter}{count}" for letter, count in counted if count) or NOTHING

    def quantile(self, share: float) -> float | None:
        """Return how long that share took at most, seconds; None where there is nothing.

        Within a range durations are taken to lie evenly, as by Prometheus' ``histogram_quantile``; what is
        longer than all ranges counts as 4.7 hours.
        """
        wanted = share * sum(self._counts)
        below = 0
        for place, count in enumerate(self._counts):
            if count and below + count >= wanted:
                least, end = (1 << place) // 2, 1 << place
                if place == _LAST:
                    end = least
                return (least + (end - least) * (wanted - below) / count) / 1000
            below += count
        return None
