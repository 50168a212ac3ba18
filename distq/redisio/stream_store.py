"""The progress of a watched resource in a queue: its record, its known set, its commits."""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from distq.redisio import queue_reads
from distq.redisio.checkpoints import MARK
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import bytes_of, text_of
from distq.redisio.limits import BATCH_LIMIT
from distq.redisio.object_cache import CachedObject, cached_names, object_of
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import StreamRecord
from distq.redisio.round_trips import run
from distq.redisio.stream_keys import StreamKeys

_GLOB = re.compile(r"[*?\[\]\\]")
"""Characters with a meaning in a pattern of Redis' SCAN."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch is in the queue, and the stream at its new position; ``added`` were not pending before."""

    added: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """A later leader, of ``epoch``, has committed: nothing changed."""

    epoch: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The stream's last batch is another one, or none; the stream is at ``position``: nothing changed."""

    position: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The index terms of the cached objects are too many for one step: nothing changed."""


class StreamStore:
    """One stream of one queue.

    With ``fair_by`` its first call makes the queue fair; if a user or another program set another value
    before, it logs the difference.
    """

    def __init__(self, connection: Connection, queue: str, stream: str, *, fair_by: str = "") -> None:
        self.stream = stream
        self._store = StreamKeys(connection, queue, stream, fair_by=fair_by)

    def load(self) -> StreamRecord | None:
        """Return the stream's record, None if there was no commit."""
        (text,) = self._store.read(("HGET", "streams", self.stream))
        return None if text is None else StreamRecord.parse(text)

    def commit(self, commit: Commit) -> Committed | Fenced | Mismatch | TooLarge:
        """Commit, or do nothing if another batch or a later leader came in between.

        It also does nothing if the index terms of several cached objects have more than TERMS_LIMIT bytes:
        commit fewer at a time. Raises the errors of ``Commit.inputs``.
        """
        kind, detail = self._store.run("commit", stream=self.stream, **commit.inputs())
        if kind == b"FENCED":
            return Fenced(text_of(detail))
        if kind == b"TOO_LARGE":
            return TooLarge()
        return Mismatch(text_of(detail)) if kind == b"MISMATCH" else Committed(detail)

    def list_all(self) -> bool:
        """Make its leader list and enqueue all objects; return False if there was no commit.

        The leader finds that the stream's last batch is not its own, and starts again from here. The cache is
        empty until then.
        """
        while (record := self.load()) is not None:  # its leader may commit between this read and the commit
            mark = Commit(
                new=MARK,
                clear_cache=True,
                about=record.about,
                epoch=record.epoch,
                after=record.batch,
                batch=f"people-{secrets.token_hex(8)}",
            )
            answer = self.commit(mark)
            if isinstance(answer, Committed):
                return True
        return False

    def now(self) -> float:
        """Return the server's time, seconds since the epoch."""
        return self._store.connection.now()

    def known(self) -> Iterator[tuple[str, str]]:
        """Yield the last state handed over of each object; an object may come twice."""
        return chain.from_iterable(self.known_pages())

    def known_pages(self) -> Iterator[list[tuple[str, str]]]:
        """Yield the same about a thousand objects at a time, as of the moment of each read."""
        for pairs in queue_reads.scan(self._store, "known", count=BATCH_LIMIT):
            yield [(text_of(name), text_of(value)) for name, value in pairs]

    def known_count(self) -> int:
        """Return the number of known objects."""
        return int(self._store.read(("HLEN", "known"))[0])

    def known_of(self, objects: Sequence[str]) -> list[str | None]:
        """Return the last state handed over of some objects, None for those never handed over."""
        if not objects:
            return []
        (values,) = self._store.read(("HMGET", "known", *map(bytes_of, objects)))
        return [None if value is None else text_of(value) for value in values]

    def parked_names(self, parked_as: str) -> Iterator[list[str]]:
        """Yield the names of the objects that are dead under this prefix; one may come twice."""
        prefix, match = bytes_of(parked_as), _GLOB.sub(r"\\\g<0>", parked_as) + "*"
        for pairs in queue_reads.scan(self._store, "failures", match=match):
            yield [text_of(item[len(prefix) :]) for item, _ in pairs]

    def handed_over(self, objects: Sequence[str]) -> list[CachedObject]:
        """Return those objects whose version in the cache is the one that was handed over last.

        This leaves out later writes of the fleet, objects that are too large, and objects that no list or
        event had.
        """
        if not objects:
            return []
        fields = [*map(bytes_of, objects)]
        lines, records = self._store.read(("HMGET", "known", *fields), ("HMGET", "cache", *fields))
        versions = [text_of(line).partition("\n")[0] if line else None for line in lines]
        cached = map(object_of, fields, records)
        return [
            each
            for each, version in zip(cached, versions, strict=True)
            if each is not None and each.data and each.version == version
        ]

    def cached_of(self, objects: Sequence[str]) -> list[CachedObject]:
        """Return those of some objects that are in the cache, also if the fleet put them there."""
        if not objects:
            return []
        fields = [*map(bytes_of, objects)]
        (records,) = self._store.read(("HMGET", "cache", *fields))
        return [each for each in map(object_of, fields, records) if each is not None]

    def cached_names(self) -> Iterator[list[str]]:
        """Yield the names of the cached objects in their order, at most a thousand at a time."""
        return cached_names(self._store)


def stream_records(connection: Connection, queue: str) -> dict[str, StreamRecord]:
    """Return the records of all streams of a queue, by their names."""
    return run(connection, queue_reads.streams(QueueStore(connection, queue)))
