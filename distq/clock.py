"""The one source of local time, so that tests can replace it.

Local time only measures waiting and silence. The Redis server's clock sets all times that a queue stores.
"""

import functools
import threading
import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """The clock that distq needs."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch; for people and API objects only."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or ``timeout`` seconds went by; return whether it is set."""


# Leases and claims run out while this machine is suspended
_COUNTS_SUSPEND = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clock; time in which the machine is suspended counts, if the system measures it."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch."""
        return time.time()

    monotonic = staticmethod(functools.partial(time.clock_gettime, _COUNTS_SUSPEND))
    """Return seconds that never go back; each item reads it twice, so this is not a Python function."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or ``timeout`` seconds went by."""
        return event.wait(timeout)


SYSTEM_CLOCK = SystemClock()
