"""How long to wait before the next try."""

import random

from distq.clock import Clock
from distq.errors import TooManyRequests

LONGEST_RETRY_AFTER = 60.0
"""Seconds; a Retry-After of hours is a proxy's mistake."""

RESET_AFTER = 120.0
"""Seconds without use after which delays start over."""


def retry_after(error: TooManyRequests) -> float:
    """Return the seconds after which the API server wants to be asked again; 0 where it gave no time."""
    return max(0.0, min(error.retry_after, LONGEST_RETRY_AFTER))


class Backoff:
    """Jittered exponential delays that start over after a quiet time.

    Source: client-go tools/cache Reflector, 0.8 s doubling to 30 s, reset after 2 minutes without use; here
    the cap is one with its jitter.
    """

    def __init__(self, clock: Clock, *, base: float = 0.8, cap: float = 30.0) -> None:
        self._clock = clock
        self._base = base
        self._cap = cap
        self._next = base
        self._used_at = clock.monotonic()

    def delay(self) -> float:
        """Return the seconds to wait now."""
        now = self._clock.monotonic()
        if now - self._used_at > RESET_AFTER:
            self._next = self._base
        delay = min(self._cap, self._next * random.uniform(1.0, 2.0))
        self._next = min(self._cap, self._next * 2)
        self._used_at = now + delay  # the wait is no quiet time
        return delay
