"""The data of a dashboard page, read side by side: all reads share their round trips."""

import fnmatch
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from distq.errors import RedisRefused
from distq.inspector import past, reading
from distq.inspector.flows import flows_of
from distq.inspector.info import (
    ItemInfo,
    Listing,
    QueueFlows,
    QueueInfo,
    Sample,
    StreamInfo,
    Timestamp,
    TraceEvent,
    WorkerInfo,
)
from distq.inspector.timeline import events
from distq.redisio import queue_reads, trace
from distq.redisio.connection import Connection
from distq.redisio.keys import is_queue_name, named, queues_key, shown, text_of
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import FailureRecord
from distq.redisio.round_trips import Read, gather

ERRORS_OF = 1000
"""Failure records whose errors are grouped."""
TIMELINE_CALLS = 1000
"""Calls of scripts from which a timeline is made."""
HELD_SHOWN = 100
SIBLINGS_SHOWN = 20
_FIRST_LOOK, _FURTHER_LOOK = 200, 2500
LOOKED_THROUGH = _FIRST_LOOK + 2 * _FURTHER_LOOK
"""Items that one step of a search looks at, at most; each round trip takes Redis a millisecond or so."""
_MOST_FOUND = 1000
_SPECIAL = set("*?[]\\")


class Rows(NamedTuple):
    """The items to read: those at ranks from ``offset``, backwards with ``last_first``; or a search.

    ``match`` is a glob as of Redis' SCAN, or the beginning of keys. A search goes on at ``cursor``, in no
    order. *failing* are the items with a failure record, in any state: they have no ranks, so that to list
    them is a search, too.
    """

    state: Listing | Literal["failing"]
    offset: int = 0
    limit: int = 50
    last_first: bool = False
    match: str = ""
    cursor: str = "0"

    @property
    def is_search(self) -> bool:
        """Return whether the items are searched, and not read by their ranks."""
        return bool(self.match) or self.state == "failing"


class QueueNames(NamedTuple):
    """The queues to read: by name, ``limit`` from ``offset`` on of those that match.

    ``match`` is a glob, or the beginning of names.
    """

    offset: int = 0
    limit: int = 100
    match: str = ""


class Wanted(NamedTuple):
    """What a view holds beside the queues themselves.

    ``past`` is the seconds that samples go back and the seconds between them; ``names`` None is all queues.
    """

    names: QueueNames | None = None
    rows: Rows | None = None
    key: str | None = None
    held: bool = False
    errors: bool = False
    calls: bool = False
    flows: bool = False
    past: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Items whose last failure has the same text; ``key`` is one of them, ``newest`` the last failure."""

    text: str
    count: int
    newest: Timestamp | None
    key: str


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue with the data that was wanted, none for a broken one.

    ``items`` are a page of it, in order, or the result of a search; ``more`` is the cursor where the search
    continues, "" at its end, and ``left_out`` the number of matches beyond the result. ``errors`` group
    ``errors_of`` failure records, the most common first. ``events`` are those of the last thousand calls of
    the trace, of all items; where one item is wanted, adds and repairs are of it alone, and ``resource`` is
    the one whose objects the keys name, None if it is not known.
    """

    info: QueueInfo
    workers: Sequence[WorkerInfo]
    streams: Sequence[StreamInfo]
    items: Sequence[ItemInfo] = ()
    more: str = ""
    left_out: int = 0
    item: ItemInfo | None = None
    siblings: Sequence[str] = ()
    resource: str | None = None
    errors: Sequence[ErrorGroup] = ()
    errors_of: int = 0
    events: Sequence[TraceEvent] = ()
    past: Sequence[Sample] = ()
    flows: QueueFlows | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The queues that were wanted, by name, at the server's time ``now``; ``matching`` of how many."""

    now: Timestamp
    queues: Sequence[QueueView]
    matching: int


def view(connection: Connection, queue: str | None, wanted: Wanted) -> Read[View]:
    """Look at all queues, or at one, in six round trips at most."""
    now, found = yield from names_at(connection)
    if queue is not None:
        found = [queue] if queue in found else []
    stores, matching = stores_of(connection, found, wanted.names)
    reads = (_queue_view(store, now, wanted) for store in stores)
    return View(Timestamp(now), (yield from gather(reads)), matching)


def names_at(connection: Connection) -> Read[tuple[float, list[str]]]:
    """Return the server's time, and the names of all queues in order."""
    names, time = yield [("HKEYS", queues_key(connection.prefix)), ("TIME",)]
    # tests move the time of scripts alone
    now = connection.server_time / 1e6 or int(time[0]) + int(time[1]) / 1e6
    return now, sorted(filter(is_queue_name, map(text_of, names)))


def stores_of(
    connection: Connection, found: list[str], wanted: QueueNames | None
) -> tuple[list[QueueStore], int]:
    """Return the queues that are wanted, and how many match."""
    shown = found
    if wanted:
        found = fnmatch.filter(found, glob_of(wanted.match))
        shown = found[wanted.offset :][: wanted.limit]
    return [QueueStore(connection, name) for name in shown], len(found)


def _queue_view(store: QueueStore, now: float, wanted: Wanted) -> Read[QueueView]:
    """Read one queue; where Redis refuses any part of it, return it as broken: the others go on."""
    try:
        return (yield from _whole_view(store, now, wanted))
    except RedisRefused as error:
        return QueueView(QueueInfo(store.name, broken=str(error)), [], [])


