"""Limits of how often a password may be tried: of a name from an address, and of all names together.

A flood of tries, perhaps from the one address that a proxy gives to all clients, would lock out people who
have the right password. So a browser that logged in before has tries of its own for that name, which no
other client can use up (source: OWASP, Slow Down Online Guessing Attacks with Device Cookies).
"""

import ipaddress
import threading
from typing import NamedTuple

from distq.clock import SYSTEM_CLOCK, Clock

MOST = 10_000
"""Buckets that are remembered; beyond them the one that was unused for longest is forgotten."""


class Pace(NamedTuple):
    """So many tries at once, and one more every so many seconds."""

    burst: int
    every: float


OF_NAME = Pace(10, 10.0)
"""Of a name from an address, or from a browser that is known."""

OF_ALL = Pace(100, 1.0)
"""Of all names from all addresses, but for browsers that are known; each try keeps a core busy."""

_Bucket = tuple[str, str, str]
_ALL: _Bucket = ("", "", "")


class Attempts:
    """Token buckets of tries, of this process alone. Safe for threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[_Bucket, tuple[float, float]] = {}
        """How many tries are used up, and as of when; the bucket that was unused for longest is first."""

    def take(self, address: str, name: str, browser: str = "") -> float:
        """Take a try; return 0.0, or the seconds to wait where there is none.

        ``browser`` is the one that asks, where it is known for this name.
        """
        now = self._clock.monotonic()
        with self._lock:
            found = [
                (bucket, pace, self._used_up(bucket, pace, now))
                for bucket, pace in _buckets(address, name, browser)
            ]
            wait = max(max(0.0, (used + 1 - pace.burst) * pace.every) for _, pace, used in found)
            for bucket, _, used in found:
                self._used.pop(bucket, None)
                if used := used if wait else used + 1:  # else a flood would push out other buckets
                    self._used[bucket] = (used, now)
            while len(self._used) > MOST:
                del self._used[next(iter(self._used))]
            return wait

    def succeeded(self, address: str, name: str, browser: str = "") -> None:
        """Give back the try that was right; wrong ones may have been another person's."""
        with self._lock:
            for bucket, _ in _buckets(address, name, browser):
                if bucket in self._used:
                    used, at = self._used[bucket]
                    self._used[bucket] = (max(0.0, used - 1), at)

    def _used_up(self, bucket: _Bucket, pace: Pace, now: float) -> float:
        used, at = self._used.get(bucket, (0.0, now))
        return max(0.0, used - (now - at) / pace.every)


def _buckets(address: str, name: str, browser: str) -> list[tuple[_Bucket, Pace]]:
    if browser:
        return [(("", name, browser), OF_NAME)]
    return [((_network(address), name, ""), OF_NAME), (_ALL, OF_ALL)]


def _network(address: str) -> str:
    """Return the addresses that one client can use: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
