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

    def dead(self, error: BaseException, obj: RawObject) -> None:
        """Report that this object is dead; within the interval, later and only in number."""
        see = f'See "distq items {self._queue} --state dead".'
        words = f"{_FUNCTION} failed on %s at version %s, which is dead%s. {see}"
        self._report(words, ", and on {} before", obj, error)

    def deleted(self, error: BaseException, obj: RawObject) -> None:
        """Report that this object's deletion enqueues what was handed over for it; else as ``dead``."""
        then = "the keys that were handed over for it are enqueued"
        words = f"{_FUNCTION} failed on the deletion of %s at version %s; {then}%s."
        self._report(words, ", and {} failed before", obj, error)

    def left_out(self, obj: RawObject, of: str) -> None:
        """Report that this object is left out of the queue or the cache; else as ``dead``."""
        words = f"%.80r at version %s is left out of {of}, since its name is no key%s."
        self._report(words, ", after {} before", obj, None)

    def _report(self, words: str, others: str, obj: RawObject, error: BaseException | None) -> None:
        """Log it with these words, and how many others there were; or count it for the next report."""
        now = self._clock.monotonic()
        if now < self._next_at:
            self._unreported += 1
            logger.debug("%s: failed on %r, too", self._watch, obj.key)
            return
        self._next_at = now + INTERVAL
        more = others.format(counted(self._unreported, "object")) if self._unreported else ""
        self._unreported = 0
        level = logging.WARNING if error is None else logging.ERROR
        logger.log(level, f"%s: {words}", self._watch, obj.key, obj.version, more, exc_info=error)
