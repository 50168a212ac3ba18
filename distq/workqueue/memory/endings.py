"""Translates a handle's types to those of the specification, and back."""

from collections.abc import Callable, Sequence

from distq.workqueue.engine import Entry, RateLimitedAdd, UnreadableItem
from distq.workqueue.interface import ENDED, REFUSED, After, Disposition, Done, Park, Release, Retry, Success
from distq.workqueue.memory.entries import Answer, Ending
from distq.workqueue.rate_limiters import Failure, fixed
from distq.workqueue.request import Request

_BY_PLACE = {"ended": ENDED, "pending": Disposition("pending"), "parked": Disposition("dead")}


def ending_of(entry: Entry, limiter_of: Callable[[Failure], str]) -> Ending:
    """Return the end of the claim, with the limiter of this failure."""
    if isinstance(entry, RateLimitedAdd):
        return Ending(entry.key, 0, "limit", limiter_of(Failure(entry.key, entry.attempt, None)))
    key, fence = entry.request.key, entry.request.fence
    if isinstance(entry, UnreadableItem):
        return Ending(key, fence, "unreadable")
    outcome = entry.outcome
    match outcome:
        case Success():
            return Ending(key, fence)
        case Done():
            return Ending(key, fence, "done")
        case Release():
            return Ending(key, fence, "release")
        case After(delay, priority, keep_failures):
            return Ending(key, fence, "keep" if keep_failures else "after", fixed(delay), priority)
        case Park():
            return Ending(key, fence, "park", text=outcome.text)
        case Retry(delay=delay, cause=cause):
            failure = Failure(key, entry.request.attempt, cause)
            limiter = limiter_of(failure) if delay is None else fixed(delay)
            return Ending(key, fence, "retry", limiter, text=outcome.text)


def dispositions_of(endings: Sequence[Ending], answer: Answer) -> list[Disposition]:
    """Return the dispositions in the order of the endings."""
    others = iter(answer.dispositions)
    places = ["ended" if ending.outcome == "success" else next(others) for ending in endings]
    return [
        REFUSED
        if place in answer.refused
        else _BY_PLACE.get(text) or Disposition("delayed", int(text) / 1000)
        for place, text in enumerate(places, 1)
    ]


def requests_of(answer: Answer) -> list[Request]:
    """Return the claims of a turn, in their order."""
    links = answer.links or [""] * len(answer.claimed)
    return [
        Request(
            item,
            attempt=1 if failure is None else failure.count + 1,
            priority=stood.priority,
            fence=answer.fence,
            enqueued_at=stood.since / 1e6,
            link=link,
        )
        for (item, stood), failure, link in zip(answer.claimed, answer.failures, links, strict=True)
    ]
