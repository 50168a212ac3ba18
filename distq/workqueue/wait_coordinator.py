"""Waiting of the threads of one handle: one sleeps on Redis for all, the others wait to take over."""

import math
import threading
import time

from distq.redisio.queue_store import QueueStore
from distq.redisio.sleeper import Sleeper


class WaitCoordinator:
    """Lets the threads of one handle wait for work."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._sleeper: Sleeper | None = None
        self._is_asleep = False
        """Whether a thread sleeps on Redis for all."""
        self._wake_at = math.inf
        """The latest time of the next turn: the earliest that any thread's last turn returned."""
        self._waiting = 0
        self._interrupts = 0
        self._interrupted = False
        """Whether the last interrupt has not ended a wait yet; then it ends the next one."""
        self._ended = False

    def wait(self, seconds: float, at_most: float | None, *, for_work: bool) -> None:
        """Wait until there may be work, an interrupt comes, or ``at_most`` seconds went by.

        After ``seconds`` at the latest one thread wakes and makes a turn for all. Without ``for_work`` other
        processes get the wake tokens.
        """
        leaves_at = math.inf if at_most is None else time.monotonic() + at_most
        with self._changed:
            interrupts, sleeper = self._interrupts, None
            self._waiting += 1
            self._wake_within(seconds)
            while not self._is_over(interrupts) and self._is_asleep and time.monotonic() < leaves_at:
                self._changed.wait(min(leaves_at - time.monotonic(), threading.TIMEOUT_MAX))
            if not (self._is_over(interrupts) or self._is_asleep):
                sleeper = self._fall_asleep(seconds)
        try:
            if sleeper is not None:  # from here on an interrupt finds it
                # for all threads: no longer than any thread's last turn returned
                sleeper.sleep(lambda: min(self._wake_at, leaves_at), listen=for_work)
        finally:
            with self._changed:
                if self._is_over(interrupts):
                    self._interrupted = False
                self._leave(leaves_at, was_asleep=sleeper is not None)

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._changed:
            self._interrupts += 1
            self._interrupted = True
            if self._sleeper is not None and self._is_asleep:
                self._sleeper.interrupt()
            self._changed.notify_all()

    def end(self) -> None:
        """End all waits, now and from now on."""
        with self._changed:
            self._ended = True
            if self._sleeper is not None:
                self._sleeper.end()
            self.interrupt()

    def close(self) -> None:
        """End the running waits and close the connection of the sleeper; a later wait opens another."""
        with self._changed:
            self.interrupt()
            if self._sleeper is not None:
                self._sleeper.close()

    def _is_over(self, interrupts: int) -> bool:
        return self._ended or self._interrupted or self._interrupts != interrupts

    def _wake_within(self, seconds: float) -> None:
        wake_at = time.monotonic() + seconds
        if wake_at < self._wake_at:
            self._wake_at = wake_at
            if self._is_asleep and self._sleeper is not None:
                self._sleeper.hurry()

    def _fall_asleep(self, seconds: float) -> Sleeper:
        if self._wake_at == math.inf:
            self._wake_at = time.monotonic() + seconds
        if self._sleeper is None or self._sleeper.is_closed:
            self._sleeper = Sleeper(self._store.connection, self._store.key("wake"))
        self._is_asleep = True
        return self._sleeper

    def _leave(self, leaves_at: float, *, was_asleep: bool) -> None:
        """Let another thread sleep for all, if this one did."""
        self._waiting -= 1
        if was_asleep:
            self._is_asleep = False
        if not self._waiting or (was_asleep and time.monotonic() < leaves_at):
            self._wake_at = math.inf  # this thread makes the turn that is due
        if not self._is_asleep:
            self._changed.notify()
