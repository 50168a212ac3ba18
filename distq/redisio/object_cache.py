"""The objects of one stream, as its leader and the fleet's own writes left them, for every process to read.

``docs/internals/cache.md`` describes the records, and why a read is never older than promised.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from distq.redisio.connection import Connection
from distq.redisio.keys import bytes_of, text_of, validate_key
from distq.redisio.limits import BATCH_LIMIT, CACHED_BYTES, CACHED_LIMIT
from distq.redisio.records import StreamRecord
from distq.redisio.stream_keys import StreamKeys

_ALL, _GONE = b"all", b"gone"
"""Terms of the index: each object has the first, a marker has the second instead."""


Names = tuple[bytes, bytes | None]
"""A range of names: the first one, and the one behind the last; None for no end."""


class CachedObject(NamedTuple):
    """An object in the cache: its key, version, and JSON; and the values under which each index finds it.

    ``data`` is empty if the object is too large to be cached, or if its transform failed: the object exists,
    and the API server has it. ``indices`` is empty in the results of reads.
    """

    name: str
    version: str
    data: bytes
    indices: Mapping[str, Sequence[str]] = {}

    @property
    def size(self) -> int:
        """Return how many bytes of a commit the object takes, at most."""
        size = len(self.name) + 2 * len(self.version) + len(self.data) + len("\nall\n")
        for index, values in self.indices.items():
            size += sum(len(_term(index, value)) + 1 for value in values)
        return size


class CacheIncomplete(Exception):
    """The cache does not hold all objects, or has no such index; ``record`` has its stream's position."""

    def __init__(self, record: StreamRecord | None) -> None:
        super().__init__("the cache is not complete")
        self.record = record


