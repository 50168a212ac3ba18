"""A record in Redis that only a process that has read its last version can replace, for elections.

    prefix:election:NAME  HASH  version, record

The version is the time of the write in µs, or the last version plus 1 if the clock went back.
"""

from dataclasses import dataclass

from distq.forks import cached_property
from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.redisio.keys import bytes_of, election_key, text_of, validate_key


@dataclass(frozen=True, slots=True)
class VersionedRecord:
    """A record and its version; a later version is a longer text, or a greater one of equal length."""

    version: str
    record: bytes


class CompareAndSetRecord:
    """The record of one name; each call takes ``timeout`` seconds at most, and is not repeated."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = validate_key(name).decode()
        self._timed = connection
        self._timeout = 0.0

    @cached_property
    def key(self) -> str:
        """Return the Redis key of the record."""
        return election_key(self._name, prefix=self._connection.prefix)

    def load(self, *, timeout: float) -> VersionedRecord | None:
        """Return the record, None if there is none."""
        version, record = self._within(timeout).execute("HMGET", self.key, "version", "record")
        return None if version is None else VersionedRecord(text_of(version), record)

    def replace(self, seen: str, record: str, *, timeout: float) -> VersionedRecord | None:
        """Replace the version ``seen``, "" for none; return None if the stored version is another one."""
        script = scripts.load("election/write")
        inputs = {"time": self._connection.server_time, "seen": bytes_of(seen), "record": record}
        bound = script.bind(lambda _: self.key, inputs)
        version = self._within(timeout).evaluate(script.source, script.sha, bound)
        return None if version is None else VersionedRecord(text_of(version), record.encode())

    def close(self) -> None:
        """Close its own connections."""
        if self._timed is not self._connection:
            self._timed.close()

    def _within(self, timeout: float) -> Connection:
        """Return a connection with this timeout; the last one if the timeout is the same, as it mostly is."""
        if timeout != self._timeout:
            self.close()
            self._timed, self._timeout = self._connection.with_timeout(timeout), timeout
        return self._timed
