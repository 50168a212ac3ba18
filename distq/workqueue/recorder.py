"""Reports to a metrics provider what one handle of a queue does, a turn at a time.

Nothing is kept of an item but the moment at which this process claimed it: since when it was pending is in
its score, when it was claimed by the server's clock in its fence.
"""

from collections.abc import Sequence

from distq.clock import Clock
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
from distq.workqueue.interface import After, Outcome, Release, Request, Retry, Settlement, Success, Turn


class Recorder:
    """Counts adds and retries, measures how long items waited and were held (client-go's queueMetrics)."""

    def __init__(self, provider: MetricsProvider, queue: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._both = (queue, queue)
        self._name = (queue,)
        self._claimed_at: dict[str, float] = {}
        for counter in (ADDS, RETRIES):
            provider.count(counter, self._both, 0)
        for counter in (REFUSED, CANCELLED, LIMITER_ERRORS, UNREADABLE, REVIVED):
            provider.count(counter, self._name, 0)
        for histogram in (QUEUE_DURATION, WORK_DURATION):
            provider.observe(histogram, self._both, ())

    def accepted(self, new: int, fitted: int, *, delayed: bool) -> None:
        """Count what ``add`` took: an item that comes later is an add once it is promoted."""
        if delayed:
            self._count(RETRIES, fitted)
        else:
            self._count(ADDS, new)

    def backed_off(self, turn: Turn) -> None:
        """Count what ``add_rate_limited`` took, by a turn of its own."""
        self._count(RETRIES, sum(disposition.kind != "refused" for disposition in turn.dispositions))
        self._count(ADDS, turn.promoted)

    def turned(self, settlements: Sequence[Settlement], turn: Turn) -> None:
        """Record all that a turn did."""
        now = self._clock.monotonic()
        if settlements:
            self._settled(settlements, turn, now)
        if turn.requests:
            for request in turn.requests:
                self._claimed_at[request.key] = now
            self._provider.observe(QUEUE_DURATION, self._both, list(map(waited, turn.requests)))
        self._count(ADDS, turn.promoted)
        if turn.revived:
            self._provider.count(REVIVED, self._name, turn.revived)

    def cancelled(self, request: Request) -> None:
        """Count a claim that ended before it was settled."""
        self._claimed_at.pop(request.key, None)
        self._provider.count(CANCELLED, self._name, 1)

    def limiter_failed(self) -> None:
        """Count a custom rate limiter's answer that was none."""
        self._provider.count(LIMITER_ERRORS, self._name, 1)

    def set_aside(self, items: int) -> None:
        """Count items that cannot be read."""
        self._provider.count(UNREADABLE, self._name, items)

    def _settled(self, settlements: Sequence[Settlement], turn: Turn, now: float) -> None:
        held, delayed, refused = [], 0, 0
        for settlement, disposition in zip(settlements, turn.dispositions, strict=True):
            outcome = settlement.outcome
            if disposition.kind in {"refused", "unknown"}:
                refused += disposition.kind == "refused"
                continue
            claimed_at = self._claimed_at.pop(settlement.request.key, now)
            if type(outcome) is not Release:  # no work was done
                held.append(now - claimed_at)
            if type(outcome) is not Success and disposition.kind in {"delayed", "pending"}:
                delayed += _asks_for_delay(outcome)
        self._provider.observe(WORK_DURATION, self._both, held)
        self._count(RETRIES, delayed)
        if refused:
            self._provider.count(REFUSED, self._name, refused)

    def _count(self, metric: Metric, amount: int) -> None:
        if amount:
            self._provider.count(metric, self._both, amount)


def waited(request: Request) -> float:
    """Return how long the item was pending before it was claimed, seconds; all by the server's clock."""
    return max(0.0, request.fence / 1e6 - (request.enqueued_at or 0.0))


def _asks_for_delay(outcome: Outcome) -> bool:
    return isinstance(outcome, Retry | After) and outcome.delay != 0
