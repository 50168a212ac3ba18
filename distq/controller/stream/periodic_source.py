"""Keys that come by time instead of events."""

import logging
import threading
from itertools import islice

from distq.controller.stream.source_config import SourceConfig
from distq.controller.watches import Every, require_list
from distq.errors import InvalidKey, LeaseLost
from distq.informer.backoff import Backoff
from distq.redisio.keys import validate_key
from distq.redisio.limits import BATCH_LIMIT
from distq.wording import counted
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
        """Enqueue at once and then each period, counted from its beginning; after a failure try sooner.

        Raises LeaseLost.
        """
        backoff = Backoff(self._clock)
        while not stop.is_set():
            self._require_term()
            next_time = self._clock.monotonic() + self._every.period
            try:
                self._enqueue()
            except BaseException:  # the program's own function, which may call sys.exit
                self._require_term()
                self.failures += 1
                logger.exception("%s: Every %g s failed", self._queue.name, self._every.period)
                next_time = min(next_time, self._clock.monotonic() + backoff.delay())
            self._clock.wait(stop, max(0.0, next_time - self._clock.monotonic()))

    def _enqueue(self) -> None:
        """Add the keys; one that is none is left out, and stops no other."""
        keys = iter(require_list(self._every.keys()))
        while chunk := list(islice(keys, BATCH_LIMIT)):
            odd = {place: error for place, key in enumerate(chunk) if (error := _why_no_key(key))}
            if odd:
                logger.warning(
                    "%s: Every %g s: left out %s that cannot be: %s",
                    self._queue.name,
                    self._every.period,
                    counted(len(odd), "key"),
                    next(iter(odd.values())),
                )
            self._require_term()
            good = [key for place, key in enumerate(chunk) if place not in odd]
            self._queue.add(*good, priority=self._every.priority)

    def _require_term(self) -> None:
        if not self._leadership.may_act():
            raise LeaseLost(f"{self._queue.name}: the lease was not renewed in time.")


def _why_no_key(key: str) -> InvalidKey | None:
    try:
        validate_key(key)
    except InvalidKey as error:
        return error
    return None
