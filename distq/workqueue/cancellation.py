"""How the end of a claim reaches its handler: one Event for each request, one deadline for many claims."""

import math
import threading
from typing import Any

from distq.clock import SYSTEM_CLOCK, Clock


class ClaimPeriod:
    """The time in which claims certainly belong to their session. It ends once, for all claims made in it."""

    __slots__ = ("_clock", "ends_at", "is_ended")

    def __init__(self, clock: Clock = SYSTEM_CLOCK, ends_at: float = math.inf) -> None:
        self._clock = clock
        self.ends_at = ends_at
        """A time of the monotonic clock; each answered heartbeat moves it forward."""
        self.is_ended = False
        """Once True it stays True: a later ``ends_at`` revives no claim that a thread has seen as ended."""

    def is_over(self) -> bool:
        """Return whether another session may soon get the claims."""
        if not self.is_ended and self._clock.monotonic() >= self.ends_at:
            self.is_ended = True
        return self.is_ended

    def was_over(self, now: float) -> bool:
        """Return the same for a time that the caller has read from this clock; it costs one comparison."""
        if now >= self.ends_at:
            self.is_ended = True
        return self.is_ended


class LazyEvent(threading.Event):
    """A ``threading.Event`` that creates its lock only when a thread first waits for it or sets it.

    Most requests need no event, and its lock costs more than all other parts of a claim.
    """

    _flag = False
    """Event's own attribute. As the class has it, an event without a lock reads as not set."""

    def __init__(self) -> None:
        """Create no lock yet."""

    def __getattr__(self, name: str) -> Any:
        """Create the lock, in one step: threads that race get the same one.

        It is reentrant: within ``set`` the garbage collector may end a loop over ``listen``, which sets it.
        """
        if name != "_cond":
            raise AttributeError(name)
        return self.__dict__.setdefault("_cond", threading.Condition())


class Cancelled(LazyEvent):
    """``Request.cancelled`` of a claim made in a period.

    It reads as set from the deadline on, even where no thread has run since then, as after a freeze.
    """

    __slots__ = ("_period",)

    def __init__(self, period: ClaimPeriod) -> None:
        self._period = period

    def is_set(self) -> bool:
        """Return whether the claim has ended, or may have; once True it stays True."""
        if super().is_set():
            return True
        if not self._period.is_over():
            return False
        self.set()
        return True
