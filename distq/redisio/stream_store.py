"""How far a watched resource was handed over to a queue: its record, its known set, its commits."""

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
"""What a pattern of Redis' SCAN means something else by."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch is in the queue, and the stream at its new position; ``added`` were not pending before."""

    added: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """A later leader, of ``epoch``, has committed: nothing was done."""

    epoch: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Another batch was the last one, or none; the stream is at ``position``: nothing was done."""

    position: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """What finds the cached objects is too much for one step: nothing was done."""


class StreamStore:
    """One stream of one queue.

    With ``fair_by`` its first call makes the queue fair; where a user or another program said otherwise
    before, that is logged.
    """

    def __init__(self, connection: Connection, queue: str, stream: str, *, fair_by: str = "") -> None:
        self.stream = stream
        self._store = StreamKeys(connection, queue, stream, fair_by=fair_by)

    def load(self) -> StreamRecord | None:
        """Return the stream's record, None where nothing was ever committed."""
        (text,) = self._store.read(("HGET", "streams", self.stream))
        return None if text is None else StreamRecord.parse(text)

    def commit(self, commit: Commit) -> Committed | Fenced | Mismatch | TooLarge:
        """Carry it out, or do nothing where another batch or a later leader came in between.

        Nothing is done, too, where what finds several cached objects by their indexes has more than
        TERMS_LIMIT bytes: commit fewer at a time. Raises what ``Commit.inputs`` raises.
        """
        kind, detail = self._store.run("commit", stream=self.stream, **commit.inputs())
        if kind == b"FENCED":
            return Fenced(text_of(detail))
        if kind == b"TOO_LARGE":
            return TooLarge()
        return Mismatch(text_of(detail)) if kind == b"MISMATCH" else Committed(detail)

    def list_all(self) -> bool:
        """Make its leader list and enqueue everything; return False where nothing was ever committed.

        The stream's leader finds that another batch than its own was the last, and begins anew from here.
        The cache is empty until then.
        """
        while (record := self.load()) is not None:
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
        """Yield what was handed over of each object; an object may come twice."""
        return chain.from_iterable(self.known_pages())

    def known_pages(self) -> Iterator[list[tuple[str, str]]]:
        """Yield the same some thousand objects at a time, as they are when asked for."""
        for pairs in queue_reads.scan(self._store, "known", count=BATCH_LIMIT):
            yield [(text_of(name), text_of(value)) for name, value in pairs]

    def known_count(self) -> int:
        """Return of how many objects something is known."""
        return int(self._store.read(("HLEN", "known"))[0])

    def known_of(self, objects: Sequence[str]) -> list[str | None]:
        """Return what was handed over of some objects, None for those never seen."""
        if not objects:
            return []
        (values,) = self._store.read(("HMGET", "known", *map(bytes_of, objects)))
        return [None if value is None else text_of(value) for value in values]

    def parked_names(self, parked_as: str) -> Iterator[list[str]]:
        """Yield the names of objects that are dead with this before them; one may come twice."""
        prefix, match = bytes_of(parked_as), _GLOB.sub(r"\\\g<0>", parked_as) + "*"
        for pairs in queue_reads.scan(self._store, "failures", match=match):
            yield [text_of(item[len(prefix) :]) for item, _ in pairs]

    def handed_over(self, objects: Sequence[str]) -> list[CachedObject]:
        """Return of some objects those that the cache has in the version that was handed over last.

        Left out is what the fleet wrote since, what is too large, and what is known of no list or event.
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
        """Return of some objects those that the cache has, also where the fleet put them there."""
        if not objects:
            return []
        fields = [*map(bytes_of, objects)]
        (records,) = self._store.read(("HMGET", "cache", *fields))
        return [each for each in map(object_of, fields, records) if each is not None]

    def cached_names(self) -> Iterator[list[str]]:
        """Yield the names of the cached objects in their order, a thousand at most at a time."""
        return cached_names(self._store)


def stream_records(connection: Connection, queue: str) -> dict[str, StreamRecord]:
    """Return the records of all streams of a queue, by their names."""
    return run(connection, queue_reads.streams(QueueStore(connection, queue)))
