"""A clock that stops until a test steps it, so that tests of hours take no time."""

import threading
import time

from distq.seconds import Duration, in_seconds

POLL = 0.002  # seconds; the clock does not learn when an event is set


class FakeClock:
    """A ``distq.clock.Clock`` whose time passes only by ``step``; one for each process that a test plays.

    Source: client-go's k8s.io/utils/clock/testing FakeClock.
    """

    def __init__(self, now: float | None = None) -> None:
        self._now = time.time() if now is None else now
        self._monotonic = 0.0
        self._deadlines: list[float] = []
        self._stepped = threading.Condition()

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds stepped so far."""
        return self._monotonic

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or the clock was stepped by ``timeout`` seconds."""
        with self._stepped:
            deadline = self._monotonic + timeout
            self._deadlines.append(deadline)
            try:
                while not event.is_set() and self._monotonic < deadline:
                    self._stepped.wait(POLL)
            finally:
                self._deadlines.remove(deadline)
        return event.is_set()

    def step(self, seconds: Duration) -> None:
        """Let time pass, for both clocks."""
        passed = in_seconds(seconds)
        with self._stepped:
            self._now = round(self._now + passed, 6)  # a µs is exact; less would add up to a wrong one
            self._monotonic += passed
            self._stepped.notify_all()

    def step_wall(self, seconds: Duration) -> None:
        """Set the wall clock forward or back, as an administrator does; no time passes."""
        with self._stepped:
            self._now += in_seconds(seconds)

    def waiters(self) -> int:
        """Return how many threads wait for time to pass, and have not been overtaken by it."""
        with self._stepped:
            return sum(deadline > self._monotonic for deadline in self._deadlines)
