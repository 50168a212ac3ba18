"""Workers wait at a term's begin until a controller's caches are in step (client-go WaitForCacheSync)."""

import logging
import threading
from collections.abc import Sequence

from distq.clock import SYSTEM_CLOCK, Clock
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import Watch, resource_watches
from distq.errors import RedisError
from distq.redisio.queue_store import QueueStore
from distq.wording import duration

_logger = logging.getLogger("distq")


def must_be_in_step(watches: Sequence[Watch]) -> bool:
    """Return whether a reconcile may read one of the watches while it runs for what another handed over."""
    resources = resource_watches(watches)
    streams = sum(len(watch.namespaces or [None]) for watch in resources)
    return streams > 1 and any(watch.cached for watch in resources)


class CatchingUp:
    """Keeps a queue's items from being claimed until its cached watches have caught up with the cluster.

    While nothing led, each watch fell behind by what happened to its own resource. So what one of them hands
    over first would be reconciled by caches that lack the rest of the same moment: a child, say, that was
    there long ago. One watch alone is always in step with itself. ``timeout`` seconds after the begin the
    workers go on in any case, and Redis lets them where this leader is gone.
    """

    def __init__(
        self,
        streams: Sequence[StreamSource],
        store: QueueStore,
        *,
        epoch: str,
        timeout: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._awaited = [each for each in streams if each.is_cached] if len(streams) > 1 else []
        self._store = store
        self._epoch = epoch
        self._timeout = timeout
        self._clock = clock
        self._began = 0.0
        self._ending = threading.Lock()
        self._over = not self._awaited

    def begin(self) -> None:
        """Keep workers from claims, before any stream commits; raise RedisError where nothing was done."""
        if self._over:
            return
        self._store.run("catch_up", epoch=self._epoch, timeout=round(self._timeout * 1_000_000))
        self._began = self._clock.monotonic()
        for stream in self._awaited:
            stream.caught_up.call_once(self._look)

    def check(self) -> None:
        """End it where it takes too long, and where Redis did not answer when all had caught up."""
        if self._over:
            return
        lasted = self._clock.monotonic() - self._began
        if lasted < self._timeout:
            self._look()
            return
        behind = [
            f"{stream.resource} (version {stream.caught_up.behind})"
            for stream in self._awaited
            if stream.caught_up.is_awaited
        ]
        if behind and self._end():
            _logger.warning(
                "%s: workers go on, though these watches have not caught up within %s: %s. "
                "What they read may be older than what they reconcile.",
                self._store.name,
                duration(lasted),
                ", ".join(behind),
            )

    def _look(self) -> None:
        if not any(stream.caught_up.is_awaited for stream in self._awaited) and self._end():
            lasted = duration(self._clock.monotonic() - self._began)
            _logger.info("%s: its watches have caught up after %s", self._store.name, lasted)

    def _end(self) -> bool:
        """Let workers go on; return whether they do so now. Two streams may be the last at once."""
        with self._ending:
            if self._over:
                return False
            try:
                self._store.run("caught_up", epoch=self._epoch)
            except RedisError:  # the next look repeats it; and it ends by itself
                return False
            self._over = True
            return True
