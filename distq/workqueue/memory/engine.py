"""The engine of queues in this process: handles use the specification's state as they use Redis."""

import threading
from collections.abc import Sequence

from distq.clock import Clock
from distq.workqueue.announcement import Announcement
from distq.workqueue.engine import TurnSettings
from distq.workqueue.main_thread import apart
from distq.workqueue.memory.entries import Now
from distq.workqueue.memory.memory_session import MemorySession
from distq.workqueue.memory.state import QueueState


class MemoryEngine:
    """One queue in this process. See ``Engine``. Hold ``lock`` to read or change its state."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.state = QueueState()
        self.clock = clock
        self.lock = threading.RLock()  # a custom limiter may read and add in the midst of a turn
        self.changes = 0
        """Counts the changes that may have made an item claimable."""
        self.changed = Announcement()

    def session(self, settings: TurnSettings) -> MemorySession:
        """Return a session for one handle; only ``abandon`` lets it lapse, no claim duration does."""
        return MemorySession(self, settings)

    def now(self) -> int:
        """Return the queue's time, µs since the epoch."""
        return round(self.clock.now() * 1_000_000)

    def note_change(self) -> None:
        """Wake all waiting threads; a thread that waits next and has not seen this change returns at once."""
        with self.lock:
            self.changes += 1
        self.changed.announce()

    @apart
    def add(
        self, keys: Sequence[bytes], *, priority: int, delay: int, max_length: int | None, link: str = ""
    ) -> tuple[int, int]:
        """Make keys pending, now or after ``delay`` µs; return how many were not, and how many fitted."""
        names = [key.decode() for key in keys]
        with self.lock:
            items, now = self.state.items, self.now()
            if delay > 0:
                answer = items.add_after(now, names, priority, delay, max_length)
            else:
                answer = items.add(now, names, priority, max_length, link)
            self.note_change()
        return answer

    @apart
    def forget(self, key: bytes) -> None:
        """Drop the key's failure record, unless it is dead."""
        with self.lock:
            self.state.items.forget(self.now(), [key.decode()])

    @apart
    def num_requeues(self, key: bytes) -> int:
        """Return how many failures the key has."""
        with self.lock:
            record = self.state.items.failures.get(key.decode())
            return record.count if record is not None else 0

    @apart
    def is_dirty(self, key: bytes) -> bool:
        """Return whether the key was added again while claimed."""
        with self.lock:
            items, name = self.state.items, key.decode()
            return name in items.claims and isinstance(items.pending.get(name), Now)

    @apart
    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        with self.lock:
            due_ms = self.now() // 1000
            entries = self.state.items.pending.values()
            return sum(isinstance(entry, Now) or entry.due_ms <= due_ms for entry in entries)
