"""What decoding into the types of built-in kinds does: unknown fields go, wrong types are refused.

The types are those of the published schemas; what the server fills in at
decoding (``defaults``) is filled in here, too.
Source: kubernetes staging/src/k8s.io/api, decoded by encoding/json.
"""

import base64
import binascii
import re
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from distq.testing.apiserver import defaults, quantities
from distq.testing.apiserver.resources import NAME, PRESERVES, Schema, ServedResource, definition, pointers
from distq.testing.apiserver.status import bad_request, undecodable
from distq.testing.apiserver.store import Content
from distq.testing.apiserver.structural import admitted

_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_BASE64 = f"{string.ascii_letters}{string.digits}+/\r\n"
_GO_NAMES = {"string": "string", "boolean": "bool", "integer": "int64", "number": "float64"}
_SCALARS = {"string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float)}


class _Place(NamedTuple):
    """A field, as Go's decoder names it: the type that has it, and its path without indices."""

    struct: str
    path: str

    def wrong(self, found: str, wanted: str) -> ValueError:
        """Return the error for a value of another type."""
        field = f"Go struct field {self.struct}.{self.path}"
        return ValueError(f"json: cannot unmarshal {found} into {field} of type {wanted}")


def decode(resource: ServedResource, content: Content) -> Content:
    """Return the content, metadata apart, as its kind's type keeps it; what is null is absent."""
    if resource.custom:
        whole: Content = admitted(resource.schema, content)
        return whole
    try:
        decoded: Content = _struct(resource.schema, content, resource.kind, "")
    except ValueError as error:
        raise undecodable(resource, str(error)) from None
    decoded.pop("metadata", None)
    return decoded


def metadata(resource: ServedResource, given: Any) -> dict[str, Any]:
    """Return metadata as its type keeps it; what is empty is absent."""
    try:
        schema = definition("meta.v1.ObjectMeta")
        decoded: dict[str, Any] = _value(schema, given, _Place(resource.kind, "metadata"))
    except ValueError as error:
        raise undecodable(resource, str(error)) from None
    return {name: each for name, each in decoded.items() if each not in ("", {}, [])}


def delete_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return DeleteOptions as their type keeps them; raise StatusError where a field is of another one."""
    try:
        return _struct(definition("meta.v1.DeleteOptions"), dict(given), "DeleteOptions", "")
    except ValueError as error:
        raise bad_request(str(error)) from None


def not_a_map(value: Any) -> str:
    """Return what is wrong with a value where a map has to be."""
    return f"json: cannot unmarshal {json_word(value)} into Go value of type map[string]interface {{}}"


def json_word(value: Any) -> str:
    """Return what Go's decoder calls a value."""
    words = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return words.get(type(value), "null")


def _value(schema: Schema, value: Any, place: _Place) -> Any:
    convert = _CONVERSIONS.get(schema.get(NAME, "")) or _CONVERSIONS.get(schema.get("format", ""))
    if convert:
        return convert(value, place)
    if schema.get(PRESERVES):
        return value
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, value, place)
    if kind != "object":
        return _scalar(schema, value, place)
    if not isinstance(value, dict):
        raise place.wrong(json_word(value), _go_type(schema))
    if "properties" in schema:
        return _struct(schema, value, _go_type(schema).rpartition(".")[2], place.path)
    return _map(schema["additionalProperties"], value, place)


def _struct(schema: Schema, value: dict[str, Any], struct: str, path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, inner in schema["properties"].items():
        given = value.get(name)
        if given is None:
            if "default" not in inner:
                continue
            given = inner["default"]  # what Go writes for the zero value
        decoded = _value(inner, given, _Place(struct, f"{path}.{name}" if path else name))
        if decoded or not _left_out_if_empty(schema, name):
            fields[name] = decoded
    defaults.fill(schema.get(NAME, ""), fields)
    return fields


def _left_out_if_empty(schema: Schema, name: str) -> bool:
    """Return whether the field is ``omitempty`` in Go; a pointer to a zero is not empty."""
    inner = schema["properties"][name]
    if name in schema.get("required", ()):
        return False
    if inner.get("type") in _SCALARS:
        return "default" not in inner and name not in pointers(schema.get(NAME, ""))
    return inner.get("type") == "array" or "additionalProperties" in inner


def _map(schema: Schema, value: dict[str, Any], place: _Place) -> dict[str, Any]:
    empty = "0" if schema.get(NAME) == "api.resource.Quantity" else schema.get("default")
    given = {name: empty if each is None else each for name, each in value.items()}
    return {name: None if each is None else _value(schema, each, place) for name, each in given.items()}


def _list(schema: Schema, value: Any, place: _Place) -> list[Any]:
    if not isinstance(value, list):
        raise place.wrong(json_word(value), _go_type(schema))
    inner = schema["items"]
    return [_value(inner, inner.get("default") if each is None else each, place) for each in value]


def _scalar(schema: Schema, value: Any, place: _Place) -> Any:
    wanted = _go_type(schema)
    if type(value) not in _SCALARS[schema["type"]]:
        shown = f" {value}" if schema["type"] == "integer" and isinstance(value, float) else ""
        raise place.wrong(json_word(value) + shown, wanted)
    if schema["type"] == "integer":
        bits = 32 if wanted == "int32" else 64
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise place.wrong(f"number {value}", wanted)
    return value


def _go_type(schema: Schema) -> str:
    """Return a type as Go's messages name it."""
    if NAME in schema:
        return ".".join(schema[NAME].split(".")[-2:])
    if schema.get("type") == "array":
        return f"[]{_go_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map[string]{_go_type(schema['additionalProperties'])}"
    if schema.get("format") == "int32":
        return "int32"
    return "[]uint8" if schema.get("format") == "byte" else _GO_NAMES.get(schema.get("type", ""), "object")


def _bytes(value: Any, place: _Place) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise place.wrong(json_word(value), "[]uint8" if isinstance(value, list) else "string")
    try:
        base64.b64decode("".join(value.split("\n")), validate=True)
    except binascii.Error:
        legal = len(value) - len(value.lstrip(_BASE64))
        raise ValueError(f"illegal base64 data at input byte {legal}") from None
    return value


def _int_or_string(value: Any, place: _Place) -> Any:
    if isinstance(value, str) or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    shown = f" {value}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    raise place.wrong(json_word(value) + shown, "int32")


def _micro_time(value: Any, place: _Place) -> str:
    """Return a metav1.MicroTime as the server writes it; it takes exactly six decimals."""
    text = _text(value, place)
    if not _MICRO_TIME.match(text):
        cause = f'cannot parse "{text[19:]}" as ".000000"'
        raise ValueError(f'parsing time "{text}" as "{_MICRO_LAYOUT}": {cause}')
    instant = datetime.fromisoformat(text).astimezone(UTC)
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time(value: Any, place: _Place) -> str:
    """Return a metav1.Time as the server writes it: whole seconds."""
    text = _text(value, place)
    try:
        if not _TIME.match(text):
            raise ValueError
        instant = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise ValueError(f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{text}" as "2006"') from None
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(value: Any, place: _Place) -> str:
    if not isinstance(value, str):
        raise place.wrong(json_word(value), "string")
    return value


_CONVERSIONS: Mapping[str, Callable[[Any, _Place], Any]] = {
    "api.resource.Quantity": lambda value, _: quantities.canonical(value),
    "byte": _bytes,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.Time": _time,
    "util.intstr.IntOrString": _int_or_string,
}
