"""How far a watched resource was handed over to a queue: its record, its known set, its commits."""

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from distq.redisio import queue_reads
from distq.redisio.checkpoints import MARK
from distq.redisio.connection import Connection
from distq.redisio.keys import bytes_of, text_of, validate_key
from distq.redisio.limits import BATCH_LIMIT, CACHED_BYTES, TERMS_LIMIT
from distq.redisio.object_cache import CachedObject, cached_names, object_of, records_of
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import StreamRecord
from distq.redisio.round_trips import run
from distq.redisio.scores import validate_priority
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
    """Another batch was the last one, or none; the stream stands at ``position``: nothing was done."""

    position: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """What finds the cached objects is too much for one step: nothing was done."""


class StreamStore:
    """One stream of one queue."""

    def __init__(self, connection: Connection, queue: str, stream: str) -> None:
        self.stream = stream
        self._store = StreamKeys(connection, queue, stream)

    def load(self) -> StreamRecord | None:
        """Return the stream's record, None where nothing was ever committed."""
        (text,) = self._store.read(("HGET", "streams", self.stream))
        return None if text is None else StreamRecord.parse(text)

    def commit(
        self,
        *,
        epoch: str,
        after: str,
        new: str,
        batch: str,
        keys: Sequence[str | bytes] = (),
        priority: int = 0,
        keep_pending: bool = False,
        known: Mapping[str, str] | None = None,
        gone: Sequence[str] = (),
        unrouted: Mapping[bytes, str] | None = None,
        parked_as: str = "",
        objects: Sequence[CachedObject] = (),
        dropped: Mapping[str, str] | None = None,
        clear_cache: bool = False,
        about: Mapping[str, Any] | None = None,
        replaces: str = "",
        link: str = "",
    ) -> Committed | Fenced | Mismatch | TooLarge:
        """Enqueue keys and move the stream to position ``new``, in one step or not at all.

        Nothing is done unless ``after`` was the last batch, "" for the first: so a Redis that lost anything
        of the stream is noticed.

        At most 1000 of keys, known, gone, unrouted, objects and dropped together, and 1 MiB of objects; keys
        in bytes are what ``validate_key`` returned. ``new`` "" removes the record and the cache.
        ``keep_pending`` leaves delayed and dead items alone. ``replaces`` names an epoch that may be higher
        than ours.

        ``unrouted`` are items to park, with why: objects that the watch's functions failed on. Of other known
        and gone objects what was parked so is dropped; ``parked_as`` stands before their names there.

        ``objects`` are put into the cache, and what is ``dropped`` as of a version leaves it, unless what is
        there is newer; no name is in both. ``clear_cache`` empties it first. Where what finds several of
        them by their indexes has more than TERMS_LIMIT bytes, nothing is done: commit fewer at a time.

        ``link`` is that of the span that commits, empty where nobody tells of it.
        """
        items = list(dict.fromkeys(key if isinstance(key, bytes) else validate_key(key) for key in keys))
        priority = validate_priority(priority)
        known, unrouted = known or {}, unrouted or {}
        cached = records_of(objects, dropped or {})
        counts = {"keys": len(items), "known": len(known), "gone": len(gone), "cached": len(cached)}
        counts |= {"unrouted": len(unrouted)} if unrouted else {}
        if sum(counts.values()) > BATCH_LIMIT:
            raise ValueError(f"a commit of {', '.join(f'{count} {what}' for what, count in counts.items())}")
        # what is dropped has no record, and is no object
        size = sum(len(terms) + len(record) for terms, record in cached.values() if record)
        if size > CACHED_BYTES:
            raise ValueError(f"a commit of {size} bytes of cached objects")
        if any(text.split() != [text] for text in (epoch, batch, new or "-")):
            raise ValueError(f"epoch {epoch!r}, batch {batch!r} and position {new!r} must be single words")
        kind, detail = self._store.run(
            "commit",
            stream=self.stream,
            epoch=epoch,
            replaces=replaces,
            after=after,
            new=new,
            batch=batch,
            about=json.dumps(about or {}, separators=(",", ":")),
            priority=priority,
            keep_pending=int(keep_pending),
            n_items=len(items),
            n_known=len(known),
            n_cached=len(cached),
            clears_cache=int(clear_cache or not new),
            unrouted=json.dumps([word for item, why in unrouted.items() for word in (item.decode(), why)]),
            parked_as=bytes_of(parked_as),
            link=link,
            terms_limit=TERMS_LIMIT,
            rest=[
                *items,
                *map(bytes_of, chain(chain.from_iterable(known.items()), gone)),
                *chain.from_iterable((name, *row) for name, row in cached.items()),
            ],
        )
        if kind == b"FENCED":
            return Fenced(text_of(detail))
        if kind == b"TOO_LARGE":
            return TooLarge()
        return Mismatch(text_of(detail)) if kind == b"MISMATCH" else Committed(detail)

    def list_all(self) -> bool:
        """Make whoever leads list and enqueue everything; return False where nothing was ever committed.

        The stream's leader finds that another batch than its own was the last, and begins anew from here.
        The cache is empty until then.
        """
        while (record := self.load()) is not None:
            answer = self.commit(
                epoch=record.epoch,
                after=record.batch,
                new=MARK,
                batch=f"people-{secrets.token_hex(8)}",
                clear_cache=True,
                about=record.about,
            )
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
        """Yield the names of objects that are parked with this before them; one may come twice."""
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
        """Return of some objects those that the cache has, whoever put them there."""
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
