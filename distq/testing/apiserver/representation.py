"""How objects leave the server: whole or as metadata only, alone, in lists, in watch events.

An object is encoded once; the kind and version in front are joined on as bytes.
Items of built-in lists carry neither kind nor apiVersion, those of custom
resources do.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from distq.testing.apiserver.resources import ServedResource, built_in
from distq.testing.apiserver.status import StatusError
from distq.testing.apiserver.store import Stored
from distq.testing.apiserver.tables import columns_of

_encode = msgspec.json.encode
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"
_TABLE = "Table"
_FINISHED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_PARTIAL_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'


class Representation:
    """One resource at one version, in the form that an Accept header asks for."""

    def __init__(self, resource: ServedResource, accept: str, *, include: str = "") -> None:
        self.resource = resource
        columns = columns_of(resource) if f"as={_TABLE}" in accept else None
        self.form = _negotiate(accept, tables=columns is not None)
        self._columns = (columns or []) if self.form == _TABLE else []
        self._include = include
        self._begun = False
        """Whether an event was sent: later tables have no headers."""
        self._head = b'{"kind":%s,"apiVersion":%s,' % (_encode(resource.kind), _encode(resource.api_version))

    def object(self, stored: Stored) -> bytes:
        """Return the object's JSON."""
        if self._columns:
            return _encode(self._table([stored], {"resourceVersion": stored.metadata["resourceVersion"]}))
        if self.form:
            return _PARTIAL_HEAD + stored.metadata_body[1:]
        return self._head + stored.body[1:]

    def list(self, items: Iterable[Stored], metadata: dict[str, Any]) -> bytes:
        """Return a list's JSON."""
        if self._columns:
            return _encode(self._table(items, metadata))
        kind, api_version = self.resource.list_kind, self.resource.api_version
        if self.form:
            kind, api_version = PARTIAL_LIST, "meta.k8s.io/v1"
        typed = bool(self.form) or self.resource.custom
        encoded = [self.object(each) if typed else each.body for each in items]
        if self.resource.custom and not self.form:
            metadata = {"continue": ""} | metadata
        head = _encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(encoded) + b"]}"

    def event(self, kind: str, stored: Stored) -> bytes:
        """Return the line of a watch event."""
        if not self._columns:
            return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.object(stored))
        metadata = {"resourceVersion": stored.metadata["resourceVersion"]}
        table = self._table([] if kind == "BOOKMARK" else [stored], metadata, headers=not self._begun)
        self._begun = True
        return _encode({"type": kind, "object": table}) + b"\n"

    def _table(
        self, items: Iterable[Stored], metadata: dict[str, Any], *, headers: bool = True
    ) -> dict[str, Any]:
        head = {"kind": _TABLE, "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        definitions = [column for column, _ in self._columns] if headers else []
        return head | {"columnDefinitions": definitions, "rows": [self._row(each) for each in items]}

    def _row(self, stored: Stored) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": [make(stored.content) for _, make in self._columns]}
        phase = stored.content.get("status", {}).get("phase") if self.resource.kind == "Pod" else None
        if phase in _FINISHED:
            finished = {"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}
            row["conditions"] = [finished]
        if self._include == "Object":
            row["object"] = self.resource.with_type(stored.content)
        elif self._include != "None":
            row["object"] = {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": stored.metadata}
        return row

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """Return the line of a bookmark."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self.event("BOOKMARK", Stored("", {"metadata": metadata}, revision))


def error_event(error: StatusError) -> bytes:
    """Return the line of an ERROR event, after which a watch ends."""
    return _encode({"type": "ERROR", "object": error.as_object()}) + b"\n"


def _negotiate(accept: str, *, tables: bool = False) -> str:
    """Return the form of objects that is asked for: metadata only, in a list or not, a table, or whole ("").

    Where no ``tables`` are made clients that can take plain JSON too get that.
    """
    for part in accept.split(","):
        media_type, *parameters = (piece.strip() for piece in part.split(";"))
        if media_type not in {"", "*/*", "application/*", "application/json"}:
            continue
        form = next((each[3:] for each in parameters if each.startswith("as=")), "")
        if form in {"", PARTIAL, PARTIAL_LIST} or (form == _TABLE and tables):
            return form
    raise StatusError(406, built_in()["messages"]["not_acceptable"], details={})
