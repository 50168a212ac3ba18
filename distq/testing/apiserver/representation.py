"""How objects leave the server: whole, as metadata only or as rows of a table; alone, in lists, in events.

A definition asks for the columns of its custom resources. Those of a built-in kind are cells by title, in
``built_in_kinds.yaml``: the value at a path (of several, the first that is there), or a function of the table
``CELLS``, of that value as in ``age(spec.time)``, or of the whole object as in ``phase()``. A list has also
what is shown where the value is absent. A column with ``+`` behind its title is shown where there is room;
``#``, ``?`` and ``@`` mark number, boolean, date.
Source: kubernetes pkg/printers/internalversion/printers.go, apiextensions-apiserver
pkg/registry/customresource/tableconvertor, apimachinery meta/table.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import msgspec

from distq.testing.apiserver.causes import json_text
from distq.testing.apiserver.cells import CELLS, age
from distq.testing.apiserver.resources import ServedResource, built_in
from distq.testing.apiserver.status import StatusError
from distq.testing.apiserver.store import Content, Stored, value_at

_encode = msgspec.json.encode
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"
_TABLE = "Table"
_FINISHED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_PARTIAL_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
Cell = Callable[[Content], Any]
Column = Mapping[str, Any]
"""What a table has about a column (metav1.TableColumnDefinition)."""

_CALL = re.compile(r"(\w+)\(([\w.|]*)\)")
_TYPES = {"#": "integer", "?": "boolean", "@": "date"}
_OFTEN = {"Age": "age(metadata.creationTimestamp)", "Created At": "metadata.creationTimestamp"}
"""The cells of titles that name none."""
_STEP = re.compile(
    r"\.?(?P<name>(?:\\.|[^.\[\]'\\])+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+|\*)\]"
    r"|\[\?\(\s*@\.(?P<field>[^\s=!<>()]+)\s*(?:(?P<compare>==|!=|<=?|>=?)\s*(?P<than>.+?))?\s*\)\]"
)
_COMPARE = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_ESCAPED = re.compile(r"\\(.)")
_AGE: Mapping[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
"""The column of a definition that has none."""


class Representation:
    """One resource at one version, in the form that an Accept header asks for."""

    def __init__(self, resource: ServedResource, accept: str, *, include: str = "") -> None:
        self.resource = resource
        columns = _columns_of(resource) if f"as={_TABLE}" in accept else None
        self.form = _negotiate(accept, tables=columns is not None)
        self._columns = (columns or []) if self.form == _TABLE else []
        self._include = include
        self._begun = False
        """Whether an event was sent: later tables have no headers."""
        # joined on as bytes, so that an object is encoded once for all that read it
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
        typed = bool(self.form) or self.resource.custom  # items of built-in lists have no kind
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


def _negotiate(accept: str, *, tables: bool) -> str:
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


def _columns_of(resource: ServedResource) -> Sequence[tuple[Column, Cell]] | None:
    """Return the columns, each with what makes an object's cell in it; None where they are not known."""
    if resource.custom:
        return list(_custom_columns(resource))
    return _built_in_columns(resource) if "columns" in resource.rules else None


@cache
def _built_in_columns(resource: ServedResource) -> list[tuple[Column, Cell]]:
    return [_built_in_column(title, cell) for title, cell in resource.rules["columns"].items()]


def _built_in_column(title: str, given: Any) -> tuple[Column, Cell]:
    plain = title.removesuffix("+")
    name = plain.rstrip("#?@")
    wanted, absent = given if isinstance(given, list) else (given, None)
    wanted = wanted or _OFTEN.get(name, "metadata.name")
    call = _CALL.fullmatch(wanted)
    show, paths = (CELLS[call[1]], call[2]) if call else (_plain, wanted)

    def make(content: Content) -> Any:
        values = (value_at(content, path) for path in paths.split("|")) if paths else [content]
        value = next((each for each in values if each is not None), None)
        return absent if value is None and absent is not None else show(value)

    kind = _TYPES.get(plain[-1], "string")
    form = "name" if name == "Name" else ""
    return _column(name, kind, form, "", int(plain != title)), make


def _column(name: str, kind: str, form: str, description: str, priority: int) -> Column:
    """Return a column, which ``-o wide`` alone shows where its priority is above 0."""
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def _plain(value: Any) -> Any:
    return "" if value is None else value


def _custom_columns(resource: ServedResource) -> Iterator[tuple[Column, Cell]]:
    """Yield the name, and the columns that a definition asks for behind it."""
    yield _column("Name", "string", "name", "", 0), lambda content: content["metadata"]["name"]
    for each in resource.columns or (_AGE,):
        path, kind = each["jsonPath"], each["type"]
        described = each.get("description")
        described = described or f"Custom resource definition column (in JSONPath format): {path}"
        column = _column(each["name"], kind, each.get("format", ""), described, each.get("priority", 0))
        yield column, partial(_custom_cell, path, kind)


def _custom_cell(path: str, kind: str, content: Content) -> Any:
    value = next(iter(_find(content, path)), None)
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else json_text(value, sort=True)
    if kind == "date":
        return age(value) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _find(content: Content, path: str) -> list[Any]:
    """Return what a JSONPath leads to: names, indices, all of a list, and filters by one field."""
    values: list[Any] = [content]
    for step in _STEP.finditer(path):
        values = [found for value in values for found in _inside(value, step)]
    return values


def _inside(value: Any, step: re.Match[str]) -> Iterator[Any]:
    if isinstance(value, list):
        if step["field"]:
            yield from (each for each in value if _passes(each, step))
        elif step["index"] == "*":
            yield from value
        elif step["index"] and -len(value) <= int(step["index"]) < len(value):
            yield value[int(step["index"])]
    elif isinstance(value, dict):
        name = _ESCAPED.sub(r"\1", step["name"] or step["quoted"] or "")
        if step["index"] == "*":
            yield from value.values()
        elif name in value:
            yield value[name]


def _passes(item: Any, step: re.Match[str]) -> bool:
    found = _find(item, step["field"])
    if not step["compare"] or not found:
        return bool(found)
    text = step["than"]
    than = text[1:-1] if text[0] in "'\"" else msgspec.json.decode(text)
    try:
        return bool(_COMPARE[step["compare"]](found[0], than))
    except TypeError:
        return False
