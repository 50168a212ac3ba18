"""How a turn travels: settlements into the script's inputs, its reply into claims and dispositions."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from distq.redisio.keys import bytes_of, is_key, text_of
from distq.redisio.limits import COSTLY_LIMIT
from distq.redisio.records import FailureRecord
from distq.redisio.scores import decode_order
from distq.spans import link_of
from distq.workqueue.engine import Entry, RateLimitedAdd, SetAside, TurnSettings
from distq.workqueue.interface import (
    After,
    Disposition,
    Done,
    Outcome,
    Park,
    Release,
    Request,
    Retry,
    Settlement,
    Success,
)
from distq.workqueue.lazy_event import LazyEvent
from distq.workqueue.rate_limiters import Failure, fixed

ENDED, REFUSED, PENDING, PARKED, UNKNOWN = (
    Disposition("ended"),
    Disposition("refused"),
    Disposition("pending"),
    Disposition("parked"),
    Disposition("unknown"),
)


@dataclass(frozen=True)
class Encoded:
    """A turn's settlements as the script takes them; ``order`` leads back to the caller's."""

    n_ok: int
    settlements: list[str | bytes | int]
    order: list[int]


def encode(entries: Sequence[Entry], settings: TurnSettings) -> Encoded:
    """Write entries as the script takes them: the successes first, since they are many and cheap."""
    successes, others = [], []
    flat: list[str | bytes | int] = []
    flat_others: list[str | bytes | int] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, Settlement) and isinstance(entry.outcome, Success):  # as _succeeded, for mypy
            successes.append(index)
            flat += (entry.request.key, entry.request.fence)
        else:
            others.append(index)
            flat_others += _other(entry, settings)
    return Encoded(len(successes), flat + flat_others, successes + others)


def parts(entries: Sequence[Entry]) -> list[list[int]]:
    """Part what one script would take too long for, as indexes; the last part, with the successes, claims."""
    quick = [index for index, entry in enumerate(entries) if _succeeded(entry)]
    slow = [index for index, entry in enumerate(entries) if not _succeeded(entry)]
    some = [slow[start : start + COSTLY_LIMIT] for start in range(0, len(slow), COSTLY_LIMIT)] or [[]]
    return [*some[:-1], quick + some[-1]]


def _succeeded(entry: Entry) -> bool:
    return isinstance(entry, Settlement) and isinstance(entry.outcome, Success)


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


def decode(
    reply: Sequence[Any], encoded: Encoded, cancelled: Callable[[], threading.Event] = LazyEvent
) -> TurnReply:
    """Read the script's reply; ``cancelled`` makes that of each request."""
    fence, wait, alone, refusals, others, popped, records, promoted, revived, *links = reply
    dispositions = [ENDED] * encoded.n_ok + [_disposition(text) for text in others or ()]
    for index in refusals.split(b",") if refusals else ():
        dispositions[int(index) - 1] = REFUSED
    in_order = [ENDED] * len(dispositions)
    for place, disposition in zip(encoded.order, dispositions, strict=True):
        in_order[place] = disposition
    requests, unreadable = _requests(int(fence), popped, records, links[0] if links else None, cancelled)
    return TurnReply(int(fence), requests, in_order, wait / 1e6, bool(alone), promoted, revived, unreadable)


def _disposition(text: bytes) -> Disposition:
    if text == b"parked":
        return PARKED
    return PENDING if text == b"pending" else Disposition("delayed", int(text) / 1000)


def _requests(
    fence: int,
    popped: Sequence[bytes],
    records: Sequence[bytes | None] | None,
    links: Sequence[bytes] | None,
    cancelled: Callable[[], threading.Event],
) -> tuple[list[Request], list[Request]]:
    """Return what was claimed, and of it apart what cannot be read."""
    claimed, unreadable = list[Request](), list[Request]()
    of_each = zip(popped[::2], popped[1::2], records or repeat(None), links or repeat(b""), strict=False)
    for item, order, record, link in of_each:
        priority, since_us = decode_order(order)
        failure = FailureRecord.parse(record) if record is not None else None
        key, attempt = text_of(item), failure.count + 1 if failure is not None else 1
        request = Request(key, attempt, priority, fence, since_us / 1e6, cancelled(), link_of(link))
        is_readable = is_key(key, len(item)) and (failure is None or failure.readable)
        (claimed if is_readable else unreadable).append(request)
    return claimed, unreadable
