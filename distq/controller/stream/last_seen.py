"""The last state handed over of each object, as far as a watch's predicates compare events with it."""

from collections.abc import Iterable

from distq.controller.event import OldMetadata
from distq.controller.predicate import Compared
from distq.informer.objects import Metadata, is_older
from distq.informer.stored_object import StoredObject, store_raw, strip_managed_fields
from distq.informer.wire import RawObject, WatchEvent


class LastSeen:
    """The old objects of a stream's updates, in the memory of its leader; see ``Predicate.compares``.

    They are not read from the cache: it has the fleet's own writes before their events, which would then be
    compared with themselves.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self._objects: dict[str, StoredObject | Metadata] = {}

    def old(self, update: RawObject) -> StoredObject | OldMetadata | None:
        """Return the object that an update replaced, None if it is unknown."""
        last = self._objects.get(update.key)
        return last if last is None or isinstance(last, StoredObject) else OldMetadata(metadata=last)

    def unknown(self, events: Iterable[WatchEvent]) -> dict[str, RawObject]:
        """Return the first update of each object that is not remembered; none if nothing is compared."""
        if not self._compared:
            return {}
        updates = [event.object for event in events if event.type == "MODIFIED"]
        # reversed, so that the first update of each object stays
        return {obj.key: obj for obj in reversed(updates) if obj.key not in self._objects}

    def recall(self, last: StoredObject, update: RawObject) -> None:
        """Remember the object that another leader handed over last, unless that is the update itself."""
        if is_older(last.version, update.version):
            self._objects[last.key] = last.metadata() if self._compared == "metadata" else last

    def remember(self, obj: RawObject) -> None:
        """Remember an object that is handed over, if the next event is compared with it."""
        if self._compared == "metadata":
            self._objects[obj.key] = obj.metadata
        elif self._compared == "object":
            self._objects[obj.key] = store_raw(obj, strip_managed_fields)

    def forget(self, obj: RawObject) -> None:
        """Forget an object: its next event passes."""
        self._objects.pop(obj.key, None)

    def forget_all(self) -> None:
        """Forget all objects."""
        self._objects.clear()
