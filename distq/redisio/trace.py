"""The trace of a queue: the arguments and the reply of each script call, while a user traces the queue.

Each script appends its entry in the same step as its changes (``lua/traced/script.lua``), so the entries are
in the order of the changes. An entry is JSON:

    call        the script
    asks        a hash of the names of its arguments, which differs if another version has other arguments
    at          the server's time that the script used, µs, as text; absent if it reads no time
    args        its arguments, in the script's order
    reply       its reply
    due         items whose delay had ended
    revived     items that were revived
    taken_back  [item, session, how] of items of lapsed sessions: released, crashed or parked
    cut         the size of the entry in bytes, in place of arguments and reply, if it was too long
    match       the pattern of the items to which the trace is restricted

It is plain JSON with one exception: bytes that are not UTF-8 are in it as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from distq.redisio import scripts
from distq.redisio.keys import bytes_of, text_of
from distq.redisio.limits import SCAN_LIMIT, TRACE_BYTES, TRACE_ENTRIES, TRACE_ENTRY_BYTES
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import LATEST, parse_fields, words_of
from distq.redisio.scores import decode_time

KEPT = 24 * 3600.0
"""Seconds for which entries stay after the end of a trace."""

NOT_OF_A_SCRIPT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What the reader of an entry raises if the entry has a shape that no script writes."""


class TakenBack(NamedTuple):
    """An item of a session that had lapsed or closed, and its new state: released, crashed or parked."""

    item: bytes
    session: int
    how: str


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of a script. ``at_us`` is None if it reads no time; ``cut`` is above 0 if it was too long.

    ``script`` is "" if another version of distq wrote the entry: its arguments have other meanings.

    With a ``match``, the call may also name items that do not match, about which other entries are missing.
    """

    id: str
    script: str
    at_us: int | None
    args: Sequence[bytes]
    reply: Any
    due: Sequence[bytes]
    revived: Sequence[bytes]
    taken_back: Sequence[TakenBack]
    cut: int
    match: str = ""

    @classmethod
    def parse(cls, entry_id: bytes, text: bytes) -> "TracedCall":
        """Read an entry; a text of another program becomes an entry without a script."""
        try:
            fields = parse_fields(text_of(text))
            at, taken_back = fields.get("at"), _in_bytes(fields.get("taken_back") or [])
            return cls(
                id=entry_id.decode(),
                script=_known(str(fields.get("call", "")), fields.get("asks")),
                at_us=decode_time(bytes_of(at)) if isinstance(at, str) else None,
                args=_in_bytes(fields.get("args") or []),
                reply=_in_bytes(fields.get("reply")),
                due=_in_bytes(fields.get("due") or []),
                revived=_in_bytes(fields.get("revived") or []),
                taken_back=[TakenBack(item, int(session), how.decode()) for item, session, how in taken_back],
                cut=int(fields.get("cut", 0)),
                match=words_of(fields.get("match")) or "",
            )
        except NOT_OF_A_SCRIPT:
            return cls(entry_id.decode(), "", None, [], None, [], [], [], 0)

    @property
    def moment(self) -> float:
        """Return the time of the call, seconds since the epoch by the server's clock."""
        if self.at_us is not None:
            return self.at_us / 1e6
        return min(int(self.id.partition("-")[0]) / 1e3, LATEST)  # a forged entry may have any ID

    def tells_of(self, item: bytes) -> bool:
        """Return whether the trace has all calls about an item."""
        return not self.match or matches(item, bytes_of(self.match))

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Return the arguments by the script's names for them; only the last one may be a list."""
        script = scripts.load(self.script)
        if not script.last_is_list:
            return dict(zip(script.arguments, self.args, strict=True))
        *names, last = script.arguments
        return dict(zip(names, self.args, strict=False)) | {last: self.args[len(names) :]}


def switch_on(
    store: QueueStore,
    *,
    seconds: float,
    limit: int = TRACE_ENTRIES,
    longest: int = TRACE_ENTRY_BYTES,
    max_bytes: int = TRACE_BYTES,
    match: str = "",
) -> float:
    """Trace the queue for some seconds; return when the trace ends, seconds since the epoch.

    It keeps the newest entries of at most ``longest`` bytes each: at most ``limit``, and ``max_bytes``
    together. ``match`` restricts it to items, see ``matches``.
    """
    microseconds = {"duration": round(seconds * 1e6), "kept": round(KEPT * 1e6)}
    bounds = {"limit": limit, "longest": longest, "max_bytes": max_bytes}
    return int(store.run("trace", match=match, **bounds, **microseconds)) / 1e6


def matches(item: bytes, match: bytes) -> bool:
    """Return whether an item matches ``match``, in which ``*`` is any bytes, in linear time."""
    first, *rest = match.split(b"*")
    if not rest:
        return item == match
    *inner, last = rest
    if not item.startswith(first):
        return False
    at = len(first)
    for piece in inner:
        if (found := item.find(piece, at)) < 0:
            return False
        at = found + len(piece)
    return len(item) - len(last) >= at and item.endswith(last)


def switch_off(store: QueueStore) -> None:
    """End the trace; its entries stay for a day."""
    store.run("trace", duration=0, limit=0, longest=0, kept=0, max_bytes=0, match="")


def entries(store: QueueStore) -> Iterator[TracedCall]:
    """Yield the entries in the order of the calls."""
    since = "-"
    while True:
        (page,) = store.read(("XRANGE", "trace", since, "+", "COUNT", SCAN_LIMIT))
        for entry_id, fields in page:
            yield TracedCall.parse(entry_id, fields[1])
        if len(page) < SCAN_LIMIT:
            return
        since = f"({page[-1][0].decode()}"


def ends_at(value: bytes | None) -> float | None:
    """Return when a trace ends, seconds since the epoch, by ``meta``'s field ``trace``; None for none."""
    until_us = decode_time((value or b"").partition(b" ")[0])
    return None if until_us is None else until_us / 1e6


def _known(script: str, asks: object) -> str:
    return script if script in scripts.names() and asks == scripts.load(script).asks else ""


def _in_bytes(value: Any) -> Any:
    """Return a script's reply as redis-py would; numbers are whole, an empty table is a list."""
    if isinstance(value, str):
        return bytes_of(value)
    if value is None or value is False:
        return None
    if isinstance(value, list):
        return [_in_bytes(each) for each in value]
    if isinstance(value, float):
        return int(value)
    return [] if value == {} else value
