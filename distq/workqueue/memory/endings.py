"""How a handle's words become those of the specification, and back."""

from collections.abc import Callable, Sequence

from distq.workqueue.interface import (
    After,
    Disposition,
    Done,
    Park,
    Release,
    Request,
    Retry,
    Settlement,
    Success,
)
from distq.workqueue.memory.entries import Answer, Ending
from distq.workqueue.rate_limiters import Failure, fixed

_TOLD = {"ended": Disposition("ended"), "pending": Disposition("pending"), "parked": Disposition("parked")}
REFUSED = Disposition("refused")


def ending_of(settlement: Settlement, limiter_of: Callable[[Failure], str]) -> Ending:
    """Return how the claim ends, with the limiter of this failure."""
    key, fence = settlement.request.key, settlement.request.fence
    match settlement.outcome:
        case Success():
            return Ending(key, fence)
        case Done():
            return Ending(key, fence, "done")
        case Release():
            return Ending(key, fence, "release")
        case After(delay, priority):
            return Ending(key, fence, "after", fixed(delay), priority)
        case Park(error, traceback):
            return Ending(key, fence, "park", text=f"{error}\n{traceback}")
        case Retry(error, traceback, delay, cause):
            failure = Failure(key, settlement.request.attempt, cause)
            limiter = limiter_of(failure) if delay is None else fixed(delay)
            return Ending(key, fence, "retry", limiter, text=f"{error}\n{traceback}")


def dispositions_of(endings: Sequence[Ending], answer: Answer) -> list[Disposition]:
    """Return a disposition for each ending."""
    others = iter(answer.dispositions)
    told = ["ended" if ending.outcome == "success" else next(others) for ending in endings]
    return [
        REFUSED if place in answer.refused else _TOLD.get(text) or Disposition("delayed", int(text) / 1000)
        for place, text in enumerate(told, 1)
    ]


def requests_of(answer: Answer) -> list[Request]:
    """Return what was claimed."""
    return [
        Request(
            item,
            attempt=1 if failure is None else failure.count + 1,
            priority=stood.priority,
            fence=answer.fence,
            enqueued_at=stood.since / 1e6,
        )
        for (item, stood), failure in zip(answer.claimed, answer.failures, strict=True)
    ]
