"""The time until which a session's claims certainly belong to it, by the clock of this machine."""

import threading

from distq.clock import Clock
from distq.workqueue.cancellation import ClaimPeriod

_TICK = 0.1
"""Seconds between two steps of the server's claim clock: a heartbeat may count from that much earlier."""

_LONGEST_CANCEL = 5.0
"""The most seconds of the claim duration that cancelled handlers get to end."""


class ClaimDeadline:
    """The end of a session's claims, as this process knows it; it is never later than the server's.

    Each ``open`` and heartbeat moves it. Turns do not, because the server does not count from them. The time
    of a suspended machine or a frozen process counts like any other.
    """

    def __init__(self, claim_duration: float, clock: Clock) -> None:
        self.cancel_time = min(claim_duration / 10, _LONGEST_CANCEL)
        """Seconds that cancelled handlers get to end and clean up, before the server ends the claims."""
        self._lasts = claim_duration - _TICK - self.cancel_time
        self._clock = clock
        self._period = ClaimPeriod(clock)
        self._missed = False
        """Whether a thread has seen that a period was over, and acted on that."""
        self._changing = threading.RLock()  # within it the garbage collector may end a loop over listen

    def begin(self, sent_at: float) -> None:
        """Note a session whose ``open`` was sent then. Claims that missed the deadline stay cancelled."""
        self.extend(sent_at)
        self._missed = False  # after ``extend``, which notes that the deadline of the last session was missed

    def extend(self, sent_at: float) -> None:
        """Note an answered heartbeat that was sent then. Claims that missed the deadline stay cancelled."""
        with self._changing:
            self._period.is_over()  # if it has ended, note that first: an end is final
            # the server may count from the sending on, however late its answer comes
            self.period().ends_at = sent_at + self._lasts

    def left(self) -> float:
        """Return how many seconds are left, below 0 once it has passed."""
        return self._period.ends_at - self._clock.monotonic()

    def is_over(self) -> bool:
        """Return whether another session may soon get the claims."""
        now = self._clock.monotonic()
        return now >= self._period.ends_at and self._period.was_over(now)

    def take_missed(self) -> bool:
        """Return whether the deadline has passed, or any thread has seen it pass since the last such call."""
        with self._changing:  # a thread that misses it meanwhile is noted for the next call
            self.is_over()
            self.period()  # notes whether a thread has missed the last one, and begins the next
            missed, self._missed = self._missed, False
            return missed

    def period(self) -> ClaimPeriod:
        """Return the period of claims made now: a new one once a thread has seen the last one end."""
        if self._period.is_ended:
            with self._changing:  # two threads at once would lose the end that a heartbeat just moved
                if self._period.is_ended:
                    self._missed = True
                    self._period = ClaimPeriod(self._clock, self._period.ends_at)
        return self._period
