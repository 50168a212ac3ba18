"""The actions of users on a queue: the last thousand, in Redis, for all processes that show them.

    audit  STREAM, an entry for each action: ``entry``, a JSON object

An action is written right before it runs, without an outcome, and again when it has one; then the first entry
is removed. So an action that ended its process is there, too. It is a key of the queue: a user without the
right to read the queue does not see its actions.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from heapq import merge, nlargest
from itertools import islice
from operator import itemgetter
from typing import Any

from distq.errors import RedisRefused
from distq.forks import cached_property
from distq.redisio.connection import Argument
from distq.redisio.error_mapping import is_denied
from distq.redisio.limits import AUDIT_ENTRIES, AUDIT_LETTERS
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import parse_fields
from distq.redisio.round_trips import Read, gather

_PATIENCE = 1.0
"""Seconds for which an action waits until it is written; it runs in any case."""

_FIRST_LOOK = 10
"""Entries that are read of each queue; of a queue with more new ones, a second read takes the rest."""

Fields = Mapping[str, object]


class AuditLog:
    """The actions of one queue. Its methods raise RedisError; each takes ``_PATIENCE`` at most."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store

    def begin(self, fields: Fields) -> str:
        """Write an action before it is done; return the id of its entry. Raises LayoutTooNew."""
        self._impatient.require_known_layout()  # only scripts check it themselves
        (written,) = self._impatient.read(_add(fields, AUDIT_ENTRIES))
        return str(written.decode())

    def end(self, entry_id: str, fields: Fields) -> None:
        """Replace an entry by one that has the outcome, at the time of the first one."""
        whole = {**fields, "at": _seconds(entry_id)}
        # one more than are kept, because the first entry is still there
        self._impatient.read(_add(whole, AUDIT_ENTRIES + 1), ("XDEL", "audit", entry_id))

    @cached_property
    def _impatient(self) -> QueueStore:
        return self._store.with_timeout(_PATIENCE)


def last_actions(stores: Sequence[QueueStore], offset: int, limit: int) -> Read[list[Fields]]:
    """Return ``limit`` entries of all queues from ``offset`` on, the newest first.

    Each has its ``queue``, and ``at`` in seconds since 1970. Queues that the Redis user may not read are left
    out. Takes two round trips, the second for queues that have more than a few of the newest.
    """
    # islice takes no larger number
    first, wanted = (max(0, min(place, sys.maxsize)) for place in (offset, offset + limit))
    found = yield from gather(_newest(store, min(wanted, _FIRST_LOOK)) for store in stores)
    newest = nlargest(wanted, (entry[0] for entries in found for entry in entries))
    busy = [  # there may be more entries of these among the newest
        place
        for place, entries in enumerate(found)
        if len(entries) == _FIRST_LOOK < wanted and entries[-1][0] >= newest[-1]
    ]
    more = yield from gather(_newest(stores[place], wanted) for place in busy)
    for place, entries in zip(busy, more, strict=True):
        found[place] = entries
    merged = merge(*found, key=itemgetter(0), reverse=True)
    return [fields for _, fields in islice(merged, first, wanted)]


_Entry = tuple[tuple[int, int], Fields]
"""The id of an entry, which gives its place in the order, and its fields."""


def _newest(store: QueueStore, limit: int) -> Read[list[_Entry]]:
    try:
        (found,) = yield store.commands(("XREVRANGE", "audit", "+", "-", "COUNT", limit))
    except RedisRefused as error:
        if is_denied(error):
            return []
        raise
    entries = found or ()  # None for a limit of 0
    return [_entry(store.name, entry_id.decode(), values) for entry_id, values in entries]


def _entry(queue: str, entry_id: str, values: list[Any]) -> _Entry:
    milliseconds, _, sequence = entry_id.partition("-")
    fields = parse_fields(dict(zip(values[::2], values[1::2], strict=True)).get(b"entry", b""))
    return (int(milliseconds), int(sequence)), {"at": _seconds(entry_id), **fields, "queue": queue}


def _add(fields: Fields, kept: int) -> Sequence[Argument]:
    cut = {name: value[:AUDIT_LETTERS] if isinstance(value, str) else value for name, value in fields.items()}
    return "XADD", "audit", "MAXLEN", kept, "*", "entry", json.dumps(cut)


def _seconds(entry_id: str) -> float:
    """Return when Redis took an entry, seconds since the epoch."""
    return int(entry_id.partition("-")[0]) / 1000
