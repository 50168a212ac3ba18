"""The one source of local time, so that tests can replace it.

Local time only measures waiting and silence. What is stored in a queue is
stamped by the Redis server's clock.
"""

import functools
import threading
import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What distq asks of a clock."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch; for people and API objects only."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or ``timeout`` seconds went by; return whether it is set."""


_COUNTS_SUSPEND = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clock; time that the machine spends suspended counts, where the system measures it."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch."""
        return time.time()

    monotonic = staticmethod(functools.partial(time.clock_gettime, _COUNTS_SUSPEND))
    """Return seconds that never go back; read twice for each item, so no function of Python's."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or ``timeout`` seconds went by."""
        return event.wait(timeout)


SYSTEM_CLOCK = SystemClock()
