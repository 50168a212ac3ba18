"""Until when a session's claims are surely its own, by the clock of this machine."""

import threading

from distq.clock import Clock
from distq.workqueue.cancellation import ClaimPeriod

_TICK = 0.1
"""Seconds: the server's claim clock stands still for so long, so a heartbeat counts from that much before."""

_LONGEST_CANCEL = 5.0
"""Seconds that handlers get at most, of the claim duration, to end once they are cancelled."""


class ClaimDeadline:
    """The end of a session's claims, as far as this process knows; the server's is no sooner.

    The server counts from when it receives an ``open`` or a heartbeat, turns count for nothing. So the
    deadline is the claim duration after the last of these that was answered had been *sent*, less a tenth
    (5 s at most) in which handlers are cancelled and clean up. The time for which the machine was suspended,
    or the process frozen, counts as any other.
    """

    def __init__(self, claim_duration: float, clock: Clock) -> None:
        self.cancel_time = min(claim_duration / 10, _LONGEST_CANCEL)
        """Seconds that handlers get to end once they are cancelled."""
        self._lasts = claim_duration - _TICK - self.cancel_time
        self._clock = clock
        self._period = ClaimPeriod(clock)
        self._missed = False
        """Whether a thread found that it is over, and acted on that."""
        self._changing = threading.RLock()  # within it the garbage collector may end a loop over listen

    def begin(self, sent_at: float) -> None:
        """Note that a session was opened by what was sent then; claims that missed the deadline stay so."""
        self._move(sent_at)
        self._missed = False

    def extend(self, sent_at: float) -> None:
        """Note that the server answered a heartbeat that was sent then; what was missed stays so."""
        self._move(sent_at)

    def left(self) -> float:
        """Return how many seconds are left."""
        return self._period.ends_at - self._clock.monotonic()

    def is_over(self) -> bool:
        """Return whether others may soon have the claims."""
        now = self._clock.monotonic()
        return now >= self._period.ends_at and self._period.was_over(now)

    def take_missed(self) -> bool:
        """Return whether it is over, or was when a thread asked, since this was called last."""
        self.is_over()
        self.period()  # notes what any thread has missed; from here on it is the next one
        # in one step: a thread that finds it over meanwhile is noted for the next call
        missed, self._missed = self._missed, False
        return missed

    def period(self) -> ClaimPeriod:
        """Return that in which claims are made now: another one once a thread found the last one over."""
        if self._period.is_ended:
            with self._changing:  # two at once would lose what a heartbeat just moved
                if self._period.is_ended:
                    self._missed = True
                    self._period = ClaimPeriod(self._clock, self._period.ends_at)
        return self._period

    def _move(self, sent_at: float) -> None:
        with self._changing:
            self._period.is_over()  # if it is, that cannot be taken back
            self.period().ends_at = sent_at + self._lasts
