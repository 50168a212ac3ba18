"""Workers wait at a term's begin until a controller's caches are in step (client-go WaitForCacheSync).

A stream has caught up when it has committed all that had happened before its watch began.
"""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from distq.clock import SYSTEM_CLOCK, Clock
from distq.controller.watches import Watch, resource_watches
from distq.errors import RedisError
from distq.informer.objects import is_older
from distq.redisio.checkpoints import MARK
from distq.redisio.queue_store import QueueStore
from distq.wording import duration

_logger = logging.getLogger("distq")

QUIET_TIME = 5.0
"""Seconds after which a bookmark of any version shows that nothing was missed: API servers before 1.31
leave the version of a quiet resource where it was. One that is further behind etcd is not healthy."""


class CaughtUp:
    """Calls a function once, in the stream's thread, when the stream has caught up."""

    def __init__(self, resource: str, clock: Clock) -> None:
        self.resource = resource
        self._clock = clock
        self._then: Callable[[], None] | None = None
        """The function to call; None if nothing waits for it."""
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
        """Return the version that the stream has not reached yet, "" if nothing waits for it."""
        return "" if self._then is None else self._present or "unknown"

    def connected(self, present: str) -> None:
        """Take the resource's version from before a watch for the one to reach."""
        if self._then is not None and not self._present:
            self._present, self._present_at = present, self._clock.monotonic()

    def bookmarked(self) -> None:
        """Note that a bookmark came."""
        self._bookmarked_at = self._clock.monotonic()

    def check(self, checkpoint: str) -> None:
        """Call the function if a stream at this checkpoint has caught up."""
        if self._then is None or not self._present:
            return
        reached = checkpoint not in {"", MARK} and not is_older(checkpoint, self._present)
        if reached or self._bookmarked_at - self._present_at >= QUIET_TIME:
            self.reached()

    def reached(self) -> None:
        """Call the function: a list was committed, which shows all objects."""
        then, self._then = self._then, None
        if then is not None:
            then()


def must_be_in_step(watches: Sequence[Watch]) -> bool:
    """Return whether a reconcile may read the cache of one stream while it runs for an event of another.

    One stream alone is always in step with itself.
    """
    resources = resource_watches(watches)
    streams = sum(len(watch.namespaces or [None]) for watch in resources)
    return streams > 1 and any(watch.cached for watch in resources)


@dataclass(eq=False)
class CatchingUp:
    """Keeps a queue's items from being claimed until its cached watches have caught up with the cluster.

    While no process led, each watch fell behind. The keys of the first one to catch up would be reconciled
    with caches of the others that lack, say, a child that was created long before. ``timeout`` seconds after
    the begin the workers go on in any case; if this leader is gone, Redis lets them.
    """

    awaited: Sequence[CaughtUp]
    store: QueueStore
    _: KW_ONLY
    epoch: str
    timeout: float
    clock: Clock = SYSTEM_CLOCK
    _began: float = field(default=0.0, init=False)
    _ending: threading.Lock = field(default_factory=threading.Lock, init=False)
    _over: bool = field(default=True, init=False)
    """No worker waits: it has not begun, or has ended."""

    def begin(self) -> None:
        """Keep workers from claims, before any stream commits; a RedisError changes nothing."""
        if not self.awaited:
            return
        self.store.run("catch_up", epoch=self.epoch, timeout=round(self.timeout * 1_000_000))
        self._began, self._over = self.clock.monotonic(), False
        for stream in self.awaited:
            stream.call_once(self._look)

    def check(self) -> None:
        """End it if it takes too long, or if Redis did not answer when all had caught up."""
        if self._over:
            return
        lasted = self.clock.monotonic() - self._began
        if lasted < self.timeout:
            self._look()
            return
        behind = [
            f"{stream.resource} (version {stream.behind})" for stream in self.awaited if stream.is_awaited
        ]
        if behind and self._end():
            _logger.warning(
                "%s: workers go on, though these watches have not caught up within %s: %s. "
                "What they read may be older than what they reconcile.",
                self.store.name,
                duration(lasted),
                ", ".join(behind),
            )

    def _look(self) -> None:
        if not any(stream.is_awaited for stream in self.awaited) and self._end():
            lasted = duration(self.clock.monotonic() - self._began)
            _logger.info("%s: its watches have caught up after %s", self.store.name, lasted)

    def _end(self) -> bool:
        """Let workers go on; return whether they do so now."""
        with self._ending:  # two streams may be the last at once
            if self._over:
                return False
            try:
                self.store.run("caught_up", epoch=self.epoch)
            except RedisError:  # the next look repeats it; and it ends by itself
                return False
            self._over = True
            return True
