"""The gauges that a provider of metrics exposes: functions that are called at each scrape or collection."""

import logging
import threading
from collections.abc import Callable, Iterable

from distq.metrics import Labels, Metric, Sample

_logger = logging.getLogger(__name__)


class ExposedGauges:
    """The functions that were given to ``expose``. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reads: dict[object, Callable[[], Iterable[Sample]]] = {}

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Call ``read`` at each scrape or collection; return the function that ends that."""
        handle = object()
        with self._lock:
            self._reads[handle] = read

        def end() -> None:
            with self._lock:
                self._reads.pop(handle, None)

        return end

    def read(self) -> dict[tuple[Metric, Labels], float]:
        """Return the gauges now; equal ones of several Managers in one process count once."""
        with self._lock:
            reads = list(self._reads.values())  # called without the lock: some wait for Redis
        gauges: dict[tuple[Metric, Labels], float] = {}
        for read in reads:
            try:
                gauges.update({(metric, labels): value for metric, labels, value in read()})
            except Exception:  # one error must not lose the other gauges
                _logger.exception("some metrics could not be read")
        return gauges
