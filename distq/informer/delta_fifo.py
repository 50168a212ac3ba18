"""Changes of objects that were not handled yet (client-go tools/cache DeltaFIFO).

DeltaFIFO hands over all deltas of an object at once, RealFIFO one after another in the order in which
they came. They find objects that vanished while there was no watch by comparing a list with the known ones.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from distq.informer.indexer import Indexer
from distq.informer.stored_object import StoredObject


class DeltaType(StrEnum):
    """The origin of a delta."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """Seen in a list."""
    SYNC = "Sync"
    """Handed over again though nothing happened."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One change of an object; ``object`` is its state after it, or before it was deleted.

    ``final_state_unknown``: the deletion was missed, the state is the last that was seen.
    """

    type: DeltaType
    object: StoredObject
    final_state_unknown: bool = False


Process = Callable[[Sequence[Delta], bool], None]
"""Takes the deltas of one object, oldest first, and whether it belongs to the first list."""


class DeltaFIFO:
    """Deltas by key, the keys in the order in which they came. Safe for threads.

    ``known`` holds the consumer's objects: a list is compared with them, and the deletion of an object that
    neither they nor the queue have is ignored. Source: client-go tools/cache DeltaFIFO.
    """

    def __init__(self, known: Indexer) -> None:
        self._known = known
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._keys: deque[str] = deque()
        """In the order in which they are handed over; each has deltas."""
        self._deltas: dict[str, list[Delta]] = {}
        """By key, oldest first and never empty; the last one is the object's present state."""
        self._populated = False
        """A list, or anything in place of one, has come."""
        self._first_list = 0
        """Keys of the first list that were not processed yet."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._keys)

    # Producers

    def add(self, obj: StoredObject) -> None:
        """Queue that an object was added."""
        self._queue_one(Delta(DeltaType.ADDED, obj))

    def update(self, obj: StoredObject) -> None:
        """Queue that an object was updated."""
        self._queue_one(Delta(DeltaType.UPDATED, obj))

    def delete(self, obj: StoredObject) -> None:
        """Queue that an object was deleted, unless the consumer never received it."""
        with self._lock:
            self._populated = True
            if obj.key in self._deltas or self._known.stored(obj.key):
                self._queue(Delta(DeltaType.DELETED, obj))

    def vanish(self, key: str) -> None:
        """Queue that an object was deleted of which only the last known state is left."""
        with self._lock:
            if (last := self.last(key)) is not None:
                self._queue(Delta(DeltaType.DELETED, last, final_state_unknown=True))

    def replace(self, objects: Iterable[StoredObject]) -> None:
        """Queue a whole list: its objects as Replaced, those known or queued but not in it as Deleted.

        An object that was already queued as deleted is not deleted twice.
        """
        with self._lock:
            replaced = [Delta(DeltaType.REPLACED, obj) for obj in objects]
            vanished = [
                Delta(DeltaType.DELETED, obj, final_state_unknown=True)
                for obj in self._vanished({delta.object.key for delta in replaced})
            ]
            for delta in self._list_order(replaced, vanished):
                self._queue(delta)
            if not self._populated:
                self._first_list = len(self._keys)  # an object that is listed twice may be one of them
                self._populated = True  # last: has_synced looks at both without the lock

    def resync(self) -> None:
        """Queue each known object as Sync, save for those with deltas waiting."""
        with self._lock:
            for key in self._known.list_keys():
                known = self._known.stored(key)
                # else an old state would come after a new one
                if known is not None and key not in self._deltas:
                    self._queue(Delta(DeltaType.SYNC, known))

    def last(self, key: str) -> StoredObject | None:
        """Return the last state that is queued or known of an object, None where it is gone."""
        with self._lock:
            deltas = self._deltas.get(key)
            if not deltas:
                return self._known.stored(key)
            return None if deltas[-1].type == DeltaType.DELETED else deltas[-1].object

    # The consumer

    def pop(self, process: Process) -> bool:
        """Wait for an object with deltas and process them; return False where the queue is closed and empty.

        ``process`` runs while nothing else happens to the queue, so that known and queued objects fit
        together; its error is raised here, and the deltas are gone.
        """
        with self._lock:
            while not self._keys:
                if self._closed:
                    return False
                self._changed.wait()
            in_first_list = not self.has_synced()
            deltas = self._take(self._keys.popleft())
            try:
                process(deltas, in_first_list)
            finally:  # an object that fails keeps no list from being whole
                self._first_list = max(0, self._first_list - 1)
            return True

    def has_synced(self) -> bool:
        """Return whether the first list, or the first event instead of one, was processed."""
        return self._populated and self._first_list == 0

    def close(self) -> None:
        """Let ``pop`` return once the queue is empty."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def _queue_one(self, delta: Delta) -> None:
        with self._lock:
            self._populated = True
            self._queue(delta)

    def _queue(self, delta: Delta) -> None:
        key = delta.object.key
        deltas = self._deltas.get(key)
        if deltas is None:
            self._deltas[key] = [delta]
            self._keys.append(key)
            self._changed.notify()
        elif delta.type == deltas[-1].type == DeltaType.DELETED:
            # once is enough, and the state that was really seen last is worth more
            if deltas[-1].final_state_unknown:
                deltas[-1] = delta
        else:
            deltas.append(delta)

    def _take(self, key: str) -> list[Delta]:
        return self._deltas.pop(key)

    def _list_order(self, replaced: list[Delta], vanished: list[Delta]) -> list[Delta]:
        return [*replaced, *vanished]

    def _vanished(self, listed: set[str]) -> list[StoredObject]:
        """Return the last states of objects queued or known, not listed, and not yet queued as deleted."""
        queued = [
            deltas[-1].object
            for key, deltas in self._deltas.items()
            if key not in listed and deltas[-1].type != DeltaType.DELETED
        ]
        known = (
            self._known.stored(key)
            for key in self._known.list_keys()
            if key not in listed and key not in self._deltas
        )
        return [*queued, *(obj for obj in known if obj is not None)]


class RealFIFO(DeltaFIFO):
    """Deltas of all objects in the order in which they came; none is left out.

    So handlers that look at several objects see them change in the order in which they did.
    Source: client-go tools/cache RealFIFO.
    """

    def delete(self, obj: StoredObject) -> None:
        """Queue that an object was deleted."""
        self._queue_one(Delta(DeltaType.DELETED, obj))

    def _queue(self, delta: Delta) -> None:
        self._deltas.setdefault(delta.object.key, []).append(delta)
        self._keys.append(delta.object.key)
        self._changed.notify()

    def _take(self, key: str) -> list[Delta]:
        deltas = self._deltas[key]
        first = deltas.pop(0)
        if not deltas:
            del self._deltas[key]
        return [first]

    def _list_order(self, replaced: list[Delta], vanished: list[Delta]) -> list[Delta]:
        return [*vanished, *replaced]  # a new object may be in the place of one that vanished
