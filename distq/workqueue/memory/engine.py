"""What the handles of one memory queue share: its state, its clock, and who waits for a change."""

import threading

from distq.clock import Clock
from distq.workqueue.memory.state import QueueState


class MemoryEngine:
    """One queue in this process; hold ``lock`` while you look at its state or change it."""

    def __init__(self, clock: Clock) -> None:
        self.state = QueueState()
        self.clock = clock
        self.lock = threading.RLock()
        self.changes = 0
        """Counts what may have made an item claimable."""
        self.waiting: dict[threading.Event, object] = {}
        """Rings who waits; the value is the handle."""

    def now(self) -> int:
        """Return the queue's time, µs since the epoch."""
        return round(self.clock.now() * 1_000_000)

    def changed(self) -> None:
        """Wake all who wait, and who has not seen this yet when it begins to."""
        with self.lock:
            self.changes += 1
            for bell in self.waiting:
                bell.set()
