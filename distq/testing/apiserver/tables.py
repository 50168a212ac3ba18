"""Objects as rows of a table, as ``kubectl get`` asks for them.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor, apimachinery meta/table.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from distq.testing.apiserver.columns import Column, Columns, columns_of
from distq.testing.apiserver.durations import age
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content, Stored

_STEP = re.compile(
    r"\.?(?P<name>(?:\\.|[^.\[\]'\\])+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+|\*)\]"
    r"|\[\?\(\s*@\.(?P<field>[^\s=!<>()]+)\s*(?:(?P<compare>==|!=|<=?|>=?)\s*(?P<than>.+?))?\s*\)\]"
)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ESCAPED = re.compile(r"\\(.)")
_FINISHED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
AGE: Mapping[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
"""The column of a definition that has none."""


class Tables:
    """Makes tables of a resource's objects."""

    def __init__(self, columns: Columns, resource: ServedResource) -> None:
        self._columns = columns
        self._resource = resource

    @classmethod
    def of(cls, resource: ServedResource) -> "Tables | None":
        """Return what makes tables of a resource, None where its columns are not known."""
        columns = _custom(resource) if resource.custom else columns_of(resource)
        return cls(columns, resource) if columns else None

    def table(
        self, items: Iterable[Stored], metadata: Mapping[str, Any], *, include: str, headers: bool = True
    ) -> dict[str, Any]:
        """Return a table of objects, each with its metadata, or as ``include`` says."""
        definitions = [each._asdict() for each in self._columns.definitions] if headers else []
        rows = [self._row(each, include) for each in items]
        head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return head | {"columnDefinitions": definitions, "rows": rows}

    def _row(self, stored: Stored, include: str) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": self._columns.cells(stored.content)}
        phase = stored.content.get("status", {}).get("phase") if self._resource.kind == "Pod" else None
        if phase in _FINISHED:
            finished = {"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}
            row["conditions"] = [finished]
        if include == "Object":
            kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
            row["object"] = kind | stored.content
        elif include != "None":
            kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = kind | {"metadata": stored.metadata}
        return row


def _custom(resource: ServedResource) -> Columns:
    """Return the columns that a definition asks for behind the name."""
    asked = resource.columns or (AGE,)
    definitions = [
        Column(
            each["name"],
            each["type"],
            each.get("format", ""),
            each.get("description")
            or f"Custom resource definition column (in JSONPath format): {each['jsonPath']}",
            each.get("priority", 0),
        )
        for each in asked
    ]

    def cells(content: Content) -> list[Any]:
        found = (_find(content, each["jsonPath"]) for each in asked)
        shown = (
            _cell(each["type"], values[0] if values else None)
            for each, values in zip(asked, found, strict=True)
        )
        return [content["metadata"]["name"], *shown]

    return Columns([Column("Name", format="name"), *definitions], cells)


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


def _cell(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    if kind == "date":
        return _date(value) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _date(text: str) -> str:
    try:
        return age(text)
    except ValueError:
        return "<invalid>"
