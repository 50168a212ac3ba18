"""The trace of a queue: what each script was asked and what it answered, while somebody wants to know.

Each script appends its entry in the step in which it does what it does (``lua/traced/script.lua``), so the
order of the entries is that of what happened. An entry is JSON:

    call        the script
    asks        the encoded names of its arguments, which are others in another version of it
    at          the server's time that it went by, µs, as text; not of those that ask for no time
    args        what it was asked, in the order in which the script names it
    reply       what it answered
    due         items whose delay was found to have ended
    revived     items that had been dead for long enough
    taken_back  [item, session, how] of items of lapsed sessions: released, crashed or parked
    cut         how many bytes it would have had, in place of what was asked and answered
    match       of which items alone something was to be noted

It is plain JSON with one exception: bytes that are no UTF-8 are in it as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from distq.redisio import scripts
from distq.redisio.keys import bytes_of, text_of
from distq.redisio.limits import SCAN_LIMIT, TRACE_BYTES, TRACE_ENTRIES, TRACE_ENTRY_BYTES
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import parse_fields, words_of

KEPT = 24 * 3600.0
"""Seconds for which entries stay once the trace has ended."""


class TakenBack(NamedTuple):
    """An item of a session that had lapsed or closed, and what became of it: released, crashed or parked."""

    item: bytes
    session: int
    how: str


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of a script. ``at_us`` None: it asked for no time. ``cut``: all but these was too long.

    ``script`` is "" where another version of distq noted it, whose arguments mean something else.

    With a ``match`` it names others beside the items that match, of which nothing else is noted.
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
        """Read an entry; what somebody else wrote there is one of no script."""
        fields = parse_fields(text_of(text))
        at, taken_back = fields.get("at"), _in_bytes(fields.get("taken_back") or [])
        return cls(
            id=entry_id.decode(),
            script=_known(str(fields.get("call", "")), fields.get("asks")),
            at_us=int(at) if isinstance(at, str) and at.isdigit() else None,
            args=_in_bytes(fields.get("args") or []),
            reply=_in_bytes(fields.get("reply")),
            due=_in_bytes(fields.get("due") or []),
            revived=_in_bytes(fields.get("revived") or []),
            taken_back=[TakenBack(item, int(who), how.decode()) for item, who, how in taken_back],
            cut=int(fields.get("cut", 0)),
            match=words_of(fields.get("match")) or "",
        )

    @property
    def moment(self) -> float:
        """Return when it happened, seconds since the epoch by the server's clock."""
        return self.at_us / 1e6 if self.at_us is not None else int(self.id.partition("-")[0]) / 1e3

    def tells_of(self, item: bytes) -> bool:
        """Return whether what is noted of an item is all that there was."""
        return not self.match or matches(item, bytes_of(self.match))

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Return what the script was asked by the names that it has for it; a list last if at all."""
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
    """Let scripts leave entries for so long; return when that ends, seconds since the epoch.

    Of at most ``longest`` bytes each, and ``limit`` entries or ``max_bytes`` together, the newest. ``match``
    restricts it to items, see ``matches``.
    """
    microseconds = {"duration": round(seconds * 1e6), "kept": round(KEPT * 1e6)}
    bounds = {"limit": limit, "longest": longest, "max_bytes": max_bytes}
    return int(store.run("trace", match=match, **bounds, **microseconds)) / 1e6


def matches(item: bytes, match: bytes) -> bool:
    """Return whether an item is what ``match`` says, in which ``*`` matches any bytes, in linear time."""
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
    """Let scripts leave no more entries; those that are there stay for a day."""
    store.run("trace", duration=0, limit=0, longest=0, kept=0, max_bytes=0, match="")


def entries(store: QueueStore, since: str = "-") -> Iterator[TracedCall]:
    """Yield what is there, from an entry on, in the order in which it happened."""
    while True:
        (page,) = store.read(("XRANGE", "trace", since, "+", "COUNT", SCAN_LIMIT))
        for entry_id, fields in page:
            yield TracedCall.parse(entry_id, fields[1])
        if len(page) < SCAN_LIMIT:
            return
        since = f"({page[-1][0].decode()}"


def ends_at(value: bytes | None) -> float | None:
    """Return when a trace ends, seconds since the epoch, by ``meta``'s field ``trace``; None for none."""
    first = (value or b"").partition(b" ")[0]
    return int(first) / 1e6 if first.isdigit() else None


def _known(script: str, asks: object) -> str:
    return script if script in scripts.names() and asks == scripts.load(script).asks else ""


def _in_bytes(value: Any) -> Any:
    """Return what a script returned as redis-py would have; numbers are whole, an empty table is a list."""
    if isinstance(value, str):
        return bytes_of(value)
    if value is None or value is False:
        return None
    if isinstance(value, list):
        return [_in_bytes(each) for each in value]
    if isinstance(value, float):
        return int(value)
    return [] if value == {} else value