class ObjectCache:
    """The cache of one stream of one queue.

    Each read raises CacheIncomplete until a leader has handed a list over, unless it is ``partly`` read; and
    RedisError. There is no index of namespaces, because names are read in their order.
    """

    def __init__(
        self,
        connection: Connection,
        queue: str,
        stream: str,
        *,
        partly: bool = False,
        suits: Callable[[frozenset[str]], bool] = lambda kept: True,  # noqa: ARG005
    ) -> None:
        self.connection = connection
        self.stream = stream
        self._store = store = StreamKeys(connection, queue, stream)
        self._partly = partly
        self._suits = suits
        (self._its_stream,) = store.commands(("HGET", "streams", stream))
        self._objects = store.key("cache")

    def get(self, name: str) -> CachedObject | None:
        """Return one object, in one round trip: the end of a list comes before it or after it."""
        field = bytes_of(name)
        before, record, after = self.connection.pipeline(
            (self._its_stream, ("HGET", self._objects, field), self._its_stream)
        )
        if before != after:  # a commit came in between; each changes the stream's record
            (found,) = self._pages([_ALL], (field, field + b"\0"))
            return found[0] if found else None
        self._require(after)
        return object_of(field, record)

    def pages(self, namespace: str | None = None) -> Iterator[list[CachedObject]]:
        """Yield all objects, or those of a namespace, in the order of their names, some at a time.

        Each comes at most once; an object that exists all the time comes exactly once.
        """
        return self._pages([_ALL], _names_in(namespace))

    def by_index(self, index: str, *values: str, namespace: str | None = None) -> list[CachedObject]:
        """Return the objects that an index has under any of some values, all or those of a namespace.

        Takes one round trip, unless there are many.
        """
        terms = [_term(index, value) for value in values]
        return list(chain.from_iterable(self._pages(terms, _names_in(namespace), index)))

    def wrote(
        self,
        objects: Sequence[CachedObject] = (),
        dropped: Mapping[str, str] | None = None,
        *,
        watch: str = "",
    ) -> bool:
        """Put objects that the fleet itself wrote or deleted (as of a version), before their events come.

        Objects that the stream has passed, or that have a newer version, do not change. Returns False, and
        puts nothing, if this is not, or no longer, the stream of the watch. Raises RedisError.
        """
        batches = _batches(records_of(objects, dropped or {}))
        about = _about_watch(watch)
        return all(
            self._store.run("cache/write", stream=self.stream, watch=about, records=batch) is not None
            for batch in batches
        )

    def _require(self, stream: bytes | None, index: str | None = None) -> None:
        """Raise CacheIncomplete unless the cache is complete, as wanted, by the stream's record."""
        indices = None if stream is None else _indices_of(stream)
        if self._partly:
            return
        if indices is None or not self._suits(indices) or (index is not None and index not in indices):
            raise CacheIncomplete(None if stream is None else StreamRecord.parse(stream))

    def _pages(
        self, terms: Sequence[bytes], names: Names, index: str | None = None
    ) -> Iterator[list[CachedObject]]:
        """Yield the objects within some names that any of the terms finds.

        A page shows one moment, up to a name: so an object that changes from one term to another is not
        missed.
        """
        (first, beyond), begins = names, b"["  # inclusive; b"(" is exclusive
        ends = b"\1" if beyond is None else b"\0" + beyond  # a NUL is before each name
        while True:
            bounds = [(begins + term + b"\0" + first, b"(" + term + ends) for term in terms]
            stream, *ranges = self._store.run(
                "cache/read",
                stream=self.stream,
                limit=max(1, BATCH_LIMIT // len(terms)),
                max_bytes=CACHED_BYTES // len(terms),
                ranges=[*chain.from_iterable(bounds)],
            )
            self._require(stream, index)
            last = min((resume for resume, *_ in ranges if resume), default=None)
            found = [
                each for term, (_, *flat) in zip(terms, ranges, strict=True) for each in _found(flat, term)
            ]
            page = {name: obj for name, obj in found if last is None or name <= last}
            yield list(page.values())
            if last is None:
                return
            begins, first = b"(", last


def cached_names(store: StreamKeys) -> Iterator[list[str]]:
    """Yield the names of the cached objects in their order, at most a thousand at a time."""
    prefix = _ALL + b"\0"
    start = b"[" + prefix
    while True:
        (members,) = store.read(("ZRANGEBYLEX", "index", start, b"(" + _ALL + b"\1", "LIMIT", 0, BATCH_LIMIT))
        yield [text_of(member[len(prefix) :]) for member in members]
        if len(members) < BATCH_LIMIT:
            return
        start = b"(" + members[-1]


# Records


def records_of(
    objects: Sequence[CachedObject], dropped: Mapping[str, str]
) -> dict[bytes, tuple[bytes, bytes]]:
    """Return the terms and records of objects, and of objects deleted as of a version, by their names.

    Raises InvalidKey, ValueError for a version that is no number, or a name that comes twice.
    """
    records = {validate_key(each.name): _row_of(each) for each in objects}
    for name, version in dropped.items():
        records[validate_key(name)] = _version(version) + b"\n" + _GONE, b""
    if len(records) < len(objects) + len(dropped):
        raise ValueError("an object comes twice in what is to be cached")
    return records


def _row_of(obj: CachedObject) -> tuple[bytes, bytes]:
    """Return version and terms, a line each; and version and bytes of the object, if not too many."""
    line = _version(obj.version) + b"\n"
    terms = {_term(index, value): None for index, values in obj.indices.items() for value in values}
    data = obj.data if len(obj.data) <= CACHED_LIMIT else b""
    return line + b"\n".join((_ALL, *terms)), line + data


def _version(version: str) -> bytes:
    if not (version.isascii() and version.isdigit()):
        raise ValueError(f"bad version {version!r:.80} of an object: it is no number.")
    return version.encode()


@lru_cache(10_000)
def _term(index: str, value: str) -> bytes:
    """Return any index and value as one line of ASCII."""
    return json.dumps([index, value], separators=(",", ":")).encode()


@lru_cache(64)
def _about_watch(watch: str) -> str:
    """Return the watch as the stream's record has it, in the form of ``Commit.about_text``."""
    return json.dumps({"watch": watch}, separators=(",", ":"))[1:-1] if watch else ""


def is_record(text: bytes) -> bool:
    """Return whether a text is a record of an object, or of its terms."""
    version, ends, _ = text.partition(b"\n")
    return bool(ends) and version.isdigit()


def object_of(name: bytes, record: bytes | None) -> CachedObject | None:
    """Return a stored object; only its name if the record is not one of ours."""
    if record is None:
        return None
    version, ends, data = record.partition(b"\n")
    if not (ends and version.isdigit()):
        return CachedObject(text_of(name), "", b"")
    return CachedObject(text_of(name), version.decode(), data)


def _names_in(namespace: str | None) -> Names:
    if namespace is None:
        return b"", None
    first = bytes_of(f"{namespace}/")
    return first, first[:-1] + b"0"  # the character after the slash


def _found(flat: Sequence[Any], term: bytes) -> Iterator[tuple[bytes, CachedObject]]:
    """Yield the objects that a term finds, with their names in Redis."""
    for name, terms, record in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        if _has(terms, term) and (obj := object_of(name, record)):
            yield name, obj


def _has(terms: bytes | None, term: bytes) -> bool:
    """Return whether a term finds an object; True if the terms are not a record of ours."""
    return terms is None or not is_record(terms) or term in terms.split(b"\n")


def _batches(records: Mapping[bytes, tuple[bytes, bytes]]) -> Iterator[list[bytes]]:
    """Yield names, terms and records, in lists that a script takes."""
    batch: list[bytes] = []
    size = 0
    for name, (terms, record) in records.items():
        if len(batch) == 3 * BATCH_LIMIT or (batch and size + len(terms) + len(record) > CACHED_BYTES):
            yield batch
            batch, size = [], 0
        batch += (name, terms, record)
        size += len(terms) + len(record)
    if batch:
        yield batch


# Completeness

_SAYS_COMPLETE = re.compile(rb'\S+ \d+(?:~\S*)? \S+ \{.*?"cached":(\[[^]]*\])', re.DOTALL)


def _indices_of(stream: bytes) -> frozenset[str] | None:
    """Return the indices by which a cache finds objects, None if it is incomplete; reads call this.

    The record changes with each commit, but its list of indices seldom: this part alone is decoded, once.
    """
    if found := _SAYS_COMPLETE.match(stream):
        return _indices_in(found[1])
    record = StreamRecord.parse(stream)
    return None if record is None else record.cached_indices()


@lru_cache(64)
def _indices_in(names: bytes) -> frozenset[str] | None:
    try:
        return frozenset(name for name in json.loads(names) if isinstance(name, str))
    except ValueError:
        return None
