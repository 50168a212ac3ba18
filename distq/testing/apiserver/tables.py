"""Objects as rows of a table, as ``kubectl get`` asks for them.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor, apimachinery meta/table.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from distq.testing.apiserver.cells import Column, Columns
from distq.testing.apiserver.columns import columns_of
from distq.testing.apiserver.durations import age
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content, Stored

_STEP = re.compile(r"\.?((?:\\.|[^.\[\]'\\])+)|\['([^']*)'\]|\[(\d+)\]")
_ESCAPED = re.compile(r"\\(.)")
_FINISHED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}
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
            told = {"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}
            row["conditions"] = [told]
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
        shown = (_cell(each["type"], value) for each, value in zip(asked, found, strict=True))
        return [content["metadata"]["name"], *shown]

    return Columns([Column("Name", format="name"), *definitions], cells)


def _find(content: Content, path: str) -> Any:
    """Return what a simple JSONPath leads to, None where nothing is."""
    value: Any = content
    for name, quoted, index in _STEP.findall(path):
        if index:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            step = _ESCAPED.sub(r"\1", name or quoted)
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _cell(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else _printed(value)
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


def _printed(value: Any) -> str:
    """Return a value as JSON, as templates print what is no text."""
    return msgspec.json.encode(value, order="sorted").decode()
