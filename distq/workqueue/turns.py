"""The encoding of a turn: settlements to the script's inputs, its reply to claims and dispositions.

It works column by column, since a busy worker pays this cost for each item.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeVar

from distq.redisio.keys import are_keys, bytes_of, is_key, texts_of
from distq.redisio.limits import COSTLY_LIMIT
from distq.redisio.records import FailureRecord
from distq.redisio.scores import decode_orders
from distq.spans import link_of
from distq.workqueue.cancellation import ClaimPeriod
from distq.workqueue.engine import Entry, RateLimitedAdd, TurnSettings, UnreadableItem
from distq.workqueue.interface import (
    ENDED,
    REFUSED,
    After,
    Disposition,
    Done,
    Outcome,
    Park,
    Release,
    Retry,
    Success,
)
from distq.workqueue.rate_limiters import Failure, fixed
from distq.workqueue.request import Request, claimed_requests

Kind = TypeVar("Kind", bound=Entry)

PENDING, DEAD, UNKNOWN = Disposition("pending"), Disposition("dead"), Disposition("unknown")


def encode(entries: Sequence[Entry], settings: TurnSettings) -> tuple[list[str | bytes | int], Sequence[int]]:
    """Return entries as the script takes them, and the places of those that are no successes.

    The successes come first, since they are many and cheap: item and fence of each.
    """
    flat: list[str | bytes | int] = []
    others: list[int] = []
    fence, text = -1, ""
    for place, entry in enumerate(entries):
        if entry.outcome.__class__ is not Success:
            others.append(place)
            continue
        request = entry.request
        if request.fence != fence:  # claims of one turn follow one another, so its text is made once
            fence, text = request.fence, str(request.fence)
        flat += request.key, text
    for place in others:
        flat += _other(entries[place], settings)
    return flat, others


def parts(entries: Sequence[Kind]) -> list[Sequence[Kind]]:
    """Divide entries that would take one script too long; the last part has the successes, and claims."""
    if len(entries) <= COSTLY_LIMIT:
        return [entries]
    slow = [entry for entry in entries if entry.outcome.__class__ is not Success]
    if len(slow) <= COSTLY_LIMIT:
        return [entries]
    quick = [entry for entry in entries if entry.outcome.__class__ is Success]
    *some, rest = [slow[start : start + COSTLY_LIMIT] for start in range(0, len(slow), COSTLY_LIMIT)]
    return [*some, quick + rest]


def _other(entry: Entry, settings: TurnSettings) -> tuple[str | bytes | int, ...]:
    """Return (item, fence, outcome, limiter, priority, text)."""
    if isinstance(entry, RateLimitedAdd):
        limiter = settings.own_limiter(Failure(entry.key, entry.attempt, None), None)
        return entry.key, "", "limit", limiter, 0, ""
    request = entry.request
    item = bytes_of(request.key)  # not validate_key: an unreadable item may be no valid key
    if isinstance(entry, UnreadableItem):
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


@dataclass(slots=True)
class Claims:
    """The claims of one turn, as the script returned them; they belong to ``period``.

    To read them costs more than all else that a busy worker does for an item. So it reads many at a time,
    while Redis makes the next turn.
    """

    fence: int
    items_and_orders: Sequence[bytes]
    records: Sequence[bytes | None] | None
    links: Sequence[bytes] | None
    period: ClaimPeriod
    count: int
    are_over: bool = False
    """Whether they ended before they were read, so that no handler may get them."""

    def read(self) -> tuple[list[Request], list[Request]]:
        """Return the claims for handlers, and those whose key or failure record cannot be read."""
        if not self.count:
            return [], []
        items = self.items_and_orders[::2]
        keys = texts_of(items)
        priorities, pending_since = decode_orders(self.items_and_orders[1::2])
        failures: Iterable[FailureRecord | None] = repeat(None)
        attempts: Iterable[int] = repeat(1)
        readable = True
        if self.records:
            failures = [None if record is None else FailureRecord.parse(record) for record in self.records]
            attempts = [1 if failure is None else failure.count + 1 for failure in failures]
            readable = all(failure is None or failure.readable for failure in failures)
        links = map(link_of, self.links) if self.links else repeat("")
        columns = keys, attempts, priorities, pending_since, links
        requests = claimed_requests(*columns, fence=self.fence, period=self.period)
        if readable and are_keys(keys, items):
            return requests, []
        good, odd = list[Request](), list[Request]()
        for request, item, failure in zip(requests, items, failures, strict=False):
            is_readable = is_key(request.key, len(item)) and (failure is None or failure.readable)
            (good if is_readable else odd).append(request)
        return good, odd


@dataclass(slots=True)
class TurnReply:
    """The script's reply; dispositions in the order of the entries, ``wait`` in seconds.

    ``fence`` is the time of the turn, µs by the server's clock, and the fence of all its claims.
    ``alone`` with a claim: it is a suspect, so claim nothing until it has ended; without a claim: the
    session empties itself for a suspect, so ask again. ``promoted`` counts the items that became pending,
    ``revived`` how many of them were dead.
    """

    fence: int
    claims: Claims
    dispositions: list[Disposition]
    wait: float
    alone: bool
    promoted: int = 0
    revived: int = 0


def decode(reply: Sequence[Any], n_ok: int, others: Sequence[int], period: ClaimPeriod) -> TurnReply:
    """Read the script's reply to ``n_ok`` successes and ``others``; its claims belong to this period."""
    fence, wait, alone, refusals, ends, popped, records, promoted, revived, *links = reply
    dispositions = [ENDED] * n_ok
    if refusals or ends:
        dispositions = _dispositions(n_ok, others, refusals, ends or ())
    made_at = int(fence)
    claims = Claims(made_at, popped, records, links[0] if links else None, period, len(popped) // 2)
    return TurnReply(made_at, claims, dispositions, wait / 1e6, bool(alone), promoted, revived)


def _dispositions(
    n_ok: int, others: Sequence[int], refusals: bytes, ends: Sequence[bytes]
) -> list[Disposition]:
    """Return the dispositions in the order of the entries; ``ends`` are those of the ``others``."""
    dispositions = [ENDED] * n_ok + [_disposition(text) for text in ends]
    for index in refusals.split(b",") if refusals else ():
        dispositions[int(index) - 1] = REFUSED
    if not others:
        return dispositions
    successes, rest = iter(dispositions[:n_ok]), iter(dispositions[n_ok:])
    rare = {*others}
    return [next(rest if place in rare else successes) for place in range(len(dispositions))]


def _disposition(text: bytes) -> Disposition:
    if text == b"parked":  # the script's word
        return DEAD
    return PENDING if text == b"pending" else Disposition("delayed", int(text) / 1000)
