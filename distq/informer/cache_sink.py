"""The sink of a Reflector that feeds a cache in memory: it queues deltas."""

import logging
from collections.abc import Callable, Sequence
from operator import attrgetter

from distq.informer.delta_fifo import DeltaFIFO
from distq.informer.stored_object import StoredObject, Transform, store_raw
from distq.informer.wire import RawObject, WatchEvent

logger = logging.getLogger(__name__)

_KEY = attrgetter("key")


class CacheSink:
    """Puts the events of a Reflector into a DeltaFIFO; its position lives as long as the process."""

    def __init__(self, fifo: DeltaFIFO, transform: Transform | None, resync: Callable[[], None]) -> None:
        self._fifo = fifo
        self._queue = {"ADDED": fifo.add, "MODIFIED": fifo.update, "DELETED": fifo.delete}
        self._transform = transform
        self._resync = resync
        self._version = ""
        self._listed: dict[str, StoredObject] = {}
        self._rewound = False

    def position(self) -> str:
        """Return the version to resume from, empty before the first list."""
        return self._version

    def wants_bookmarks(self) -> bool:
        """Return False: a cache in memory begins with a list."""
        return False

    def connected(self, present: str) -> None:
        """Do nothing: a cache in memory reports nothing."""

    def events(self, events: Sequence[WatchEvent], since: float) -> None:  # noqa: ARG002 - the protocol's
        """Queue the events."""
        for event in events:
            if event.type != "BOOKMARK" and event.object.key:
                if (stored := self._stored(event.object)) is not None:
                    self._queue[event.type](stored)
                elif event.type == "DELETED":
                    self._fifo.vanish(event.object.key)
            self._version = event.version or self._version

    def begin_list(self) -> None:
        """Forget the list that had begun before."""
        self._listed = {}

    def page(self, objects: Sequence[RawObject]) -> None:
        """Take a part of the list; an object on which the transform fails stays as it was."""
        for obj in filter(_KEY, objects):
            if (stored := self._stored(obj) or self._fifo.last(obj.key)) is not None:
                self._listed[obj.key] = stored

    def unlist(self, obj: RawObject) -> None:
        """Take an object out of the list again."""
        self._listed.pop(obj.key, None)

    def end_list(self, version: str) -> None:
        """Queue the list; objects that are not in it are gone."""
        listed, self._listed = self._listed, {}
        # After a restore a version may be of another state than before.
        doubtful = [obj for obj in listed.values() if self._has_version_of(obj)] if self._rewound else []
        self._fifo.replace(listed.values())
        for obj in doubtful:  # handlers receive no listed object of the version that they have
            self._fifo.update(obj)
        self._rewound, self._version = False, version

    def expired(self) -> None:
        """Ask for a list."""
        self._version = ""

    def rewound(self, version: str) -> None:  # noqa: ARG002 - any list will do
        """Ask for a list, of which no version proves that an object is the same."""
        self._rewound, self._version = True, ""

    def tick(self) -> None:
        """Resync the handlers that are due."""
        self._resync()

    def _has_version_of(self, obj: StoredObject) -> bool:
        last = self._fifo.last(obj.key)
        return last is not None and last.version == obj.version

    def _stored(self, obj: RawObject) -> StoredObject | None:
        """Return an object as it is kept; where the transform fails, None: it is left as it was."""
        try:
            return store_raw(obj, self._transform)
        except BaseException:  # the transform is the user's, and may call sys.exit
            logger.exception("%s %s: its transform failed", obj.resource.kind, obj.key)
            return None
