"""How objects leave the server: whole or as metadata only, alone, in lists, in watch events.

An object is encoded once; the kind and version in front are joined on as bytes.
Items of built-in lists carry neither kind nor apiVersion, those of custom
resources do.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from distq.testing.apiserver.resources import Resource
from distq.testing.apiserver.status import StatusError, not_acceptable, wrong_form
from distq.testing.apiserver.store import Stored

_encode = msgspec.json.encode
_PARTIAL = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
_ACCEPTED = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
)


class Representation:
    """One resource at one version, whole or metadata only."""

    def __init__(self, resource: Resource, *, partial: bool = False) -> None:
        self.resource = resource
        self.partial = partial
        self._head = b'{"kind":%s,"apiVersion":%s,' % (_encode(resource.kind), _encode(resource.api_version))

    def object(self, stored: Stored) -> bytes:
        """Return the object's JSON."""
        if self.partial:
            return _PARTIAL + stored.metadata_body[1:]
        return self._head + stored.body[1:]

    def list(self, items: Iterable[Stored], metadata: dict[str, Any]) -> bytes:
        """Return a list's JSON."""
        kind, api_version = self.resource.list_kind, self.resource.api_version
        if self.partial:
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        typed = self.partial or self.resource.custom
        encoded = [self.object(each) if typed else each.body for each in items]
        if self.resource.custom and not self.partial:
            metadata = {"continue": ""} | metadata
        head = _encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(encoded) + b"]}"

    def event(self, kind: str, stored: Stored) -> bytes:
        """Return the line of a watch event."""
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.object(stored))

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """Return the line of a bookmark."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self.event("BOOKMARK", Stored("", {"metadata": metadata}, revision))


def error_event(error: StatusError) -> bytes:
    """Return the line of an ERROR event, after which a watch ends."""
    return _encode({"type": "ERROR", "object": error.as_object()}) + b"\n"


def negotiate(accept: str, *, is_list: bool = False) -> bool:
    """Return whether metadata only is asked for.

    A Table is never made: clients that can take plain JSON too get that.
    """
    wanted = "PartialObjectMetadataList" if is_list else "PartialObjectMetadata"
    for part in accept.split(","):
        media_type, *parameters = (piece.strip() for piece in part.split(";"))
        if media_type not in {"", "*/*", "application/*", "application/json"}:
            continue
        form = next((each[3:] for each in parameters if each.startswith("as=")), "")
        if form.startswith("PartialObjectMetadata"):
            if form != wanted:
                raise wrong_form(form, is_list=is_list)
            return True
        if not form:
            return False
    raise not_acceptable(*_ACCEPTED)
