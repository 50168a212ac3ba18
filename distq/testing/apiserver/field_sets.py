"""Which fields an object has, and which of them two versions of it differ in.

A path names the fields on its way, and the items of lists by their keys where
the schema gives them keys. What is atomic is one field, whatever is in it.
Source: sigs.k8s.io/structured-merge-diff typed, fieldpath.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from distq.testing.apiserver.built_in_schemas import PRESERVES, Schema
from distq.testing.apiserver.structural import field_schema

FREE: Schema = {PRESERVES: True}


class ListItem(NamedTuple):
    """An item of a list: by the names and values of its keys, or in a set by its value, without a name."""

    keys: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"[{','.join(f'{name}={value}' for name, value in self.keys)}]"


Path = tuple[str | ListItem, ...]


def text_of(path: Path) -> str:
    """Return a path as messages name it: ``.spec.ports[port=80].name``."""
    return "".join(str(step) if isinstance(step, ListItem) else f".{step}" for step in path)


def fields_of(schema: Schema, value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all fields in a value."""
    inner = list(parts(schema, value))
    if not inner and (not isinstance(value, list) or is_atomic(schema, value)):
        yield path
        return
    for step, each, its_schema in inner:
        yield from _fields_of_part(schema, step, each, its_schema, path)


def _fields_of_part(
    schema: Schema, step: str | ListItem, value: Any, its_schema: Schema, path: Path
) -> Iterator[Path]:
    if isinstance(step, ListItem) or step not in (schema.get("properties") or {}):
        yield (*path, step)
    yield from fields_of(its_schema, value, (*path, step))


def added(schema: Schema, value: Any, path: Path = (), *, typed: bool = False) -> Iterator[Path]:
    """Yield the paths of all in a new value, those of what holds others, too.

    ``typed`` says that it is of a Go type, which has some fields before anything is in them.
    """
    for step, each, its_schema in parts(schema, value):
        required = isinstance(step, str) and step in (schema.get("required") or ())
        there = typed and (required or ("default" in its_schema and not isinstance(step, ListItem)))
        if not there or is_atomic(its_schema, each):
            yield (*path, step)
        yield from added(its_schema, each, (*path, step), typed=there)


def differences(schema: Schema, old: Any, new: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of what the new value has otherwise, or the old one has not."""
    if old == new:
        return
    before = {step: each for step, each, _ in parts(schema, old)}
    inner = list(parts(schema, new))
    if not inner or not isinstance(old, type(new)):
        yield from fields_of(schema, new, path)
        return
    if old == {}:  # which is a field of its own
        yield path
    for step, each, its_schema in inner:
        if step in before:
            yield from differences(its_schema, before[step], each, (*path, step))
        else:
            yield (*path, step)
            yield from added(its_schema, each, (*path, step))


def parts(schema: Schema, value: Any) -> Iterator[tuple[str | ListItem, Any, Schema]]:
    """Yield the fields or items of a value with their schemas; none where it is one field."""
    if is_atomic(schema, value):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            yield name, each, field_schema(schema, name) or FREE
    else:
        for each in value:
            yield item_of(schema, each), each, schema.get("items") or FREE


def is_atomic(schema: Schema, value: Any) -> bool:
    """Return whether a value is owned as a whole."""
    if isinstance(value, dict):
        return schema.get("x-kubernetes-map-type") == "atomic"
    return not isinstance(value, list) or schema.get("x-kubernetes-list-type", "atomic") == "atomic"


def item_of(schema: Schema, value: Any) -> ListItem:
    """Return what identifies an item of a list; keys that it leaves out have their defaults."""
    names: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
    if not names or not isinstance(value, dict):
        return ListItem((("", _json(value)),))
    defaults = (schema.get("items") or {}).get("properties") or {}
    found = {name: value.get(name, (defaults.get(name) or {}).get("default")) for name in sorted(names)}
    return ListItem(tuple((name, _json(each)) for name, each in found.items() if each is not None))


def without(schema: Schema, value: Any, paths: set[Path]) -> Any:
    """Return a value without the fields of the paths; what is left empty goes, too."""
    heads = {path[0] for path in paths if len(path) == 1}
    kept = []
    for step, each, its_schema in parts(schema, value):
        rest = {path[1:] for path in paths if len(path) > 1 and path[0] == step}
        left = without(its_schema, each, rest) if rest else each
        if step not in heads and (left or not rest):
            kept.append((step, left))
    if isinstance(value, dict):
        return dict(kept)
    return [each for _, each in kept]


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
