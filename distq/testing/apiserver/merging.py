"""How an applied configuration is checked against a schema, and merged into an object.

Source: sigs.k8s.io/structured-merge-diff typed/{validate,merge}.go.
"""

from collections.abc import Iterator
from typing import Any

from distq.testing.apiserver.built_in_schemas import PRESERVES, Schema
from distq.testing.apiserver.field_sets import FREE, ListItem, is_atomic, item_of
from distq.testing.apiserver.structural import EMBEDDED, field_schema

_SCALARS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "string": ("string, got &value.valueUnstructured{{Value:{go}}}", str),
    "boolean": ("boolean, got &{{{go}}}", bool),
    "integer": ("numeric (int or float), got {type}", (int, float)),
    "number": ("numeric (int or float), got {type}", (int, float)),
}
_GO_TYPES = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}


def problems(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Yield what keeps a configuration from being of its schema."""
    if value is None:
        return
    kind = schema.get("type")
    if kind == "object" and not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{_go(value)}}}"
    elif kind == "array" and not isinstance(value, list):
        yield f"{path}: expected list, got &{{{_go(value)}}}"
    elif kind in _SCALARS:
        wanted, types = _SCALARS[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
            found = wanted.format(go=_go(value), type=_GO_TYPES.get(type(value), "float64"))
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


def _go(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    return [_of_both(inner, before, after, item) for item in [*order, *waiting]]


def _of_both(schema: Schema, before: dict[ListItem, Any], after: dict[ListItem, Any], item: ListItem) -> Any:
    if item not in after:
        return before[item]
    return merged(schema, before[item], after[item]) if item in before else after[item]
