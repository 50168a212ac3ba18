"""The part of an object that a cached watch keeps."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

import msgspec

from distq.client.objects import Object
from distq.client.resources import Resource
from distq.controller.watches import ResourceWatch, qualified_name
from distq.forks import cached_property
from distq.informer.indexer import IndexFunc, labels_index, values_of
from distq.informer.json_depth import Unreadable
from distq.informer.stored_object import StoredObject, Transform, keeps_all, store_raw, strip_managed_fields
from distq.informer.wire import RawObject, raw_object
from distq.redisio.limits import CACHED_BYTES, CACHED_LIMIT, INDEX_VALUES
from distq.redisio.object_cache import CachedObject

_TYPE_AND_METADATA = ("apiVersion", "kind", "metadata")


UNLABELLED = ""
"""The value under which the index by labels has an object whose labels are not known; it is no label's."""

_WHOLE = {"whole", f"transform={qualified_name(strip_managed_fields)}"}
"""How whole objects are kept, see ``Caching.kept``."""


class KeptObject(NamedTuple):
    """The part of an object that the cache keeps, and the error of the program's function that failed on it.

    An index whose function fails does not have the object. Where the transform fails none has it, and its
    bytes are left out, since they may hold fields that are not to be kept. Only the index by labels has it
    then, as ``UNLABELLED``.
    """

    object: CachedObject
    problem: BaseException | None = None


@dataclass(frozen=True)
class Caching:
    """How the objects of a watch are kept: transformed, and with the values of its indexers."""

    transform: Transform | None
    indexers: Mapping[str, IndexFunc]
    metadata_only: bool = False

    @classmethod
    def of(cls, watch: ResourceWatch) -> Self | None:
        """Return how a watch's objects are kept, None if they are not."""
        return cls(watch.transform, watch.indexers, watch.metadata_only) if watch.cached else None

    @property
    def kept(self) -> list[str]:
        """Return its description in a stream's record; if that differs, all objects are listed anew."""
        transform = f"transform={qualified_name(self.transform)}" if self.transform else "whole"
        part = ["metadata"] if self.metadata_only else []
        return sorted([transform, *part, *self.indices.values()])

    @cached_property
    def indices(self) -> Mapping[str, str]:
        """Return the names of the indexes in Redis: another function's values are another index."""
        return {name: f"{name}={qualified_name(function)}" for name, function in self.indexers.items()}

    @cached_property
    def labels_index(self) -> str | None:
        """Return the name in Redis of the index by labels, None if there is none."""
        name = labels_index(self.indexers)
        return None if name is None else self.indices[name]

    @cached_property
    def _unlabelled(self) -> dict[str, list[str]]:
        return {self.labels_index: [UNLABELLED]} if self.labels_index else {}

    def keep(self, obj: RawObject) -> KeptObject:
        """Return the entry of an object that the cache takes, even if functions fail on it."""
        try:
            stored = self.stored(obj)
        except BaseException as error:  # noqa: BLE001 - the program's own function, which may call sys.exit
            return KeptObject(CachedObject(obj.key, obj.version, b"", self._unlabelled), error)
        indices, problem = self._values(stored) if self.indexers else ({}, None)
        data = stored.raw if len(stored.raw) <= CACHED_LIMIT else b""  # the memory of a page of large ones
        kept = CachedObject(obj.key, obj.version, data, indices)
        if indices and kept.size > CACHED_BYTES:
            problem = ValueError(
                f"too many values of {obj.key} for the indexers: {kept.size} bytes with the object, "
                f"of at most {CACHED_BYTES}. Return fewer."
            )
            kept = kept._replace(indices=self._unlabelled)
        return KeptObject(kept, problem)

    @property
    def is_whole(self) -> bool:
        """Return whether the transform leaves out nothing but managedFields."""
        return keeps_all(self.transform)

    def suits(self, kept: frozenset[str]) -> bool:
        """Return whether objects that a leader keeps in this way are whole, where this watch's are.

        A leader of another release may leave out fields: a write that begins with its object removes them.
        """
        is_whole = "metadata" not in kept and not kept.isdisjoint(_WHOLE)
        return is_whole or self.metadata_only or not self.is_whole

    def whole(self, obj: CachedObject) -> StoredObject | None:
        """Return a whole object without managedFields, None if the bytes are no object of ours."""
        stored = StoredObject(obj.name, obj.version, obj.data)
        try:
            stored.metadata()  # raises if a later read of it would
            whole = strip_managed_fields(stored.decode())
        except (msgspec.DecodeError, UnicodeDecodeError, Unreadable):
            return None
        return StoredObject(obj.name, obj.version, msgspec.json.encode(whole))

    def stored(self, obj: RawObject) -> StoredObject:
        """Return an object as the cache returns it."""
        return StoredObject(obj.key, obj.version, store_raw(obj, self.transform).raw)

    def shown(self, obj: RawObject) -> StoredObject:
        """Return an object that is not cached as a read shows it; untransformed if the transform fails."""
        try:
            return self.stored(obj)
        except BaseException:  # noqa: BLE001 - the leader reported it, and the object is dead
            return store_raw(obj, strip_managed_fields)

    def raw(self, answer: bytes, resource: Resource) -> RawObject:
        """Return the object in an answer to a Client, as the watch would have brought it."""
        if self.metadata_only:
            obj: Object = msgspec.json.decode(answer)
            answer = msgspec.json.encode({name: obj[name] for name in _TYPE_AND_METADATA if name in obj})
        return raw_object(msgspec.Raw(answer.rstrip()), resource)

    def _values(self, stored: StoredObject) -> tuple[dict[str, list[str]], BaseException | None]:
        """Return the values by index, without those of functions that fail, and the first one's error."""
        try:
            return self._values_of(self.indexers, stored), None
        except BaseException as error:  # noqa: BLE001 - the result of a function may fail to be printed
            values = dict(self._unlabelled)
            for name, function in self.indexers.items():
                with suppress(BaseException):
                    values |= self._values_of({name: function}, stored)
            return values, error

    def _values_of(self, indexers: Mapping[str, IndexFunc], stored: StoredObject) -> dict[str, list[str]]:
        found = {}
        for name, values in values_of(indexers, stored).items():
            if not all(isinstance(value, str) for value in values):
                raise ValueError(f"index {name}: bad values of {stored.key}: {values!r:.80}. Return texts.")
            if len(values) > INDEX_VALUES:
                number = len(values)
                raise ValueError(
                    f"index {name}: {number} values of {stored.key}, of at most {INDEX_VALUES}. Return fewer."
                )
            found[self.indices[name]] = sorted(values)
        return found
