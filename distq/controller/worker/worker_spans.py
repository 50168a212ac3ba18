"""The spans of one controller: its reconciles, and the turns that claim and settle their items."""

import time
from collections.abc import Callable, Sequence

from distq import spans
from distq.errors import RedisError
from distq.spans import Attributes, OpenSpan, SpanFailure, SpanProvider, failure_of, of_queue
from distq.workqueue.interface import Outcome, Park, Retry, Settlement, Turn
from distq.workqueue.request import Request, waited

CANCELLED = "cancelled"
"""In place of an outcome if the claim was lost meanwhile."""


class WorkerSpans:
    """The spans of one controller in this process."""

    def __init__(self, provider: SpanProvider, queue: str) -> None:
        self._provider = provider
        self._queue = queue
        self._begun: dict[int, OpenSpan] = {}

    def begin(self, request: Request) -> None:
        """Begin a reconcile, in the thread or task of its handler."""
        about: Attributes = {
            "distq.key": request.key,
            "distq.attempt": request.attempt,
            "distq.priority": request.priority,
            "distq.fence": request.fence,
            "distq.waited": waited(request),
        }
        self._begun[id(request)] = self._provider.begin(
            f"reconcile {self._queue}",
            "consumer",
            {**of_queue(self._queue, "reconcile", "process"), **about},
            link=request.link,
        )
        spans.enter(self._provider)

    def end(self, request: Request, outcome: Outcome | None) -> None:
        """End a reconcile with its outcome, in the same thread or task; without a begin there is no span."""
        span = self._begun.pop(id(request), None)
        if span is None:
            return
        kind = CANCELLED if outcome is None else type(outcome).__name__.lower()
        span.end({"distq.outcome": kind}, _failure(outcome))

    def turn(self, make: Callable[[], Turn], settlements: Sequence[Settlement], want: int) -> Turn:
        """Make a turn, with a span unless it found nothing to do."""
        since = time.time()  # the span is made afterwards: most turns of an idle worker have none
        try:
            turn = make()
        except RedisError as error:
            self._turned(since, settlements, 0, failure_of(error, str(error)))
            raise
        # the spare claims of one that wanted none are those of the turn before
        claimed = len(turn.requests) + turn.spare if want else 0
        if settlements or claimed:
            self._turned(since, settlements, claimed, None)
        return turn

    def _turned(
        self, since: float, settlements: Sequence[Settlement], claimed: int, failure: SpanFailure | None
    ) -> None:
        span = self._provider.begin(
            f"turn {self._queue}", "client", of_queue(self._queue, "turn", "receive"), since=since
        )
        about = {"messaging.batch.message_count": claimed, "distq.settled": len(settlements)}
        span.end(about, failure)


def _failure(outcome: Outcome | None) -> SpanFailure | None:
    """Return a failure as Redis remembers it: texts that are bounded and can be shown."""
    if not isinstance(outcome, Retry | Park):
        return None
    if outcome.cause is None:
        return SpanFailure("_OTHER", outcome.error, outcome.traceback)
    return failure_of(outcome.cause, outcome.error, outcome.traceback)
