"""How the threads of one handle wait: one sleeps on Redis for all, the others stand by to be next."""

import math
import threading
import time

from distq.redisio.queue_store import QueueStore
from distq.redisio.sleeper import Sleeper


class WaitCoordinator:
    """Lets the threads of one handle wait for work."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store
        self._sleeper: Sleeper | None = None
        self._asleep: object = None
        """Who sleeps for all, if anybody does."""
        self._wake_at = math.inf
        """When the next turn is due at the latest; what any thread's last turn said counts for all."""
        self._present: set[object] = set()
        self._interrupts = 0
        self._interrupted = False
        self._ended = False
        self._lock = threading.RLock()  # a Condition's own ``with`` may be interrupted when it has the lock
        self._changed = threading.Condition(self._lock)

    def wait(self, seconds: float, at_most: float | None, *, for_work: bool) -> None:
        """Wait until there may be work, an interrupt, or until ``at_most`` seconds went by.

        The handle makes a turn after ``seconds`` at the latest, by one thread for all. Without
        ``for_work`` tokens are left to other processes.
        """
        leaves_at = math.inf if at_most is None else time.monotonic() + at_most
        waiter = object()
        try:
            with self._lock:
                self._present.add(waiter)
                self._wake_within(seconds)
                sleeper = self._fall_asleep(waiter, seconds) if self._stand_by(leaves_at) else None
            if sleeper is not None:  # for all, no longer than any thread's last turn said
                sleeper.sleep(lambda: min(self._wake_at, leaves_at), listen=for_work)
        finally:
            with self._lock:
                self._leave(waiter, leaves_at)

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._lock:
            self._interrupts += 1
            self._interrupted = not self._present
            if self._asleep is not None and self._sleeper is not None:
                self._sleeper.interrupt()
            self._changed.notify_all()

    def end(self) -> None:
        """End all waits, now and from now on."""
        with self._lock:
            self._ended = True
            if self._sleeper is not None:
                self._sleeper.end()
        self.interrupt()

    def close(self) -> None:
        """End the running waits and close the connection of the sleeper; a later wait opens another."""
        self.interrupt()
        with self._lock:
            sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.close()

    def _wake_within(self, seconds: float) -> None:
        wake_at = time.monotonic() + seconds
        if wake_at < self._wake_at:
            self._wake_at = wake_at
            if self._asleep is not None and self._sleeper is not None:
                self._sleeper.hurry()

    def _stand_by(self, leaves_at: float) -> bool:
        """Wait until nobody sleeps for the others; return False where the wait is over before."""
        interrupts = self._interrupts
        while not (self._ended or self._interrupted or self._interrupts != interrupts):
            if self._asleep is None:
                return True
            left = leaves_at - time.monotonic()
            if left <= 0:
                return False
            self._changed.wait(min(left, threading.TIMEOUT_MAX))
        self._interrupted = False
        return False

    def _fall_asleep(self, waiter: object, seconds: float) -> Sleeper:
        if self._wake_at == math.inf:
            self._wake_at = time.monotonic() + seconds
        self._asleep = waiter
        sleeper = self._sleeper or Sleeper(self._store.connection, self._store.key("wake"))
        self._sleeper = sleeper  # until close takes it away
        if self._ended:  # by a signal's handler, which found nobody asleep
            sleeper.end()
        return sleeper

    def _leave(self, waiter: object, leaves_at: float) -> None:
        """Let another sleep for all, if this one did: wherever an interrupt came."""
        try:
            if was_asleep := self._asleep is waiter:
                self._asleep = None
            self._present.discard(waiter)
            if not self._present or (was_asleep and time.monotonic() < leaves_at):
                self._wake_at = math.inf  # this thread makes the turn that is due
        finally:
            if self._asleep is None:
                self._changed.notify()
