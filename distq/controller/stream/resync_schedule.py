"""When a stream is resynced: each period, also where leaders change."""

import logging
import random
from collections.abc import Callable

from distq.clock import Clock
from distq.controller.stream.relist import Resync
from distq.controller.stream.routing import RoutingError
from distq.errors import ApiError, TooManyRequests
from distq.informer.backoff import retry_after

logger = logging.getLogger(__name__)

PAUSE = 0.2  # seconds between two steps; events go first
RETRY = 60.0  # seconds after one that failed


class ResyncSchedule:
    """Makes a resync each period, step by step; the next leader learns when the last one was.

    ``period`` in seconds, 0 for never. ``last`` is when everything was enqueued last, by the wall clock.
    """

    def __init__(self, period: float, begin: Callable[[], Resync], clock: Clock) -> None:
        self.last = 0.0
        self._period = period
        self._begin = begin
        self._clock = clock
        self._resync: Resync | None = None  # the one under way
        self._next_at = float("inf")  # when it goes on, or the next begins

    def plan(self, last: float) -> None:
        """Set the time of the next one, since everything was enqueued at ``last``."""
        self.last, self._resync = last, None
        if self._period:
            due = last + self._period * random.uniform(0.9, 1.1)
            self._next_at = self._clock.monotonic() + min(due - self._clock.now(), 1.1 * self._period)

    def interrupt(self) -> None:
        """Begin anew what is under way: the stream may be at another position by now."""
        self._resync = None

    def due(self) -> bool:
        """Return whether there is a step to take."""
        return self._clock.monotonic() >= self._next_at

    def step(self) -> bool:
        """Take a step; return whether that was the last. What cuts it short makes it begin anew, later.

        Raises what a step of Resync raises, save ApiError and RoutingError, which are logged.
        """
        began = self._clock.monotonic()
        if self._resync is None:
            self._resync = self._begin()
            logger.info("%s: resync, each %g s", self._resync.name, self._period)
        resync = self._resync
        try:
            whole = resync.step()
        except Exception as error:
            if isinstance(error, TooManyRequests) and resync.begun and (asked := retry_after(error)):
                self._next_at = began + asked
                return False
            self._resync, self._next_at = None, began + RETRY
            if not isinstance(error, ApiError | RoutingError):
                raise
            logger.warning("%s: resync: %s Again in %g s.", resync.name, error, RETRY)
            return False
        self._next_at = self._clock.monotonic() + PAUSE
        if whole:
            self.plan(self._clock.now())
        return whole
