"""When a stream has caught up with what there was as its watch began."""

import math
from collections.abc import Callable

from distq.clock import Clock
from distq.informer.objects import is_older
from distq.redisio.checkpoints import MARK

QUIET_TIME = 5.0
"""Seconds after which a bookmark shows that nothing was missed, whatever its version: API servers before 1.31
leave the version of a quiet resource where it was. One that is further behind etcd is not healthy."""


class CaughtUp:
    """Calls a function once, in the stream's thread, when all is committed that there was."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._then: Callable[[], None] | None = None
        """What to call; None where nothing waits, or no longer."""
        self._present = ""
        """The version to reach, that of the first watch since ``call_once``."""
        self._present_at = 0.0
        self._bookmarked_at = -math.inf

    def call_once(self, then: Callable[[], None]) -> None:
        """Call ``then`` when it has caught up."""
        self._then = then

    @property
    def is_awaited(self) -> bool:
        """Return whether something waits for it."""
        return self._then is not None

    @property
    def behind(self) -> str:
        """Return the version that the stream has not reached yet, "" where nothing waits for it."""
        return "" if self._then is None else self._present or "unknown"

    def connected(self, present: str) -> None:
        """Take the resource's version from before a watch for the one to reach."""
        if self._then is not None and not self._present:
            self._present, self._present_at = present, self._clock.monotonic()

    def bookmarked(self) -> None:
        """Note that a bookmark came."""
        self._bookmarked_at = self._clock.monotonic()

    def check(self, checkpoint: str) -> None:
        """Call the function where a stream at this checkpoint has caught up."""
        if self._then is None or not self._present:
            return
        reached = checkpoint not in {"", MARK} and not is_older(checkpoint, self._present)
        if reached or self._bookmarked_at - self._present_at >= QUIET_TIME:
            self.reached()

    def reached(self) -> None:
        """Call the function: a list was committed, which shows what there is."""
        then, self._then = self._then, None
        if then is not None:
            then()
