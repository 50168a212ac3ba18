"""How often somebody may try a password."""

import ipaddress
import threading

from distq.clock import SYSTEM_CLOCK, Clock

BURST = 10
"""Tries of an address at once."""

EVERY = 10.0
"""Seconds until it gets one more."""

MOST = 10_000
"""Addresses that are remembered; beyond them the one that has been quiet for longest is forgotten."""


class Attempts:
    """A token bucket of tries for each address. Safe for threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[str, tuple[float, float]] = {}
        """By address, the quiet ones first: how many tries are used up, and as of when."""

    def take(self, address: str) -> float:
        """Take a try; return 0.0, or the seconds to wait where there is none."""
        place, now = _place(address), self._clock.monotonic()
        with self._lock:
            used, at = self._used.pop(place, (0.0, now))
            used = max(0.0, used - (now - at) / EVERY)
            wait = max(0.0, (used + 1 - BURST) * EVERY)
            self._used[place] = (used if wait else used + 1, now)
            if len(self._used) > MOST:
                del self._used[next(iter(self._used))]
            return wait

    def succeeded(self, address: str) -> None:
        """Give an address the try back that let somebody in; wrong ones may have been at others' names."""
        place = _place(address)
        with self._lock:
            if place in self._used:
                used, at = self._used[place]
                self._used[place] = (max(0.0, used - 1), at)


def _place(address: str) -> str:
    """Return what one person can use: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
