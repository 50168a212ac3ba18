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
        self._asleep = False
        self._wake_at = math.inf
        """When the next turn is due at the latest; what any thread's last turn said counts for all."""
        self._present = 0
        self._interrupts = 0
        self._interrupted = False
        self._ended = False
        self._changed = threading.Condition()

    def wait(self, seconds: float, at_most: float | None, *, for_work: bool) -> None:
        """Wait until there may be work, an interrupt, or until ``at_most`` seconds went by.

        The handle makes a turn after ``seconds`` at the latest, by one thread for all. Without
        ``for_work`` tokens are left to other processes.
        """
        leaves_at = math.inf if at_most is None else time.monotonic() + at_most
        with self._changed:
            self._present += 1
            try:
                self._wake_within(seconds)
                if self._stand_by(leaves_at):
                    self._sleep(seconds, leaves_at, for_work)
            finally:
                self._present -= 1
                if not self._present:
                    self._wake_at = math.inf
                if not self._asleep:
                    self._changed.notify()

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._changed:
            self._interrupts += 1
            self._interrupted = not self._present
            if self._asleep and self._sleeper is not None:
                self._sleeper.interrupt()
            self._changed.notify_all()

    def end(self) -> None:
        """End all waits, now and from now on."""
        with self._changed:
            self._ended = True
        self.interrupt()

    def close(self) -> None:
        """End the running waits and close the connection of the sleeper; a later wait opens another."""
        self.interrupt()
        with self._changed:
            sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.close()

    def _wake_within(self, seconds: float) -> None:
        wake_at = time.monotonic() + seconds
        if wake_at < self._wake_at:
            self._wake_at = wake_at
            if self._asleep and self._sleeper is not None:
                self._sleeper.hurry()

    def _stand_by(self, leaves_at: float) -> bool:
        """Wait until nobody sleeps for the others; return False where the wait is over before."""
        interrupts = self._interrupts
        while not (self._ended or self._interrupted or self._interrupts != interrupts):
            if not self._asleep:
                return True
            left = leaves_at - time.monotonic()
            if left <= 0:
                return False
            self._changed.wait(min(left, threading.TIMEOUT_MAX))
        self._interrupted = False
        return False

    def _sleep(self, seconds: float, leaves_at: float, for_work: bool) -> None:
        """Sleep for all, no longer than any thread's last turn said; then what it says counts."""
        if self._wake_at == math.inf:
            self._wake_at = time.monotonic() + seconds
        self._asleep = True
        sleeper = self._sleeper or Sleeper(self._store.connection, self._store.key("wake"))
        self._sleeper = sleeper  # until close takes it away
        if self._ended:  # by a signal's handler, which found nobody asleep
            sleeper.interrupt()
        self._changed.release()
        try:
            sleeper.sleep(lambda: min(self._wake_at, leaves_at), listen=for_work)
        finally:
            self._changed.acquire()
            self._asleep = False
            if time.monotonic() < leaves_at:  # this thread makes that turn
                self._wake_at = math.inf
