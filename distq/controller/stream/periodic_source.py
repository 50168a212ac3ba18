"""Keys that come by time instead of events."""

import logging
import threading
from itertools import islice

from distq.controller.stream.source_config import SourceConfig
from distq.controller.watches import Every, require_list
from distq.errors import LeaseLost
from distq.informer.backoff import Backoff
from distq.redisio.limits import BATCH_LIMIT
from distq.workqueue.interface import WorkQueue

logger = logging.getLogger(__name__)


class PeriodicSource:
    """Enqueues the keys of an Every, each period."""

    def __init__(self, every: Every, queue: WorkQueue, config: SourceConfig) -> None:
        self.failures = 0
        self._every = every
        self._queue = queue
        self._leadership = config.leadership
        self._clock = config.clock

    def run(self, stop: threading.Event) -> None:
        """Enqueue at once and then each period, counted from its beginning; after a failure try sooner."""
        backoff = Backoff(self._clock)
        while not stop.is_set():
            next_time = self._clock.monotonic() + self._every.period
            try:
                self._enqueue()
            except LeaseLost:
                raise
            except Exception:
                self.failures += 1
                logger.exception("%s: Every %g s failed", self._queue.name, self._every.period)
                next_time = min(next_time, self._clock.monotonic() + backoff.delay())
            self._clock.wait(stop, max(0.0, next_time - self._clock.monotonic()))

    def _enqueue(self) -> None:
        keys = iter(require_list(self._every.keys()))
        while chunk := list(islice(keys, BATCH_LIMIT)):
            if not self._leadership.may_act():
                raise LeaseLost(f"{self._queue.name}: the lease was not renewed in time.")
            self._queue.add(*chunk, priority=self._every.priority)
