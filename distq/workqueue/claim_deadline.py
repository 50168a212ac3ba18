"""Until when a session's claims are surely its own, by the clock of this machine."""

import math
import threading

from distq.clock import Clock
from distq.workqueue.lazy_event import LazyEvent

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
        self._at = math.inf
        self._missed = False
        """Whether somebody found that it is over, and went by that."""
        self.period = object()
        """In which claims are made: another one begins once it was missed."""

    def begin(self, sent_at: float) -> None:
        """Note that a session was opened by what was sent then; claims that missed the deadline stay so."""
        self.is_over()
        self._at, self._missed = sent_at + self._lasts, False

    def extend(self, sent_at: float) -> None:
        """Note that the server answered a heartbeat that was sent then; what was missed stays so."""
        self.is_over()
        self._at = sent_at + self._lasts

    def left(self) -> float:
        """Return how many seconds are left."""
        return self._at - self._clock.monotonic()

    def is_over(self) -> bool:
        """Return whether others may soon have the claims."""
        if self._clock.monotonic() < self._at:
            return False
        self._missed, self.period = True, object()
        return True

    def take_missed(self) -> bool:
        """Return whether it is over, or was when somebody asked, since this was called last."""
        missed, self._missed = self._missed, False
        return self.is_over() or missed

    def event(self) -> threading.Event:
        """Return what is set once the claim of a request ended, or may have."""
        return _Cancelled(self)


class _Cancelled(LazyEvent):
    """``Request.cancelled``: after the deadline, or a freeze, it is set before any thread could do that.

    Nor does it help that a thread got an answer first, and moved the deadline: what it had missed is over.
    """

    __slots__ = ("_claimed_in", "_deadline")  # outside of what makes it an Event

    def __init__(self, deadline: ClaimDeadline) -> None:
        self._deadline = deadline
        self._claimed_in = deadline.period

    def is_set(self) -> bool:
        """Return whether the claim ended, or may have; then it stays so."""
        if self.__dict__ and super().is_set():
            return True
        if not self._deadline.is_over() and self._deadline.period is self._claimed_in:
            return False
        self.set()
        return True
