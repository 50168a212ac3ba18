"""How a turn travels: settlements into the script's inputs, its reply into claims and dispositions.

All is done by columns, since a worker that is busy pays it for each item.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from distq.redisio.keys import are_keys, bytes_of, is_key, texts_of
from distq.redisio.limits import COSTLY_LIMIT
from distq.redisio.records import FailureRecord
from distq.redisio.scores import decode_orders
from distq.spans import link_of
from distq.workqueue.cancellation import ClaimPeriod
from distq.workqueue.engine import Entry, RateLimitedAdd, SetAside, TurnSettings
from distq.workqueue.interface import (
    ENDED,
    REFUSED,
    After,
    Disposition,
    Done,
    Outcome,
    Park,
    Release,
    Request,
    Retry,
    Success,
    claimed_requests,
)
from distq.workqueue.rate_limiters import Failure, fixed

PENDING, PARKED, UNKNOWN = Disposition("pending"), Disposition("parked"), Disposition("unknown")


@dataclass(frozen=True)
class Encoded:
    """A turn's settlements as the script takes them: the successes first, since they are many and cheap.

    ``others`` are the places of the rest among the entries, None where there is none.
    """

    n_ok: int
    settlements: list[str | bytes | int]
    others: list[int] | None = None


def encode(entries: Sequence[Entry], settings: TurnSettings) -> Encoded:
    """Write entries as the script takes them."""
    others = _others(entries)
    if not others:
        return Encoded(len(entries), _successes(entries))
    rare = {*others}
    successes = [entry for place, entry in enumerate(entries) if place not in rare]
    flat = _successes(successes)
    for place in others:
        flat += _other(entries[place], settings)
    return Encoded(len(successes), flat, others)


def parts(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Part what one script would take too long for; the last part, with the successes, claims."""
    others = _others(entries)
    if len(others) <= COSTLY_LIMIT:
        return [entries]
    rare = {*others}
    quick = [entry for place, entry in enumerate(entries) if place not in rare]
    slow = [entries[place] for place in others]
    *some, rest = [slow[start : start + COSTLY_LIMIT] for start in range(0, len(slow), COSTLY_LIMIT)]
    return [*some, quick + rest]


def _others(entries: Sequence[Entry]) -> list[int]:
    """Return the places of what is no success."""
    return [place for place, entry in enumerate(entries) if entry.outcome.__class__ is not Success]


def _successes(entries: Sequence[Entry]) -> list[str | bytes | int]:
    """Return item and fence of each; fences as texts, since those of a turn are one number."""
    texts = dict[int, str]()
    flat: list[str | bytes | int] = []
    for entry in entries:
        request = entry.request  # type: ignore[union-attr]  # of a settlement, as its outcome shows
        fence = request.fence
        flat += request.key, texts.get(fence) or texts.setdefault(fence, str(fence))
    return flat


def _other(entry: Entry, settings: TurnSettings) -> tuple[str | bytes | int, ...]:
    """Return (item, fence, outcome, limiter, priority, text)."""
    if isinstance(entry, RateLimitedAdd):
        limiter = settings.own_limiter(Failure(entry.key, entry.attempt, None), None)
        return entry.key, "", "limit", limiter, 0, ""
    request = entry.request
    item = bytes_of(request.key)  # which may be no key
    if isinstance(entry, SetAside):
        return item, request.fence, "unreadable", "", "", ""
    return item, request.fence, *_outcome(request, entry.outcome, settings)


def _outcome(request: Request, outcome: Outcome, settings: TurnSettings) -> tuple[str | int, ...]:
    match outcome:
        case Retry(delay=delay, cause=cause):
            limiter = settings.own_limiter(Failure(request.key, request.attempt, cause), delay)
            return "retry", limiter, "", outcome.text
        case Park():
            return "park", "", "", outcome.text
        case After(delay, priority, keep_failures):
            how = "keep" if keep_failures else "after"
            return how, fixed(delay), "" if priority is None else priority, ""
        case Release():
            return "release", "", "", ""
        case Done() | Success():
            return "done", "", "", ""


@dataclass(frozen=True)
class TurnReply:
    """What the script replied; dispositions in the order of the entries, ``wait`` in seconds.

    ``fence`` is when the turn was, µs by the server's clock, and the fence of all that it claimed.
    ``alone``: the one request is a suspect, ask for nothing until it ended; without a request: the session
    empties itself for a suspect, ask again. ``promoted``: how many items became pending now,
    ``revived``: how many of them were dead.
    ``unreadable`` are claims that nobody can be given, since the key or the failure record makes no sense.
    """

    fence: int
    requests: list[Request]
    dispositions: list[Disposition]
    wait: float
    alone: bool
    promoted: int = 0
    revived: int = 0
    unreadable: Sequence[Request] = ()


def decode(reply: Sequence[Any], encoded: Encoded, period: ClaimPeriod) -> TurnReply:
    """Read the script's reply; what it claimed is claimed in this period."""
    fence, wait, alone, refusals, others, popped, records, promoted, revived, *links = reply
    dispositions = _dispositions(encoded, refusals, others or ())
    made_at = int(fence)
    requests, odd = _requests(made_at, popped, records, links[0] if links else None, period)
    return TurnReply(made_at, requests, dispositions, wait / 1e6, bool(alone), promoted, revived, odd)


def _dispositions(encoded: Encoded, refusals: bytes, others: Sequence[bytes]) -> list[Disposition]:
    dispositions = [ENDED] * encoded.n_ok + [_disposition(text) for text in others]
    for index in refusals.split(b",") if refusals else ():
        dispositions[int(index) - 1] = REFUSED
    if encoded.others is None:
        return dispositions
    successes, rest = iter(dispositions[: encoded.n_ok]), iter(dispositions[encoded.n_ok :])
    rare = {*encoded.others}
    return [next(rest if place in rare else successes) for place in range(len(dispositions))]


def _disposition(text: bytes) -> Disposition:
    if text == b"parked":
        return PARKED
    return PENDING if text == b"pending" else Disposition("delayed", int(text) / 1000)


def _requests(
    fence: int,
    popped: Sequence[bytes],
    records: Sequence[bytes | None] | None,
    links: Sequence[bytes] | None,
    period: ClaimPeriod,
) -> tuple[list[Request], list[Request]]:
    """Return what was claimed, and of it apart what cannot be read."""
    if not popped:
        return [], []
    items = popped[::2]
    keys = texts_of(items)
    priorities, pending_since = decode_orders(popped[1::2])
    failures = [None if record is None else FailureRecord.parse(record) for record in records or ()]
    attempts = [1 if failure is None else failure.count + 1 for failure in failures] or repeat(1)
    texts = map(link_of, links) if links else repeat("")
    columns = zip(keys, attempts, priorities, pending_since, texts, strict=False)
    requests = claimed_requests(columns, fence, period)
    if are_keys(keys, items) and all(failure is None or failure.readable for failure in failures):
        return requests, []
    readable = [
        is_key(key, len(item)) and (failure is None or failure.readable)
        for key, item, failure in zip(keys, items, failures or repeat(None), strict=False)
    ]
    return (
        [request for request, is_readable in zip(requests, readable, strict=True) if is_readable],
        [request for request, is_readable in zip(requests, readable, strict=True) if not is_readable],
    )
