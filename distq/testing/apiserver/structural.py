"""Structural schemas of custom resources: what they drop, and what they fill in.

A value that the schema does not name goes, unless unknown fields are preserved
there; a null goes where it is not allowed; a default takes the place of what is
absent. All are pure: what does not change is shared.
Source: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting,objectmeta}.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver.causes import json_text
from distq.testing.apiserver.resources import PRESERVES, Schema, definition

EMBEDDED = "x-kubernetes-embedded-resource"
TYPE_META: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": definition("meta.v1.ObjectMeta"),
}
"""The schemas of what all objects have."""


def admitted(schema: Schema, value: Any) -> Any:
    """Return an object, metadata apart, or a part of one, as its schema keeps it."""
    if isinstance(value, list):
        return [admitted(_of_items(schema), each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, each in value.items():
        inner = field_schema(schema, name)
        if inner is None:
            if schema.get(PRESERVES):
                kept[name] = each
        elif each is not None or inner.get("nullable") or not inner.get("type"):
            kept[name] = admitted(inner, each)
    for name, inner in (schema.get("properties") or {}).items():
        if name not in kept and "default" in inner:
            kept[name] = admitted(inner, inner["default"])
    return kept


def unknown_fields(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of what pruning drops."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from unknown_fields(_of_items(schema), each, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            place = f"{path}.{name}" if path else name
            inner = field_schema(schema, name)
            if inner is not None:
                yield from unknown_fields(inner, each, place)
            elif not schema.get(PRESERVES):
                yield place


def _of_items(schema: Schema) -> Schema:
    """Return the schema of a list's items; where unknown fields are preserved, they are in these, too."""
    items: Schema = schema.get("items") or {}
    return {**items, PRESERVES: True} if schema.get(PRESERVES) else items


def same_value(new: Any, old: Any) -> bool:
    """Return whether two values are the same JSON; to == True is 1, and 1 is 1.0."""
    return new == old and json_text(new, sort=True) == json_text(old, sort=True)


def field_schema(schema: Schema, name: str) -> Schema | None:
    """Return the schema of a field, None where there is none."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    if schema.get(EMBEDDED) and name in TYPE_META:
        known: Schema = TYPE_META[name]
        return known
    if name in properties:
        return properties[name]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    return {PRESERVES: True} if additional else None
