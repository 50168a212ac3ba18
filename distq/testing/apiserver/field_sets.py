"""Which fields an object has, which of them two versions of it differ in, and how a configuration is applied.

A path names the fields on its way, and the items of lists by their keys where the schema gives them keys.
An atomic value is one field, with all that is in it.
Source: sigs.k8s.io/structured-merge-diff typed, fieldpath.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from distq.testing.apiserver.causes import GO_TYPES, go_text, json_text
from distq.testing.apiserver.resources import PRESERVES, Schema
from distq.testing.apiserver.structural import EMBEDDED, field_schema

FREE: Schema = {PRESERVES: True}
_SCALARS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "string": ("string, got &value.valueUnstructured{{Value:{go}}}", str),
    "boolean": ("boolean, got &{{{go}}}", bool),
    "integer": ("numeric (int or float), got {type}", (int, float)),
    "number": ("numeric (int or float), got {type}", (int, float)),
}


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
        if isinstance(step, ListItem) or step not in (schema.get("properties") or {}):
            yield (*path, step)
        yield from fields_of(its_schema, each, (*path, step))


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
        return ListItem((("", json_text(value, sort=True)),))
    defaults = (schema.get("items") or {}).get("properties") or {}
    found = {name: value.get(name, (defaults.get(name) or {}).get("default")) for name in sorted(names)}
    return ListItem(
        tuple((name, json_text(each, sort=True)) for name, each in found.items() if each is not None)
    )


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


def problems(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Yield what keeps a configuration from being of its schema."""
    if value is None:
        return
    kind = schema.get("type")
    if kind == "object" and not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{go_text(value)}}}"
    elif kind == "array" and not isinstance(value, list):
        yield f"{path}: expected list, got &{{{go_text(value)}}}"
    elif kind in _SCALARS:
        wanted, types = _SCALARS[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
            found = wanted.format(go=go_text(value), type=GO_TYPES[type(value)])
            yield f"{path}: expected {found}"
    elif isinstance(value, dict):
        yield from _problems_of_fields(schema, value, path)
    elif isinstance(value, list):
        yield from _problems_of_items(schema, value, path)


def _problems_of_fields(schema: Schema, value: dict[str, Any], path: str) -> Iterator[str]:
    free = schema.get(PRESERVES) or schema.get(EMBEDDED) or not schema.get("type")
    for name, each in value.items():
        inner = field_schema(schema, name)
        if inner is not None:
            yield from problems(inner, each, f"{path}.{name}")
        elif not free:
            yield f"{path}.{name}: field not declared in schema"


def _problems_of_items(schema: Schema, value: list[Any], path: str) -> Iterator[str]:
    inner = schema.get("items") or FREE
    seen: set[ListItem] = set()
    for index, each in enumerate(value):
        if not is_atomic(schema, value):
            item = item_of(schema, each)
            if not item.keys:
                names = " ".join(f'"{name}"' for name in schema["x-kubernetes-list-map-keys"])
                yield (
                    f"{path}: element {index}: associative list with keys has an element that omits all key "
                    f"fields [{names}] (and doesn't have default values for any key fields)"
                )
            elif item in seen:
                yield f"{path}: duplicate entries for key {item}"
            seen.add(item)
            yield from problems(inner, each, f"{path}{item}")
        else:
            yield from problems(inner, each, f"{path}[{index}]")


def merged(schema: Schema, live: Any, applied: Any) -> Any:
    """Return a value with what is applied to it."""
    if applied is None or type(live) is not type(applied) or is_atomic(schema, applied):
        return applied
    if isinstance(applied, dict):
        inner = {name: field_schema(schema, name) or FREE for name in applied}
        return live | {name: merged(inner[name], live.get(name), each) for name, each in applied.items()}
    return _merged_items(schema, live, applied)


def _merged_items(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    """Return the items of both: those applied in their order, the others behind whom they followed."""
    inner = schema.get("items") or FREE
    before = {item_of(schema, each): each for each in live}
    after = {item_of(schema, each): each for each in applied}
    shared = [item for item in after if item in before]
    order: list[ListItem] = []
    waiting = list(after)
    for item in before:
        if item not in after:
            order.append(item)
        elif item in waiting and shared and item == shared[0]:
            upto = waiting.index(item) + 1
            order += waiting[:upto]
            waiting = waiting[upto:]
            shared = [each for each in waiting if each in before]
    both = {item: merged(inner, before[item], after[item]) for item in after.keys() & before.keys()}
    whole = before | after | both
    return [whole[item] for item in [*order, *waiting]]
