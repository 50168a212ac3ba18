"""The one source of local time, so that tests can replace it.

Local time only measures waiting and silence. What is stored in a queue is
stamped by the Redis server's clock.
"""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What distq asks of a clock."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch; for people and API objects only."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or ``timeout`` seconds went by; return whether it is set."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the wall clock, seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or ``timeout`` seconds went by."""
        return event.wait(timeout)


SYSTEM_CLOCK = SystemClock()
