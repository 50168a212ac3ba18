"""What a program's own functions fail on, as the leader's log tells it: one in full, others in number."""

import logging

from distq.clock import Clock
from distq.informer.stored_object import StoredObject
from distq.informer.wire import RawObject
from distq.wording import counted

logger = logging.getLogger(__name__)

_FUNCTION = "a predicate, mapping or index function, or a transform"

INTERVAL = 60.0
"""Seconds between two reports of a watch that parks what fails: a list may bring thousands at once."""


class FailureLog:
    """Reports failures of one watch's functions; ``watch`` is what people call it. One thread at a time."""

    def __init__(self, watch: str, queue: str, clock: Clock) -> None:
        self._watch = watch
        self._queue = queue
        self._clock = clock
        self._next_at = 0.0
        self._untold = 0

    def stopped(self, error: Exception, obj: RawObject | StoredObject) -> None:
        """Report that the stream waits before this object."""
        logger.error(
            f"%s: {_FUNCTION} failed on %s at version %s; the stream stands still until it works",
            self._watch,
            obj.key,
            obj.version,
            exc_info=error,
        )

    def parked(self, error: Exception, obj: RawObject) -> None:
        """Report that this object is parked; within the interval, later and only in number."""
        now = self._clock.monotonic()
        if now < self._next_at:
            self._untold += 1
            logger.debug("%s: parked %s: %s", self._watch, obj.key, error)
            return
        logger.error(
            f"%s: {_FUNCTION} failed on %s at version %s, which is parked%s. "
            'See "distq items %s --state dead".',
            self._watch,
            obj.key,
            obj.version,
            f", and on {counted(self._untold, 'object')} before" if self._untold else "",
            self._queue,
            exc_info=error,
        )
        self._next_at, self._untold = now + INTERVAL, 0
