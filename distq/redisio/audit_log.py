"""What people did on dashboards, the last thousand actions; in Redis, for all replicas.

prefix:audit  STREAM, an entry for each action: ``entry``, a JSON object

An action is written right before it is done, without an outcome, and again once it has one; the first entry
is removed with that. So an action that ended its process is there, too. It is a key of the prefix, and not
one of each queue: a list of all actions would have to look into all queues.
"""

import json
from collections.abc import Mapping
from functools import cached_property

from distq.redisio.connection import Connection
from distq.redisio.keys import audit_key
from distq.redisio.limits import AUDIT_ENTRIES, AUDIT_LETTERS
from distq.redisio.records import parse_fields

_PATIENCE = 1.0
"""Seconds that an action waits at most until it is written; it is done in any case."""

Fields = Mapping[str, object]


class AuditLog:
    """The actions of one prefix. Its methods raise RedisError; a write takes ``_PATIENCE`` at most."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self, fields: Fields) -> str:
        """Write an action before it is done; return the id of its entry."""
        written: bytes = self._impatient.execute(*self._add(fields, AUDIT_ENTRIES))
        return written.decode()

    def end(self, entry_id: str, fields: Fields) -> None:
        """Replace an entry by one that has the outcome, at the time of the first one."""
        whole = {**fields, "at": _seconds(entry_id)}
        # one more than are kept, for the first entry is still there
        self._impatient.pipeline([self._add(whole, AUDIT_ENTRIES + 1), ("XDEL", self._key, entry_id)])

    def last(self, offset: int, limit: int) -> list[Fields]:
        """Return ``limit`` entries from ``offset`` on, the newest first; ``at`` in seconds since 1970."""
        found = self._connection.execute("XREVRANGE", self._key, "+", "-", "COUNT", offset + limit)
        return [
            {"at": _seconds(entry_id.decode()), **parse_fields(dict(_pairs(values)).get(b"entry", b""))}
            for entry_id, values in found[offset:]
        ]

    @cached_property
    def _impatient(self) -> Connection:
        return self._connection.with_timeout(_PATIENCE)

    @property
    def _key(self) -> str:
        return audit_key(self._connection.prefix)

    def _add(self, fields: Fields, kept: int) -> tuple[str | int, ...]:
        cut = {
            name: value[:AUDIT_LETTERS] if isinstance(value, str) else value for name, value in fields.items()
        }
        return "XADD", self._key, "MAXLEN", kept, "*", "entry", json.dumps(cut)


def _seconds(entry_id: str) -> float:
    """Return when Redis took an entry."""
    return int(entry_id.partition("-")[0]) / 1000


def _pairs(values: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(values[::2], values[1::2], strict=True))
