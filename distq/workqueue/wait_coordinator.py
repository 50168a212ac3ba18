"""How the threads of one handle wait: one sleeps on Redis for all, the others stand by to be next."""

import math
import threading
import time
from collections.abc import Callable, Sequence

from distq.clock import SYSTEM_CLOCK
from distq.redisio.queue_store import QueueStore
from distq.redisio.sleeper import Sleeper
from distq.workqueue.signal_safe_condition import SignalSafeCondition


class WaitCoordinator:
    """Lets the threads of one handle wait for work.

    ``interrupt``, ``end`` and ``close`` take no lock: they are called in the midst of turns, and by a
    signal's handler that may have interrupted a thread anywhere in ``wait``.
    """

    def __init__(self, store: QueueStore) -> None:
        self._store = store
        self._sleeper: Sleeper | None = None
        self._asleep: object = None
        """Who sleeps for all, if anybody does."""
        self._wake_at = math.inf
        """When the next turn is due at the latest; what any thread's last turn said counts for all."""
        self._present: dict[object, int] = {}
        """The threads that wait."""
        self._last_interrupt = object()
        self._interrupted = False
        """Whether the last interrupt has ended no wait yet."""
        self._ended = False
        self._lock = threading.RLock()  # a signal's handler may wait, too
        self._changed = SignalSafeCondition()

    def wait(self, seconds: float, at_most: float | None, *, for_work: bool) -> None:
        """Wait until there may be work, an interrupt, or until ``at_most`` seconds went by.

        The handle makes a turn after ``seconds`` at the latest, by one thread for all. Without
        ``for_work`` tokens are left to other processes.
        """
        leaves_at = math.inf if at_most is None else time.monotonic() + at_most
        waiter, last_interrupt = object(), self._last_interrupt

        def is_over() -> bool:
            return self._ended or self._interrupted or self._last_interrupt is not last_interrupt

        try:
            with self._lock:
                self._present[waiter] = threading.get_ident()
                self._wake_within(seconds)
            sleeper = self._stand_by(waiter, seconds, leaves_at, is_over)
            if sleeper is not None and not is_over():  # from here on an interrupt finds the sleeper
                # for all, no longer than any thread's last turn said
                sleeper.sleep(lambda: min(self._wake_at, leaves_at), listen=for_work)
            if is_over():
                self._interrupted = False
        finally:
            with self._lock:
                self._leave(waiter, leaves_at)

    def waiting(self) -> Sequence[int]:
        """Return the threads that wait."""
        return list(self._present.copy().values())

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        self._last_interrupt, self._interrupted = object(), True
        sleeper = self._sleeper
        if sleeper is not None and self._asleep is not None:
            sleeper.interrupt()
        self._changed.notify_all()

    def end(self) -> None:
        """End all waits, now and from now on."""
        self._ended = True
        sleeper = self._sleeper
        if sleeper is not None:
            sleeper.end()
        self.interrupt()

    def close(self) -> None:
        """End the running waits and close the connection of the sleeper; a later wait opens another."""
        self.interrupt()
        sleeper = self._sleeper
        if sleeper is not None:
            sleeper.close()

    def _wake_within(self, seconds: float) -> None:
        wake_at = time.monotonic() + seconds
        if wake_at < self._wake_at:
            self._wake_at = wake_at
            if self._asleep is not None and self._sleeper is not None:
                self._sleeper.hurry()

    def _stand_by(
        self, waiter: object, seconds: float, leaves_at: float, is_over: Callable[[], bool]
    ) -> Sleeper | None:
        """Wait until nobody sleeps for the others; return the sleeper, None where the wait is over."""
        while not is_over():
            with self._lock:
                if self._asleep is None:
                    return self._fall_asleep(waiter, seconds)
            left = leaves_at - time.monotonic()
            if left <= 0:
                break
            self._changed.wait_for(lambda: self._asleep is None or is_over(), left, SYSTEM_CLOCK)
        return None

    def _fall_asleep(self, waiter: object, seconds: float) -> Sleeper:
        if self._wake_at == math.inf:
            self._wake_at = time.monotonic() + seconds
        sleeper = self._sleeper
        if sleeper is None or sleeper.is_closed:
            sleeper = Sleeper(self._store.connection, self._store.key("wake"))
        self._asleep, self._sleeper = waiter, sleeper
        if self._ended:  # by a signal's handler, which found nobody asleep
            sleeper.end()
        return sleeper

    def _leave(self, waiter: object, leaves_at: float) -> None:
        """Let another sleep for all, if this one did: wherever an interrupt came."""
        try:
            if was_asleep := self._asleep is waiter:
                self._asleep = None
            self._present.pop(waiter, None)
            if not self._present or (was_asleep and time.monotonic() < leaves_at):
                self._wake_at = math.inf  # this thread makes the turn that is due
        finally:
            if self._asleep is None:
                self._changed.notify()
