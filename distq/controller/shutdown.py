"""Ends the work of a process: by one deadline for all its parts, even if servers do not answer.

Reconciles get the grace period. When it is over, or none is left, everything gets ``CLOSING_TIME`` more.
Threads that then wait for an answer are left behind: they end with the process, claimed items come back after
the claim duration, and a lease expires.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from distq.controller.event_queue import ONE_REQUEST
from distq.controller.runnables import Runnables
from distq.controller.worker.dispatcher import Dispatcher

if TYPE_CHECKING:
    from distq.controller.leading import Candidate

CLOSING_TIME = 1.4
"""Seconds for cancelled reconciles to clean up, to settle, to release, to close sessions."""


class Shutdown:
    """The end of dispatchers, of the candidate for the lease, and of runnables.

    One thread asks until it ``is_over``.
    """

    def __init__(
        self,
        dispatchers: Sequence[Dispatcher],
        candidates: "Sequence[Candidate]",
        runnables: Sequence[Runnables] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatchers = dispatchers
        self._candidates = candidates
        self._runnables = runnables
        self._now = clock
        self._began = self._grace_ends = self._over_at = math.inf
        self.closing_took = 0.0
        """Seconds from the last reconcile, or from the end of the grace period, until all was closed."""

    @property
    def in_progress(self) -> int:
        """Return how many claimed requests have not been settled, and how many runnables have not ended."""
        runnables = sum(len(each.running) for each in self._runnables)
        return sum(dispatcher.in_progress for dispatcher in self._dispatchers) + runnables

    @property
    def took(self) -> float:
        """Return the seconds since it began."""
        return self._now() - self._began

    @property
    def grace_left(self) -> float:
        """Return how many seconds of the grace period are left."""
        return max(0.0, self._grace_ends - self._now())

    def begin(self, grace: float) -> None:
        """Let nothing new begin, and running work end within ``grace`` seconds; again to shorten them."""
        now = self._now()
        self._began, self._grace_ends = min(self._began, now), min(self._grace_ends, now + grace)
        for candidate in self._candidates:
            candidate.stop()
        for runnables in self._runnables:
            runnables.end()
        for dispatcher in self._dispatchers:
            dispatcher.shut_down(grace)

    def end_grace_period(self) -> bool:
        """End the grace period; return False for a signal right after the begin of the shutdown."""
        if self.took < ONE_REQUEST:
            return False
        self.begin(0.0)
        return True

    def is_over(self) -> bool:
        """Return whether all has ended or had its time; once the grace period is over, cancel the rest."""
        now = self._now()
        if self._over_at == math.inf and (now >= self._grace_ends or not self.in_progress):
            self._over_at = now + CLOSING_TIME
            for dispatcher in self._dispatchers:
                dispatcher.cancel()  # its own thread may be waiting for Redis
        self.closing_took = max(0.0, now - (self._over_at - CLOSING_TIME))
        return now >= self._over_at or all(part.has_ended() for part in self._parts())

    def left_behind(self) -> str:
        """Return what was not settled or released, and how it comes back; empty if all was."""
        return ", ".join(what for part in self._parts() if (what := part.left_behind()))

    def _parts(self) -> "Iterator[Dispatcher | Candidate | Runnables]":
        yield from self._dispatchers
        yield from self._candidates
        yield from self._runnables
