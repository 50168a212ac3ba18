"""Objects, their versions and their history: etcd and the watch cache in one.

One global revision counts all writes. A Collection holds the objects of one
resource in key order and a log of its changes, which serves watches that start
in the past and lists of older revisions.
Source: apiserver pkg/storage/etcd3 and pkg/storage/cacher.
"""

import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from distq.testing.apiserver.watch import Watch

Content = dict[str, Any]
"""An object without ``kind`` and ``apiVersion``, which depend on the version it is read at; never mutated."""

_encode = msgspec.json.Encoder().encode
_LEAST_CAPACITY = 100
_FRESH_SECONDS = 75.0


def value_at(content: Any, path: str | Iterable[Any], absent: Any = None) -> Any:
    """Return the value at a path, of steps or with dots, or else ``absent``."""
    for step in path.split(".") if isinstance(path, str) else path:
        content = content.get(step) if isinstance(content, dict) else None
    return absent if content is None else content


@dataclass(eq=False)
class Stored:
    """One version of an object, encoded at most once for all its readers."""

    key: str
    content: Content
    revision: int

    @cached_property
    def body(self) -> bytes:
        """The JSON of the content."""
        return _encode(self.content)

    @cached_property
    def metadata_body(self) -> bytes:
        """The JSON of the metadata alone."""
        return _encode({"metadata": self.content["metadata"]})

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata."""
        metadata: dict[str, Any] = self.content["metadata"]
        return metadata

    @property
    def name(self) -> str:
        """The object's name."""
        name: str = self.metadata["name"]
        return name

    def at(self, revision: int) -> "Stored":
        """Return the same object under another revision, as DELETED events carry it."""
        metadata = self.metadata | {"resourceVersion": str(revision)}
        return Stored(self.key, self.content | {"metadata": metadata}, revision)


@dataclass(eq=False)
class StoreEvent:
    """One change of one object: what it was, if it existed, and what it became or last was."""

    before: Stored | None
    current: Stored
    """The object under the revision of the change, also where it is gone."""
    gone: bool = False
    time: float = field(default_factory=time.monotonic)


class Collection:
    """The objects of one resource, their change log, and who listens."""

    def __init__(self, identity: tuple[str, str], window: int, revision: int) -> None:
        self.identity = identity
        self.log: deque[StoreEvent] = deque()
        self.compacted = revision
        """The oldest revision whose state the log can restore."""
        self.watch_floor = revision
        """The oldest revision from which a watch can start."""
        self.initializing_until = 0.0
        """Loop time until which the watch cache is being rebuilt."""
        self.listeners: set[Watch] = set()
        self._largest_capacity = window
        self._capacity = min(window, _LEAST_CAPACITY)
        self._objects: dict[str, Stored] = {}
        self._keys: list[str] = []

    def get(self, key: str) -> Stored | None:
        """Return the object as it is now; None where there is none."""
        return self._objects.get(key)

    def scan(self, prefix: str = "", start: str = "", revision: int | None = None) -> Iterator[Stored]:
        """Iterate the objects in key order, from the first key ≥ start, as they were at the revision.

        Raises LookupError where the revision is compacted.
        """
        past = self._undone(revision) if revision is not None else {}
        keys, objects = self._keys, self._objects
        if past:
            objects = {key: each for key, each in (objects | past).items() if each is not None}
            keys = sorted(objects)
        for index in range(bisect_left(keys, max(prefix, start)), len(keys)):
            if not keys[index].startswith(prefix):
                return
            yield objects[keys[index]]

    def since(self, revision: int) -> Iterator[StoreEvent]:
        """Iterate the changes after the revision, oldest first."""
        newer = takewhile(lambda event: event.current.revision > revision, reversed(self.log))
        return reversed(list(newer))

    def apply(self, event: StoreEvent) -> None:
        """Make the change, and call the listeners."""
        key = event.current.key
        if event.gone:
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if event.before is None:
                insort(self._keys, key)
            self._objects[key] = event.current
        self._make_room(event)
        self.log.append(event)
        for listener in list(self.listeners):
            listener.offer(event)

    def _make_room(self, event: StoreEvent) -> None:
        """Forget what leaves the window, which doubles while it is younger than 75 s."""
        if len(self.log) < self._capacity:
            return
        if event.time - self.log[0].time < _FRESH_SECONDS:
            self._capacity = min(self._capacity * 2, self._largest_capacity)
        elif event.time - self.log[-(self._capacity // 4) - 1].time > _FRESH_SECONDS:
            self._capacity = max(self._capacity // 2, min(self._largest_capacity, _LEAST_CAPACITY))
        while len(self.log) >= self._capacity:
            self.compacted = self.log.popleft().current.revision
            self.watch_floor = max(self.watch_floor, self.compacted)

    def compact(self, revision: int) -> None:
        """Forget all history."""
        self.log.clear()
        self.compacted = self.watch_floor = revision

    def restart_watches(self, revision: int, *, until: float = 0.0) -> None:
        """End the open watches; new ones are refused until the loop time, and older versions after it."""
        self.watch_floor = revision
        self.initializing_until = until
        for listener in list(self.listeners):
            listener.end()

    def _undone(self, revision: int) -> dict[str, Stored | None]:
        """Return what differed at the revision from now."""
        if revision < self.compacted:
            raise LookupError(revision)
        # the newest first: of several changes of a key the object before the first one remains
        return {event.current.key: event.before for event in reversed([*self.since(revision)])}


class Store:
    """All collections under one sequence of revisions."""

    def __init__(self, window: int, identities: Iterable[tuple[str, str]] = ()) -> None:
        self.revision = 1
        self.observers: list[Callable[[Collection, StoreEvent], None]] = []
        """Called with every change, in order, before the writer has its answer."""
        self._window = window
        self._rehearses = False
        self._collections: dict[tuple[str, str], Collection] = {}
        for identity in identities:  # now: one that is made later knows nothing of versions before
            self.collection(identity)

    def __iter__(self) -> Iterator[Collection]:
        return iter(list(self._collections.values()))

    def collection(self, identity: tuple[str, str]) -> Collection:
        """Return the collection of a resource, made on first use."""
        if identity not in self._collections:
            self._collections[identity] = Collection(identity, self._window, self.revision)
        return self._collections[identity]

    def drop(self, identity: tuple[str, str]) -> None:
        """Forget a collection."""
        self._collections.pop(identity, None)

    @contextmanager
    def rehearsal(self, dry_run: bool) -> Iterator[None]:
        """Answer writes as if they were done, but change nothing, where ``dry_run`` says so."""
        self._rehearses = dry_run
        try:
            yield
        finally:
            self._rehearses = False

    def put(self, collection: Collection, key: str, content: Content) -> Stored:
        """Write an object under the next revision."""
        if self._rehearses:
            return Stored(key, content, self.revision)
        self.revision += 1
        content["metadata"]["resourceVersion"] = str(self.revision)
        stored = Stored(key, content, self.revision)
        self._commit(collection, StoreEvent(collection.get(key), stored))
        return stored

    def remove(self, collection: Collection, stored: Stored) -> Stored:
        """Delete an object, and return it under the revision of the delete."""
        if self._rehearses:
            return stored
        self.revision += 1
        tombstone = stored.at(self.revision)
        self._commit(collection, StoreEvent(stored, tombstone, gone=True))
        return tombstone

    def _commit(self, collection: Collection, event: StoreEvent) -> None:
        collection.apply(event)
        for observe in self.observers:
            observe(collection, event)
