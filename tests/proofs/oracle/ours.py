"""Our queues as the oracle's tests see them: handles of one queue, and a clock that they move.

Time is in µs since the beginning, which is a whole ms, and so is all time that passes: delays end on
whole ms by our clock, and by the originals' to the ns.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from distq.metrics import Labels, Metric, Sample
from distq.redisio.connection import Connection
from distq.testing.fake_clock import FakeClock
from distq.workqueue.handle import QueueHandle
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue

BEGAN = 1_795_000_000_000_000
CLAIM_DURATION = 1e6
"""Seconds: no claim of these tests lapses."""


class Tally:
    """A metrics provider that remembers the counters."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def count(self, metric: Metric, _labels: Labels, amount: float) -> None:
        """Raise a counter."""
        self.counted[metric.name] += int(amount)

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Leave histograms to others."""

    def expose(self, _read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Leave gauges to others."""
        return lambda: None


class Ours:
    """One queue on a server, or in memory where there is none; close it in the end.

    ``counted``: what its handles reported to the metrics; nothing in memory.
    """

    def __init__(self, connection: Connection | None, name: str) -> None:
        self.now = 0
        self.counted: Counter[str] | None = None
        self._tally = Tally()
        self._connection = connection
        self._name = name
        self._clock = FakeClock(BEGAN / 1e6)
        self._made: list[QueueHandle] = []
        self.move_to(0)

    def handle(self, **arguments: Any) -> QueueHandle:
        """Make a handle, as if in a process of its own."""
        if self._connection is None:
            shares = self._made[0] if self._made else None
            make: Callable[..., QueueHandle] = MemoryQueue
            arguments |= {"shares": shares, "clock": self._clock}
        else:
            make = Queue
            arguments |= {"redis": self._connection, "metrics": self._tally}
            self.counted = self._tally.counted
        self._made.append(make(self._name, claim_duration=CLAIM_DURATION, **arguments))
        return self._made[-1]

    def move_to(self, now: int) -> None:
        """Let time pass, or go back, until ``now``."""
        self.now = now
        if self._connection is not None:
            self._connection.server_time = BEGAN + now
        else:
            self._clock.step((BEGAN + now) / 1e6 - self._clock.now())

    def close(self) -> None:
        """Give back what the handles hold."""
        for handle in self._made:
            handle.close()


def since_began(moment: float) -> int:
    """Return the µs from the beginning to a moment in seconds since the epoch."""
    return round(moment * 1_000_000) - BEGAN
