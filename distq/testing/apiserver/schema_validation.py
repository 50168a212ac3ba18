"""Whether a custom resource keeps to its schema, in the words of the real server.

What an update leaves as it was is not looked at again, so that a stricter
schema does not stop writes of other fields (ratcheting).
Source: kube-openapi pkg/validation/validate, apiextensions-apiserver pkg/apiserver/validation.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import msgspec

from distq.testing.apiserver import formats
from distq.testing.apiserver.built_in import INT_OR_STRING, Schema
from distq.testing.apiserver.causes import Cause, duplicate, required
from distq.testing.apiserver.structural import EMBEDDED, same_value

_LIST_TYPE = "x-kubernetes-list-type"
_NOWHERE = "<nil>"
"""The field of messages that name it in their text."""
_TYPE_NAMES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_INTEGER_BITS = {"int32": 32, "int64": 64}


def violations(schema: Schema, new: Any, old: Any = None, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with a value that was another one before (None: there was none)."""
    if old is not None and same_value(new, old):
        return
    if new is None and schema.get("nullable"):
        return
    for rule in _RULES:
        yield from rule(schema, new, path)
    if isinstance(new, dict):
        yield from _fields(schema, new, old, path)
    elif isinstance(new, list):
        yield from _items(schema, new, old, path)


def _fields(schema: Schema, new: dict[str, Any], old: Any, path: str) -> Iterator[Cause]:
    before = old if isinstance(old, dict) else {}
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, value in new.items():
        inner = properties.get(name, additional)
        if isinstance(inner, dict):
            yield from violations(inner, value, before.get(name), f"{path}.{name}" if path else name)


def _items(schema: Schema, new: list[Any], old: Any, path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    before = {_key(each, keys): each for each in old} if keys and isinstance(old, list) else {}
    for index, value in enumerate(new):
        yield from violations(
            schema.get("items") or {}, value, before.get(_key(value, keys)), f"{path}[{index}]"
        )


def _types(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    wanted = (
        ["integer", "string"] if schema.get(INT_OR_STRING) else [schema["type"]] if "type" in schema else []
    )
    found = _TYPE_NAMES[type(value)]
    if not wanted or found in wanted or (found == "integer" and "number" in wanted):
        return
    cause = f'{path} in body must be of type {",".join(wanted)}: "{found}"'
    yield "FieldValueTypeInvalid", path, f'Invalid value: "{found}": {cause}'


def _required(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, dict):
        return
    embedded = ["apiVersion", "kind"] if schema.get(EMBEDDED) else []
    for name in [*embedded, *(schema.get("required") or ())]:
        if name not in value:
            yield required(f"{path}.{name}" if path else name)


def _alternatives(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    yield from _any_of(schema.get("anyOf") or (), value, path)
    yield from _one_of(schema.get("oneOf") or (), value, path)
    yield from _all_of(schema.get("allOf") or (), value, path)
    if "not" in schema and not list(violations(schema["not"], value, path=path)):
        yield _said(f'"{path}" must not validate the schema (not)')


def _any_of(schemas: Sequence[Schema], value: Any, path: str) -> Iterator[Cause]:
    found = [list(violations(each, value, path=path)) for each in schemas]
    if found and all(found):
        yield _said(f'"{path}" must validate at least one schema (anyOf)')
        yield from found[0]


def _one_of(schemas: Sequence[Schema], value: Any, path: str) -> Iterator[Cause]:
    found = [list(violations(each, value, path=path)) for each in schemas]
    valid = found.count([])
    if not found or valid == 1:
        return
    how_many = f"Found {valid} valid alternatives" if valid else "Found none valid"
    yield _said(f'"{path}" must validate one and only one schema (oneOf). {how_many}')
    if not valid:
        yield from found[0]


def _all_of(schemas: Sequence[Schema], value: Any, path: str) -> Iterator[Cause]:
    found = [list(violations(each, value, path=path)) for each in schemas]
    for each in found:
        yield from each
    if any(found):
        none = ". None validated" if all(found) else ""
        yield _said(f'"{path}" must validate all the schemas (allOf){none}')


def _texts(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, str):
        return
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        yield "FieldValueTooLong", path, f"Too long: may not be more than {most} bytes"
    elif least is not None and len(value) < least:
        yield _bad(path, value, f"should be at least {least} chars long")
    elif pattern is not None and not re.search(pattern, value):
        yield _bad(path, value, f"should match '{pattern}'")
    if not formats.matches(value, schema.get("format", "")):
        yield _bad(
            path, value, f"must be of type {schema['format']}: {_quoted(value)}", "FieldValueTypeInvalid"
        )


def _numbers(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    yield from _integers(schema, value, path)
    factor, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    if factor is not None and value % factor:
        yield _bad(path, value, f"should be a multiple of {_quoted(factor)}")
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        relation = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _bad(path, value, f"should be {relation} {_quoted(most)}")
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        relation = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _bad(path, value, f"should be {relation} {_quoted(least)}")


def _integers(schema: Schema, value: int | float, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a number as an integer of its format."""
    if schema.get("type") != "integer":
        return
    bits = _INTEGER_BITS.get(schema.get("format", ""))
    size = f"with format {schema['format']}" if bits else "(default format)"
    limit = 2 ** ((bits or 64) - 1)
    if value % 1 or not -limit <= value < limit:
        yield _said(f"Checked value must be of type integer {size} in {path}")


def _lists(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, list):
        return
    yield from _counts(schema, value, path, "items")
    yield from _duplicates(schema, value, path)


def _duplicates(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    if schema.get(_LIST_TYPE) not in {"set", "map"}:
        return
    names = schema.get("x-kubernetes-list-map-keys") or ()
    seen = set()
    for index, each in enumerate(value):
        key = _key(each, names)
        if key in seen:
            yield duplicate(f"{path}[{index}]", key.decode())
        seen.add(key)


def _sizes(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, dict):
        return
    yield from _counts(schema, value, path, "properties")


def _counts(schema: Schema, value: Sized, path: str, what: str) -> Iterator[Cause]:
    most, least = schema.get(f"max{what.capitalize()}"), schema.get(f"min{what.capitalize()}")
    if least is not None and len(value) < least:
        yield _bad(path, len(value), f"should have at least {least} {what}")
    if most is not None and len(value) > most:
        yield "FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {most} items"


def _choices(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    supported = schema.get("enum")
    if supported is not None and not any(value == each and type(value) is type(each) for each in supported):
        listed = ", ".join(_quoted(each) for each in supported)
        message = f"Unsupported value: {_quoted(value)}: supported values: {listed}"
        yield "FieldValueNotSupported", path, message


_RULES: Sequence[Callable[[Schema, Any, str], Iterator[Cause]]] = (
    _types,
    _alternatives,
    _texts,
    _numbers,
    _lists,
    _choices,
    _sizes,
    _required,
)


def _bad(path: str, value: Any, rule: str, reason: str = "FieldValueInvalid") -> Cause:
    return reason, path, f"Invalid value: {_quoted(value)}: {path} in body {rule}"


def _said(message: str) -> Cause:
    return "FieldValueInvalid", _NOWHERE, f'Invalid value: "": {message}'


def _quoted(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _key(item: Any, names: Sequence[str]) -> bytes:
    if names and isinstance(item, dict):
        item = {name: item[name] for name in names if name in item}
    return msgspec.json.encode(item, order="deterministic")
