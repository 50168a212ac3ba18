"""What a program's own functions fail on, in the leader's log: one in full, others in number."""

import logging

from distq.clock import Clock
from distq.informer.stored_object import StoredObject
from distq.informer.wire import RawObject
from distq.wording import counted

logger = logging.getLogger(__name__)

_FUNCTION = "a predicate, mapping or index function, or a transform"

INTERVAL = 60.0
"""Seconds between two reports of a watch that goes on past what fails: a list may bring thousands at once."""


class FailureLog:
    """Reports failures of one watch's functions; ``watch`` is what people call it. One thread at a time."""

    def __init__(self, watch: str, queue: str, clock: Clock) -> None:
        self._watch = watch
        self._queue = queue
        self._clock = clock
        self._next_at = 0.0
        self._unreported = 0
        """Objects since the last report."""

    def stopped(self, error: BaseException, obj: RawObject | StoredObject) -> None:
        """Report that the stream waits before this object."""
        logger.error(
            f"%s: {_FUNCTION} failed on %s at version %s; the stream waits until it works",
            self._watch,
            obj.key,
            obj.version,
            exc_info=error,
        )

    def parked(self, error: BaseException, obj: RawObject) -> None:
        """Report that this object is dead; within the interval, later and only in number."""
        if self._is_reported(obj):
            logger.error(
                f"%s: {_FUNCTION} failed on %s at version %s, which is dead%s. "
                'See "distq items %s --state dead".',
                self._watch,
                obj.key,
                obj.version,
                self._others(", and on {} before"),
                self._queue,
                exc_info=error,
            )

    def deleted(self, error: BaseException, obj: RawObject) -> None:
        """Report that this object's deletion enqueues what was handed over for it; else as ``parked``."""
        if self._is_reported(obj):
            logger.error(
                f"%s: {_FUNCTION} failed on the deletion of %s at version %s; the keys that were handed over "
                "for it are enqueued%s.",
                self._watch,
                obj.key,
                obj.version,
                self._others(", and {} failed before"),
                exc_info=error,
            )

    def left_out(self, obj: RawObject, of: str) -> None:
        """Report that this object is left out of the queue or the cache; else as ``parked``."""
        if self._is_reported(obj):
            logger.warning(
                "%s: %.80r at version %s is left out of %s, since its name is no key%s.",
                self._watch,
                obj.key,
                obj.version,
                of,
                self._others(", after {} before"),
            )

    def _is_reported(self, obj: RawObject) -> bool:
        """Return whether it is time for a report, else count the object for the next one."""
        now = self._clock.monotonic()
        if now < self._next_at:
            self._unreported += 1
            logger.debug("%s: failed on %r, too", self._watch, obj.key)
            return False
        self._next_at = now + INTERVAL
        return True

    def _others(self, words: str) -> str:
        """Return how many were not reported since the last report, in these words."""
        others, self._unreported = self._unreported, 0
        return words.format(counted(others, "object")) if others else ""
