"""Reports to a metrics provider how a controller's reconciles ended, a batch at a time.

As controller-runtime counts them. Not counted: panics, which in Python are exceptions like others; and items
that were given back because they did not start or the process ends.
"""

from collections import Counter
from collections.abc import Sequence

from distq.controller.worker.executors import LOST
from distq.metrics import (
    OUTAGES,
    RECONCILE_ERRORS,
    RECONCILE_TIME,
    RECONCILES,
    TERMINAL_ERRORS,
    TIMEOUTS,
    MetricsProvider,
)
from distq.workqueue.interface import After, Park, Release, Retry, Settlement

RESULTS = ("success", "error", "requeue_after")


class ReconcileRecorder:
    """Counts and measures the reconciles of one controller; ``timeout`` is its reconciliation_timeout."""

    def __init__(self, provider: MetricsProvider, controller: str, timeout: float | None) -> None:
        self._provider = provider
        self._timeout = timeout
        self._labels = (controller,)
        for counter in (RECONCILE_ERRORS, TERMINAL_ERRORS, TIMEOUTS, OUTAGES):
            provider.count(counter, self._labels, 0)
        for result in RESULTS:
            provider.count(RECONCILES, (controller, result), 0)
        provider.observe(RECONCILE_TIME, self._labels, ())

    def finished(self, batch: Sequence[Settlement]) -> None:
        """Record handlers that returned or raised, with their outcomes and how long they took."""
        kinds = Counter(type(each.outcome) for each in batch)
        failed = kinds[Retry] + kinds[Park]
        delayed = kinds[After]
        succeeded = len(batch) - failed - delayed - kinds[Release]
        for result, amount in zip(RESULTS, (succeeded, failed, delayed), strict=True):
            if amount:
                self._provider.count(RECONCILES, (*self._labels, result), amount)
        if failed:
            self._provider.count(RECONCILE_ERRORS, self._labels, failed)
            self._provider.count(TERMINAL_ERRORS, self._labels, kinds[Park])
            self._provider.count(TIMEOUTS, self._labels, sum(map(self._timed_out, batch)))
        # LOST is a Release, too, but of a handler that ran
        took = [each.took for each in batch if each.outcome is LOST or type(each.outcome) is not Release]
        self._provider.observe(RECONCILE_TIME, self._labels, took)

    def outage(self) -> None:
        """Count that Redis did not answer a turn; once, until it answers again."""
        self._provider.count(OUTAGES, self._labels, 1)

    def _timed_out(self, finished: Settlement) -> bool:
        if self._timeout is None or not isinstance(finished.outcome, Retry):
            return False
        return isinstance(finished.outcome.cause, TimeoutError) and finished.took >= self._timeout
