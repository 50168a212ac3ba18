"""How the end of a claim reaches its handler: one Event for each request, one deadline for many claims."""

import math
import threading
from typing import Any

from distq.clock import SYSTEM_CLOCK, Clock

_beginning = threading.RLock()
"""Reentrant: within it the garbage collector may end a loop over ``listen``, which sets events, too."""


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
    """A ``threading.Event`` that creates its locks only when a thread first waits for it or sets it.

    Most requests need no event, and its locks cost more than all other parts of a claim.
    """

    def __init__(self) -> None:
        """Create no locks yet."""

    def __getattr__(self, name: str) -> Any:
        """Become an Event. Python calls this only for missing attributes, so this happens once."""
        if name.startswith("__"):  # the copy module looks for such ones
            raise AttributeError(name)
        # a reentrant lock: within ``set`` the garbage collector may end a loop, which sets this, too
        made = vars(threading.Event()) | {"_cond": threading.Condition()}
        with _beginning:
            if not self.__dict__:
                self.__dict__.update(made)  # in one step: a signal handler may raise before and after it
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None

    def is_set(self) -> bool:
        """Return whether it was set; one without locks was not."""
        return bool(self.__dict__) and super().is_set()


class Cancelled(LazyEvent):
    """``Request.cancelled`` of a claim made in a period.

    It reads as set from the deadline on, even where no thread has run since then, as after a freeze.
    """

    __slots__ = ("_period",)  # not in __dict__, whose content shows whether the Event exists

    def __init__(self, period: ClaimPeriod) -> None:
        self._period = period

    def is_set(self) -> bool:
        """Return whether the claim has ended, or may have; once True it stays True."""
        if self.__dict__ and super().is_set():
            return True
        if not self._period.is_over():
            return False
        self.set()
        return True
