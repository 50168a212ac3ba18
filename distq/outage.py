"""Reports a failure that repeats in one voice: at once, then at growing intervals, until it is over."""

import logging
import time

from distq.clock import Clock
from distq.errors import DistqError
from distq.wording import counted, duration

FIRST_INTERVAL, LONGEST_INTERVAL = 10.0, 300.0
"""Seconds between two reports of the same failure; each is twice the one before."""


class Outage:
    """Reports refusals and silence of an API server, Redis or another store.

    ``name`` is the part that needs it. Every report has the failure, its begin, that it is tried again, and a
    remedy. A failure of another kind than those before is reported at once. One thread at a time.
    """

    def __init__(self, name: str, logger: logging.Logger, clock: Clock) -> None:
        self._name = name
        self._logger = logger
        self._clock = clock
        self._kinds: set[tuple[type[Exception], int]] = set()
        self._tries = 0
        self._since = self._due = 0.0
        self._interval = FIRST_INTERVAL

    def failed(self, error: Exception) -> None:
        """Count a failed try, and report it if that is due."""
        now, self._tries = self._clock.monotonic(), self._tries + 1
        if self._tries == 1:
            self._since, self._interval = now, FIRST_INTERVAL
        kind = type(error), getattr(error, "status", 0)
        if kind in self._kinds and now < self._due:
            self._logger.debug("%s: %s", self._name, error)
            return
        if now >= self._due and self._tries > 1:
            self._interval = min(2 * self._interval, LONGEST_INTERVAL)
        self._kinds.add(kind)
        self._due = now + self._interval
        text = str(error) if isinstance(error, DistqError) else f"{type(error).__name__}: {error}"
        sentence = f"{text.removesuffix('.')}."
        self._logger.warning("%s: %s Trying again%s.", self._name, sentence, self._so_far(now))

    def over(self) -> None:
        """Report that it works again, if it failed."""
        if not self._tries:
            return
        lasted = self._clock.monotonic() - self._since
        level = logging.WARNING if lasted >= FIRST_INTERVAL else logging.INFO
        self._logger.log(level, "%s: works again after %s", self._name, duration(lasted))
        self._kinds.clear()
        self._tries = 0

    def _so_far(self, now: float) -> str:
        if self._tries == 1:
            return ""
        lasted = now - self._since
        since = time.strftime("%H:%M:%S", time.localtime(self._clock.now() - lasted))
        return f"; it fails since {since}, for {duration(lasted)}, {counted(self._tries, 'time')}"