def _whole_view(store: QueueStore, now: float, wanted: Wanted) -> Read[QueueView]:
    parts: dict[str, Read[Any]] = {
        "info": reading.numbers(store, now),
        "workers": reading.worker_infos(store),
        "streams": reading.stream_infos(store, now),
    }
    rows = wanted.rows
    if rows and rows.is_search:
        parts["found"] = _search(store, rows)
    elif rows:
        parts["items"] = reading.page(
            store, [rows.state], rows.offset, rows.limit, last_first=rows.last_first
        )
    if wanted.past:
        seconds, every = wanted.past
        parts["past"] = past.samples(store, now - seconds, now, every)
    if wanted.held:
        parts["items"] = reading.page(store, ["processing"], 0, HELD_SHOWN)
    if wanted.key is not None:
        parts["item"] = reading.item_infos(store, named(wanted.key))
        parts["siblings"] = _siblings(store, wanted.key)
        parts["resource"] = reading.reconciled_resource(store)
    if wanted.flows:
        parts["flows"] = flows_of(store)
    if wanted.errors:
        parts["errors"] = _errors(store)
    if wanted.calls:
        parts["calls"], parts["names"] = _calls(store), reading.worker_names(store)
    read = dict(zip(parts, (yield from gather(parts.values())), strict=True))
    calls, names = read.pop("calls", ()), read.pop("names", {})
    if "found" in read:
        read["items"], read["more"], read["left_out"] = read.pop("found")
    if "item" in read:
        read["item"] = next(iter(read["item"]), None)
    if "errors" in read:
        read["errors"], read["errors_of"] = read["errors"]
    return QueueView(**read, events=list(events(calls, names, named(wanted.key) if wanted.key else None)))


def _calls(store: QueueStore) -> Read[list[trace.TracedCall]]:
    (entries,) = yield store.commands(("XREVRANGE", "trace", "+", "-", "COUNT", TIMELINE_CALLS))
    return [trace.TracedCall.parse(entry_id, fields[1]) for entry_id, fields in reversed(entries)]


def _search(store: QueueStore, rows: Rows) -> Read[tuple[list[ItemInfo], str, int]]:
    """Search some thousands of items, from the cursor on; an item with exactly this key comes first."""
    glob, cursor, count = glob_of(rows.match), int(rows.cursor), _FIRST_LOOK
    exact = named(rows.match) if rows.match and cursor == 0 else []
    found: dict[bytes, None] = {}
    for _ in range(3):
        next_cursor, members = yield from queue_reads.scan_state(store, rows.state, cursor, glob, count=count)
        cursor = next_cursor or 0
        found |= dict.fromkeys(members)
        if not cursor or len(found) >= rows.limit:
            break
        # as many as should fill the page, if matches are as frequent there: none is to be left out
        count = min(_FURTHER_LOOK, _FIRST_LOOK * rows.limit // max(1, len(members)))
    members = list(dict.fromkeys([*exact, *found]))
    items = yield from reading.item_infos(store, members[:_MOST_FOUND])
    items.sort(key=lambda item: item.key)
    left_out = max(0, len(members) - _MOST_FOUND)
    if rows.state == "failing":  # the scan found records: also one without failures or a reason
        recorded = set(map(shown, found))
        items = [item for item in items if item.failures or item.reason or item.key in recorded]
        items = newest_failure_first(items)
    else:  # some left the state since the scan, and the one with this key may be in another
        items = [item for item in items if rows.state in {item.state, "dirty" if item.dirty else item.state}]
    return items, str(cursor or ""), left_out


def newest_failure_first(items: Iterable[ItemInfo]) -> list[ItemInfo]:
    """Return the items in the order of their last failures."""
    return sorted(items, key=lambda item: item.last_error_at or 0.0, reverse=True)


def glob_of(match: str) -> str:
    """Return the glob of a search: a text without special characters is the beginning of keys."""
    return match if _SPECIAL & set(match) else f"{match}*"


def beginning_with(text: str) -> str:
    """Return the search for keys that begin so, also where the text has special characters."""
    return f"{_escaped(text)}*" if _SPECIAL & set(text) else text


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in text)


def _siblings(store: QueueStore, key: str) -> Read[list[str]]:
    """Return some other items of the key's namespace, the part before its last slash."""
    namespace, slash, _ = key.rpartition("/")
    if not slash:
        return []
    glob = f"{_escaped(namespace)}/*"
    # suspects and items that are held back are ready, in structures of their own
    states = ("processing", "ready", "suspects", "held_back", "delayed", "dead")
    scans = yield store.commands(*(("ZSCAN", state, 0, "MATCH", glob, "COUNT", 1000) for state in states))
    names = dict.fromkeys(shown(member) for _, flat in scans for member in flat[::2])
    names.pop(key, None)
    return sorted(names)[:SIBLINGS_SHOWN]


def _errors(store: QueueStore) -> Read[tuple[list[ErrorGroup], int]]:
    """Group a thousand failure records or so by their text."""
    ((_, flat),) = yield store.commands(("HSCAN", "failures", 0, "COUNT", ERRORS_OF))
    counts: Counter[str] = Counter()
    newest: dict[str, tuple[int, str]] = {}
    for member, text in zip(flat[::2], flat[1::2], strict=True):
        record = FailureRecord.parse(text)
        counts[record.error] += 1
        newest[record.error] = max(newest.get(record.error, (-1, "")), (record.failed_at_us, shown(member)))
    groups = [
        ErrorGroup(text, count, Timestamp(newest[text][0] / 1e6) or None, newest[text][1])
        for text, count in counts.most_common()
    ]
    return groups, len(flat) // 2
