"""Keys that come by time instead of events."""

import logging
import threading
from collections.abc import Sequence
from itertools import islice

from distq.controller.stream.source_config import SourceConfig
from distq.controller.watches import Every, require_list, title
from distq.errors import InvalidKey, LeaseLost
from distq.informer.backoff import Backoff
from distq.redisio.keys import validate_key
from distq.redisio.limits import BATCH_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.wording import counted
from distq.workqueue.interface import WorkQueue

logger = logging.getLogger(__name__)


class PeriodicSource:
    """Enqueues the keys of an Every, each period."""

    def __init__(self, every: Every, queue: WorkQueue, config: SourceConfig) -> None:
        self._every = every
        self._queue = queue
        self._store = QueueStore(config.connection, config.queue)
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
                logger.exception("%s: %s failed", self._queue.name, self)
                next_time = min(next_time, self._clock.monotonic() + backoff.delay())
            self._clock.wait(stop, max(0.0, next_time - self._clock.monotonic()))

    def __str__(self) -> str:
        return title(self._every)

    def _enqueue(self) -> None:
        """Add the keys, but those that are dead: no object of theirs changed, and no one asked for them.

        One that becomes dead between the look and the add is tried once more, as if it had been added before.
        """
        keys = iter(require_list(self._every.keys()))
        while chunk := list(islice(keys, BATCH_LIMIT)):
            good = self._without_odd(chunk)
            self._require_term()
            (dead,) = self._store.read(("ZMSCORE", "dead", *good)) if good else ([],)
            alive = [key.decode() for key, parked_at in zip(good, dead, strict=True) if parked_at is None]
            self._queue.add(*alive, priority=self._every.priority)

    def _without_odd(self, keys: Sequence[str]) -> list[bytes]:
        """Return the keys, but what is none; one must stop no other."""
        good, odd = [], []
        for key in keys:
            try:
                good.append(validate_key(key))
            except InvalidKey as error:
                odd.append(error)
        if odd:
            left_out = counted(len(odd), "key")
            logger.warning("%s: %s: left out %s, such as: %s", self._queue.name, self, left_out, odd[0])
        return good

    def _require_term(self) -> None:
        if not self._leadership.may_act():
            raise LeaseLost(f"{self._queue.name}: the lease was not renewed in time.")
