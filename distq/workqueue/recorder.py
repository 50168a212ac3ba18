"""Reports the metrics of one handle of a queue, a turn at a time.

It keeps no state for an item. The score holds when it became pending, its fence when it was claimed, and the
turn's fence when it was settled, all by the server's clock.
"""

from collections import Counter
from collections.abc import Sequence

from distq.metrics import (
    ADDS,
    CANCELLED,
    LIMITER_ERRORS,
    QUEUE_DURATION,
    REFUSED,
    RETRIES,
    REVIVED,
    UNREADABLE,
    WORK_DURATION,
    Metric,
    MetricsProvider,
)
from distq.workqueue.interface import After, Release, Retry, Settlement, Turn, all_ended
from distq.workqueue.request import Request, waited


class Recorder:
    """Counts adds and retries, measures how long items waited and were held (client-go's queueMetrics)."""

    def __init__(self, provider: MetricsProvider, queue: str) -> None:
        self._provider = provider
        self._both = (queue, queue)
        self._name = (queue,)
        for counter in (ADDS, RETRIES):
            provider.count(counter, self._both, 0)
        for counter in (REFUSED, CANCELLED, LIMITER_ERRORS, UNREADABLE, REVIVED):
            provider.count(counter, self._name, 0)
        for histogram in (QUEUE_DURATION, WORK_DURATION):
            provider.observe(histogram, self._both, ())

    def accepted(self, new: int, fitted: int, *, delayed: bool) -> None:
        """Count the items that ``add`` took; a delayed one counts as an add once it is promoted."""
        if delayed:
            self._count(RETRIES, fitted)
        else:
            self._count(ADDS, new)

    def backed_off(self, turn: Turn) -> None:
        """Count the item that ``add_rate_limited`` took, in a turn of its own."""
        self._count(RETRIES, sum(disposition.kind != "refused" for disposition in turn.dispositions))
        self._count(ADDS, turn.promoted)

    def turned(self, settlements: Sequence[Settlement], turn: Turn) -> None:
        """Record a turn: its settlements, its claims, and the items that it promoted and revived."""
        if settlements:
            self._settled(settlements, turn)
        if turn.requests:
            self.claimed(turn.requests)
        self._count(ADDS, turn.promoted)
        if turn.revived:
            self._provider.count(REVIVED, self._name, turn.revived)

    def claimed(self, requests: Sequence[Request]) -> None:
        """Measure how long these items waited."""
        self._provider.observe(QUEUE_DURATION, self._both, list(map(waited, requests)))

    def cancelled(self) -> None:
        """Count a claim that ended before it was settled."""
        self._provider.count(CANCELLED, self._name, 1)

    def limiter_failed(self) -> None:
        """Count an error of a custom rate limiter."""
        self._provider.count(LIMITER_ERRORS, self._name, 1)

    def unreadable(self, items: int) -> None:
        """Count items that are dead since they cannot be read."""
        self._provider.count(UNREADABLE, self._name, items)

    def _settled(self, settlements: Sequence[Settlement], turn: Turn) -> None:
        worked_on, delayed, refused = settlements, 0, 0
        if not all_ended(turn.dispositions):
            kinds = Counter(disposition.kind for disposition in turn.dispositions)
            refused = kinds["refused"]
            pairs = list(zip(settlements, turn.dispositions, strict=True))
            worked_on = [
                settlement
                for settlement, disposition in pairs
                if disposition.kind not in {"refused", "unknown"} and type(settlement.outcome) is not Release
            ]
            delayed = sum(
                isinstance(settlement.outcome, Retry | After) and settlement.outcome.delay != 0
                for settlement, disposition in pairs
                if disposition.kind in {"delayed", "pending"}
            )
        held = [max(0, turn.fence - settlement.request.fence) / 1e6 for settlement in worked_on]
        self._provider.observe(WORK_DURATION, self._both, held)
        self._count(RETRIES, delayed)
        if refused:
            self._provider.count(REFUSED, self._name, refused)

    def _count(self, metric: Metric, amount: int) -> None:
        if amount:
            self._provider.count(metric, self._both, amount)
