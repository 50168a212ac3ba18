"""How the threads of one handle wait: one sleeps on Redis for all, the others for it."""

import threading

from distq.redisio.queue_store import QueueStore
from distq.redisio.sleeper import Sleeper


class Waiting:
    """The waiting room of one handle."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store
        self._sleeper: Sleeper | None = None
        self._asleep = False
        self._interrupted = False
        self._ended = False
        self._changed = threading.Condition()

    def wait(self, seconds: float, at_most: float | None, *, for_work: bool) -> None:
        """Wait until there may be work, an interrupt, or until ``at_most`` seconds went by.

        The thread that sleeps for all wakes after ``seconds``. Without ``for_work`` it leaves tokens
        to other processes.
        """
        if at_most is not None:
            at_most = min(at_most, threading.TIMEOUT_MAX)
        with self._changed:
            if self._ended or self._interrupted:
                self._interrupted = False
                return
            if self._asleep:
                notified = self._changed.wait(at_most)
                if not notified:
                    self._notify_successor()
                return
            self._asleep = True
            if self._sleeper is None:
                self._sleeper = Sleeper(self._store.connection, self._store.key("wake"))
            sleeper = self._sleeper  # close may take it away
        try:
            sleeper.sleep(seconds if at_most is None else min(seconds, at_most), listen=for_work)
        finally:
            with self._changed:
                self._asleep = False
                self._notify_successor()

    def pass_on(self) -> None:
        """Let another thread look for work; for one that was woken and does not come back to wait."""
        with self._changed:
            self._notify_successor()

    def _notify_successor(self) -> None:
        """Wake one of the waiting threads where none sleeps for them: if it finds nothing, it will."""
        if not self._asleep:
            self._changed.notify()

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._changed:
            if self._asleep and self._sleeper is not None:
                self._sleeper.interrupt()
            else:
                self._interrupted = True
            self._changed.notify_all()

    def end(self) -> None:
        """End all waits, now and from now on."""
        with self._changed:
            self._ended = True
        self.interrupt()

    def close(self) -> None:
        """End the running waits and close the connection of the sleeper; a later wait opens another."""
        self.interrupt()
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.close()
