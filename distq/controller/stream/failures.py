"""Failures of a stream: of its program's functions in the leader's log, the last error in its record."""

import logging
import re
from collections.abc import Callable
from typing import Any

from distq.clock import Clock
from distq.errors import DistqError
from distq.informer.stored_object import StoredObject
from distq.informer.wire import RawObject
from distq.wording import counted
from distq.workqueue.outcome import message_of

logger = logging.getLogger(__name__)

_FUNCTION = "a predicate, mapping or index function, or a transform"

INTERVAL = 60.0
"""Seconds between two reports of a watch that goes on past failures: a list may bring thousands at once."""


LONGEST = 1000
"""Letters of an error that a stream's record holds; it travels with each commit."""

_LOGIN = re.compile(r"(?<=://)[^\s/]+@")
_QUERY = re.compile(r"(://(?:(?!://)[^\s?])*\?)[^\s\"')\]]+")
"""A URL ends where the next one begins, so that megabytes of them are read once."""


class FailureLog:
    """Reports failures of one watch's functions: one in full, others in number. One thread at a time.

    ``failed`` is called with each, to count it.
    """

    def __init__(self, watch: str, queue: str, clock: Clock, failed: Callable[[], None]) -> None:
        self._watch = watch
        self._queue = queue
        self._clock = clock
        self._failed = failed
        self._next_at = 0.0
        self._unreported = 0
        """Objects since the last report."""

    def stopped(self, error: BaseException, obj: RawObject | StoredObject) -> None:
        """Report that the stream waits before this object."""
        self._failed()
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
        """Report that this object's deletion enqueues the keys handed over for it; else as ``dead``."""
        then = "the keys that were handed over for it are enqueued"
        words = f"{_FUNCTION} failed on the deletion of %s at version %s; {then}%s."
        self._report(words, ", and {} failed before", obj, error)

    def left_out(self, obj: RawObject, of: str = "all") -> None:
        """Report that this object is left out of the queue or the cache; else as ``dead``."""
        words = f"%.80r at version %s is left out of {of}, since its name is no key%s."
        self._report(words, ", after {} before", obj, None)

    def _report(self, words: str, others: str, obj: RawObject, error: BaseException | None) -> None:
        """Log it with these words, and how many others there were; or count it for the next report."""
        self._failed()
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


class LastError:
    """The last failure of one stream under one leader; the moments of ``clock`` are monotonic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._text = ""
        self._at = 0.0
        self._since: float | None = None
        self._went_on = False

    def failed(self, error: Exception) -> None:
        """Note a failure; the stream fails since the first one after it worked."""
        self._text, self._at = _one_line(error), self._clock.monotonic()
        self._since = self._at if self._since is None else self._since
        self._went_on = False

    def went_on(self) -> None:
        """Note that a part of a list came: it may still fail, as it did before, but until then it is slow."""
        self._went_on = True

    def over(self) -> None:
        """Note that it works."""
        self._since = None

    @property
    def lasting(self) -> str:
        """The text of the failure that lasts, empty while the stream works or a list goes on."""
        return "" if self._since is None or self._went_on else self._text

    def about(self, moment: Callable[[float], float]) -> dict[str, Any]:
        """Return its part of a stream's record, empty without a failure; ``moment`` converts times."""
        if not self._text:
            return {}
        lasts = {} if self._since is None else {"failing_since": moment(self._since)}
        return {"error": self._text, "error_at": moment(self._at), **lasts}


def _one_line(error: Exception) -> str:
    """Return the text that people see, without the logins and tokens that a URL may hold."""
    text = str(error) if isinstance(error, DistqError) else f"{type(error).__name__}: {message_of(error)}"
    text = _QUERY.sub(r"\1…", _LOGIN.sub("…@", " ".join(text.split())))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
