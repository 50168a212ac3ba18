"""Objects as a cache keeps them: their bytes, decoded when somebody looks.

An object as dicts takes five times the memory of its JSON, and of that managedFields are
often the larger half, which only the API server needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from distq.client.objects import Object
from distq.informer.objects import Metadata, key_of
from distq.informer.wire import RawObject

Transform = Callable[[Object], Object]
"""What a cache makes of each object before it keeps it; it may change the object that it is given."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a cache."""

    key: str
    version: str
    raw: bytes

    def decode(self) -> Object:
        """Return the object, a new one each time: who changes it changes nobody else's."""
        obj: Object = _WHOLE.decode(self.raw)
        return obj

    def metadata(self) -> Metadata:
        """Return the object's metadata alone, which is quicker."""
        return _META.decode(self.raw).metadata


@dataclass(frozen=True, slots=True)
class DeletedFinalStateUnknown:
    """An object whose deletion was missed: its key, and the last state that was seen.

    Source: client-go tools/cache DeletedFinalStateUnknown.
    """

    key: str
    obj: Object


def store_object(obj: Object) -> StoredObject:
    """Return an object as a cache keeps it; raise ValueError where it has no name."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ValueError(f"bad object {obj!r:.80}: no metadata.name. Give a Kubernetes object.")
    version = str(metadata.get("resourceVersion", ""))
    return StoredObject(key_of(metadata), version, msgspec.json.encode(obj))  # type: ignore[arg-type]  # as Metadata


def store_raw(obj: RawObject, transform: Transform | None) -> StoredObject:
    """Return an object that came from the API server as a cache keeps it."""
    if transform is None:
        return StoredObject(obj.key, obj.version, _with_kind(bytes(obj.raw), obj))
    if transform is strip_managed_fields:
        return StoredObject(obj.key, obj.version, _with_kind(_without_managed_fields(bytes(obj.raw)), obj))
    return store_object(transform(obj.decode()))


def strip_managed_fields(obj: Object) -> Object:
    """Drop ``metadata.managedFields``, as a transform for informers; there it cuts bytes and decodes nothing.

    Source: controller-runtime cache TransformStripManagedFields.
    """
    obj.get("metadata", {}).pop("managedFields", None)
    return obj


class _Fields(msgspec.Struct, rename="camel"):
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Meta(msgspec.Struct):
    metadata: Metadata


class _MetaRaw(msgspec.Struct, rename="camel"):
    metadata: msgspec.Raw
    api_version: str | None = None


_WHOLE: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_META = msgspec.json.Decoder(_Meta)
_META_RAW = msgspec.json.Decoder(_MetaRaw)
_FIELDS = msgspec.json.Decoder(_Fields)


def _with_kind(raw: bytes, obj: RawObject) -> bytes:
    """Put in the kind, which the API server leaves out in lists."""
    if _META_RAW.decode(raw).api_version:
        return raw
    resource = obj.resource
    kind = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind})
    return kind[:-1] + b"," + raw.lstrip()[1:]


def _without_managed_fields(raw: bytes) -> bytes:
    """Cut them out of the object's text, with one of the commas around them."""
    metadata = bytes(_META_RAW.decode(raw).metadata)
    fields = bytes(_FIELDS.decode(metadata).managed_fields)
    if not fields:
        return raw
    field = b'"managedFields":' + fields
    metadata_begins = raw.find(metadata)
    begins = raw.find(field, metadata_begins)
    if not metadata_begins <= begins < metadata_begins + len(metadata):
        return raw  # spaced otherwise than by an API server
    ends = begins + len(field)
    if raw[ends : ends + 1] == b",":
        ends += 1
    elif raw[begins - 1 : begins] == b",":
        begins -= 1
    return raw[:begins] + raw[ends:]
