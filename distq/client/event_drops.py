"""Counts and logs the events that are not sent: no caller waits for them, so none must vanish in silence."""

import logging
import threading
from collections import Counter
from collections.abc import Callable

from distq.clock import Clock
from distq.metrics import EVENTS_DROPPED, MetricsProvider
from distq.safe_providers import SafeMetrics, safe_metrics

LOGGED_EVERY = 300.0
"""Seconds between two messages about dropped events of a kind; the later one has their number."""

HOW = ("invalid", "full", "filtered", "refused", "unanswered")

_logger = logging.getLogger("distq.events")
_providers: list[SafeMetrics] = []
"""Where dropped events are counted: Clients are made anywhere, and a Manager has the metrics."""


def count_with(metrics: MetricsProvider) -> Callable[[], None]:
    """Count to this provider what events are dropped, until the function that is returned was called."""
    provider = safe_metrics(metrics)
    for how in HOW:
        provider.count(EVENTS_DROPPED, (how,), 0)
    _providers.append(provider)
    return lambda: _providers.remove(provider)


class EventDrops:
    """Counts events that are not sent, and logs the first of a kind, and later the number of the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._silent_until: dict[tuple[str, int], float] = {}
        self._unlogged: Counter[tuple[str, int]] = Counter()

    def add(self, how: str, why: str, level: int) -> None:
        """Count one."""
        for provider in _providers:
            provider.count(EVENTS_DROPPED, (how,), 1)
        with self._lock:
            now, kind = self._clock.monotonic(), (how, level)
            if now < self._silent_until.get(kind, now):
                self._unlogged[kind] += 1
                return
            self._silent_until[kind] = now + LOGGED_EVERY
            unlogged = self._unlogged.pop(kind, 0)
        more = f" So were {unlogged} more before it." if unlogged else ""
        _logger.log(level, "an event was dropped: %s%s", why, more)
