"""Objects as a cache keeps them: their bytes, decoded when they are looked at.

An object as dicts takes five times the memory of its JSON, and of that managedFields are
often the larger half, which only the API server needs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from distq.client.objects import Object
from distq.errors import InvalidKey
from distq.informer.json_depth import decode
from distq.informer.objects import Metadata, key_of
from distq.informer.wire import PARTIAL, WHOLE, RawObject

Transform = Callable[[Object], Object]
"""Changes each object before a cache keeps it, in place or as a new object."""


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One object of a cache; the garbage collector need not look at any of the many."""

    key: str
    version: str
    raw: bytes

    def decode(self) -> Object:
        """Return the object, a new one each time, which is the caller's to change."""
        obj: Object = decode(WHOLE.decode, self.raw, self.key)
        return obj

    def metadata(self) -> Metadata:
        """Return the object's metadata alone, which is quicker."""
        return decode(PARTIAL.decode, self.raw, self.key).metadata


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
    if not (isinstance(metadata, dict) and metadata.get("name") and isinstance(metadata["name"], str)):
        raise ValueError(f"bad object {obj!r:.80}: no metadata.name. Give a Kubernetes object.")
    version = str(metadata.get("resourceVersion", ""))
    return StoredObject(key_of(metadata), version, msgspec.json.encode(obj))  # type: ignore[arg-type]  # as Metadata


def meta_namespace_key_func(obj: Object | DeletedFinalStateUnknown) -> str:
    """Return ``namespace/name``, or the name of a cluster-scoped object; of a missed deletion, too.

    Raises ValueError for an object without a name. Source: client-go tools/cache
    DeletionHandlingMetaNamespaceKeyFunc.
    """
    return obj.key if isinstance(obj, DeletedFinalStateUnknown) else store_object(obj).key


def split_meta_namespace_key(key: str) -> tuple[str, str]:
    """Return namespace and name; the namespace is "" where the key is a name alone.

    Raises InvalidKey for more than one slash. Source: client-go tools/cache SplitMetaNamespaceKey.
    """
    namespace, slash, name = key.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise InvalidKey(f"bad key {key!r:.80}: not namespace/name. Give one that an informer made.")
    return namespace, name


def store_raw(obj: RawObject, transform: Transform | None) -> StoredObject:
    """Return an object that came from the API server as a cache keeps it."""
    if transform is None:
        return StoredObject(obj.key, obj.version, _with_kind(bytes(obj.raw), obj))
    if transform is strip_managed_fields:
        return StoredObject(obj.key, obj.version, _with_kind(_without_managed_fields(obj), obj))
    made = store_object(transform(obj.decode()))
    # the version as it came: a transform may leave it out
    return StoredObject(made.key, obj.version, made.raw)


def strip_managed_fields(obj: Object) -> Object:
    """Drop ``metadata.managedFields``, as a transform for informers; there it cuts bytes and decodes nothing.

    Source: controller-runtime cache TransformStripManagedFields.
    """
    obj.get("metadata", {}).pop("managedFields", None)
    return obj


def keeps_all(transform: Transform | None) -> bool:
    """Return whether a transform leaves out nothing but managedFields."""
    return transform in (None, strip_managed_fields)


_MANAGED_FIELDS = b'"managedFields":'
_KIND_FIRST = (b'{"kind":', b'{"apiVersion":')
_PARTIAL_KIND = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'


def _with_kind(raw: bytes, obj: RawObject) -> bytes:
    """Put in the kind, which the API server leaves out in lists, and writes first otherwise.

    Where only metadata was asked for, that is not the object's own.
    """
    if raw.startswith(_PARTIAL_KIND):
        raw = b"{" + raw[len(_PARTIAL_KIND) :]
    elif raw.startswith(_KIND_FIRST):
        return raw
    resource = obj.resource
    kind = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind})
    return kind[:-1] + b"," + raw.lstrip()[1:]  # an object has at least metadata


def _without_managed_fields(obj: RawObject) -> bytes:
    """Cut them out of the object's text, with one of the commas around them."""
    raw, fields = bytes(obj.raw), bytes(obj.managed_fields)
    begins = raw.find(_MANAGED_FIELDS)
    value = begins + len(_MANAGED_FIELDS)
    if not fields or begins < 0:  # none, or spaced otherwise than by an API server
        return raw
    ends = value + len(fields)
    if raw.startswith(fields, value) and raw.find(_MANAGED_FIELDS, ends) < 0:
        before, after = raw[begins - 1 : begins], raw[ends : ends + 1]
        if after == b",":
            return raw[:begins] + raw[ends + 1 :]
        if before == b"," and after == b"}":
            return raw[: begins - 1] + raw[ends:]
    # the same words elsewhere in the object, or spaces around the comma
    return msgspec.json.encode(strip_managed_fields(obj.decode()))
