"""What a history is made of: segments of the trace, and what clients know of themselves.

Moments of clients are seconds of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from distq.redisio.trace import TracedCall
from tests.workqueue.redis_state import RedisState


class Ack(NamedTuple):
    """An add that returned: what it added must be reconciled by a run that begins after it was sent."""

    key: str
    sent: float
    answered: float


class Interval(NamedTuple):
    """One run of a handler; ``ended`` None: at an unknown time."""

    key: str
    fence: int
    began: float
    ended: float | None
    who: str = ""


class Violation(NamedTuple):
    """A promise that was broken, as the reference numbers them, where in the history, and how."""

    invariant: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.where}: {self.text}"


@dataclass
class Segment:
    """A history without a gap: from ``start`` on, all that was called.

    Where Redis went back, the first ``shared`` entries are those of the segment before that it kept.
    ``final`` is what Redis held behind the last entry, of the last segment.
    """

    start: RedisState
    entries: list[TracedCall] = field(default_factory=list)
    shared: int = 0
    final: RedisState | None = None


def read_intervals(paths: Iterable[Path], killed: Mapping[str, float] | None = None) -> list[Interval]:
    """Read what handlers wrote: a line at the begin of each run, and one at its end.

    ``killed`` says when processes were killed, whose runs ended with them. A last line may be cut off.
    """
    killed = killed or {}
    found: list[Interval] = []
    for path in paths:
        begun: dict[tuple[str, int, str], float] = {}
        for line in _lines(path):
            run = (str(line["key"]), int(str(line["fence"])), str(line["who"]))
            at = float(str(line["at"]))
            if line["event"] == "began":
                begun[run] = at
            elif run in begun:
                found.append(Interval(run[0], run[1], begun.pop(run), at, run[2]))
        found += [Interval(key, fence, at, killed.get(who), who) for (key, fence, who), at in begun.items()]
    return sorted(found, key=lambda interval: interval.began)


def _lines(path: Path) -> Sequence[Mapping[str, object]]:
    whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [json.loads(line) for line in whole]
