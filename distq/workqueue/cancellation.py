"""How the end of a claim reaches its handler: an Event for each request, one deadline for all of a time."""

import math
import threading
from typing import Any

from distq.clock import SYSTEM_CLOCK, Clock

_beginning = threading.RLock()
"""Reentrant: within it the garbage collector may end a loop over ``listen``, which sets events, too."""


class ClaimPeriod:
    """The time in which claims are surely their session's own; it ends once, for all claims made in it."""

    __slots__ = ("_clock", "ends_at", "is_ended")

    def __init__(self, clock: Clock = SYSTEM_CLOCK, ends_at: float = math.inf) -> None:
        self._clock = clock
        self.ends_at = ends_at
        """By the monotonic clock; heartbeats move it."""
        self.is_ended = False
        """Never False again: moving the end brings back no claim that a thread found over."""

    def is_over(self) -> bool:
        """Return whether others may soon have the claims."""
        if not self.is_ended and self._clock.monotonic() >= self.ends_at:
            self.is_ended = True
        return self.is_ended

    def was_over(self, now: float) -> bool:
        """Return the same for a moment that the caller read from this clock: it costs a comparison."""
        if now >= self.ends_at:
            self.is_ended = True
        return self.is_ended


class LazyEvent(threading.Event):
    """A ``threading.Event`` that is made when somebody first waits for it or sets it.

    Most requests need none, and an Event's locks cost more than all else of a claim.
    """

    def __init__(self) -> None:
        """Put it off."""

    def __getattr__(self, name: str) -> Any:
        """Become an Event; asked only for what is not there, so once."""
        if name.startswith("__"):  # as the copy module asks
            raise AttributeError(name)
        with _beginning:
            if not self.__dict__:
                super().__init__()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None

    def is_set(self) -> bool:
        """Return whether it was set."""
        return bool(self.__dict__) and super().is_set()


class Cancelled(LazyEvent):
    """``Request.cancelled`` of a claim that lives in a period.

    After the deadline, or a freeze, it is set before any thread could do that.
    """

    __slots__ = ("_period",)  # outside of what makes it an Event

    def __init__(self, period: ClaimPeriod) -> None:
        self._period = period

    def is_set(self) -> bool:
        """Return whether the claim ended, or may have; then it stays so."""
        if self.__dict__ and super().is_set():
            return True
        if not self._period.is_over():
            return False
        self.set()
        return True
