"""Report an election's events to people and callbacks, without ever delaying a renewal."""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from distq.clock import Clock
from distq.leaderelection.config import LeaderElectionConfig
from distq.metrics import LEADER, LEADER_SLOW_PATH, Labels
from distq.outage import Outage
from distq.safe_providers import safe_metrics

logger = logging.getLogger(__name__)


class Announcer:
    """Log, call ``on_new_leader``, and record events about the lock."""

    def __init__(self, config: LeaderElectionConfig, clock: Clock) -> None:
        self._lock = config.lock
        self._on_new_leader = config.on_new_leader
        self._name = config.lock.describe()
        self._metrics = None if config.metrics is None else safe_metrics(config.metrics)
        self._labels: Labels = (config.name or self._name,)
        self._mutex = threading.Lock()
        self._leader: str | None = None
        self.outage = Outage(self._name, logger, clock)
        """Reports tries that fail, the same at growing intervals, and that they work again."""

    def exposing(self, is_leader: Callable[[], bool]) -> AbstractContextManager[object]:
        """Keep the metrics of an election while it runs."""
        scope = ExitStack()
        if self._metrics is not None:
            self._metrics.count(LEADER_SLOW_PATH, self._labels, 0)  # known before the first slow renewal
            scope.callback(self._metrics.expose(lambda: [(LEADER, self._labels, float(is_leader()))]))
        return scope

    def renews_slowly(self) -> None:
        """Count a renewal that had to read the record first."""
        if self._metrics is not None:
            self._metrics.count(LEADER_SLOW_PATH, self._labels, 1)

    def observed(self, holder: str) -> None:
        """Announce the leader if it is another one than before; "" means that no process leads."""
        with self._mutex:
            known, self._leader = self._leader == holder, holder
        if known:
            return
        logger.info("%s: %s", self._name, f"the leader is {holder}" if holder else "there is no leader")
        if self._on_new_leader is not None:
            self._in_background(self._on_new_leader, holder)

    def happened(self, message: str) -> None:
        """Log an action of this process, and record it as an event about the lock."""
        logger.info("%s: %s %s", self._name, self._lock.identity, message)
        self._in_background(self._lock.record_event, f"{self._lock.identity} {message}")

    def _in_background(self, function: Callable[[str], None], text: str) -> None:
        def call(function: Callable[[], None]) -> None:
            try:
                function()
            except Exception as error:  # noqa: BLE001 - no caller waits for the answer
                logger.warning('%s: could not report "%s": %s', self._name, text, error)

        name = f"distq-election-report-{self._name}"
        thread = threading.Thread(target=call, args=[partial(function, text)], name=name, daemon=True)
        call(thread.start)  # a process that can start no thread still leads
