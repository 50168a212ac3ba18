"""What CustomResourceDefinitions have to hold; of their schemas, that they are structural.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation, pkg/apiserver/schema/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from distq.testing.apiserver.built_in import PRESERVES, Schema
from distq.testing.apiserver.causes import Cause, Fields, Rule, forbidden, required, unsupported, wrong
from distq.testing.apiserver.resources import DEFINITIONS
from distq.testing.apiserver.status import undecodable
from distq.testing.apiserver.typed import json_word

Value = TypeVar("Value", str, list[Any], dict[str, Any])

_INT_OR_STRING = "x-kubernetes-int-or-string"
_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_OF_FIELD = "must not be empty for specified object fields"
_OF_ITEM = "must not be empty for specified array items"
_OF_METADATA = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)


def _spec(spec: Fields, before: str) -> Iterator[Cause]:
    versions, path = spec.get("versions", []), f"{before}versions"
    if len({each.get("name") for each in versions}) < len(versions):
        yield wrong(path, versions, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield wrong(path, versions, "must have exactly one version marked as storage version")
    if scope := spec.get("scope"):
        yield from unsupported(f"{before}scope", scope, ["Cluster", "Namespaced"])
    for index, version in enumerate(versions):
        schema = version.get("schema", {}).get("openAPIV3Schema")
        place = "validation" if len(versions) == 1 else f"versions[{index}].schema"
        if schema is None:
            yield required(f"{path}[{index}].schema.openAPIV3Schema")
        else:
            yield from _root(_read(schema, dict), f"{before}{place}.openAPIV3Schema")


def _root(schema: Schema, path: str) -> Iterator[Cause]:
    kind = _read(schema.get("type"), str)
    if not kind and not schema.get(PRESERVES):
        yield required(f"{path}.type", "must not be empty at the root")
    elif kind not in {"", "object"}:
        yield wrong(f"{path}.type", kind, "must be object at the root")
    metadata = _read(_read(schema.get("properties"), dict).get("metadata"), dict)
    if _read(metadata.get("properties"), dict).keys() - {"name", "generateName"}:
        yield forbidden(f"{path}.properties[metadata]", _OF_METADATA)
    yield from _within(schema, path)


def _structural(schema: Schema, path: str, rule: str) -> Iterator[Cause]:
    """Yield what keeps a schema from being structural, which has a type wherever it names something."""
    kind = _read(schema.get("type"), str)
    if kind:
        yield from unsupported(f"{path}.type", kind, _TYPES)
    elif not schema.get(PRESERVES) and not schema.get(_INT_OR_STRING):
        yield required(f"{path}.type", rule)
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    yield from _within(schema, path)


def _within(schema: Schema, path: str) -> Iterator[Cause]:
    fields, others = _read(schema.get("properties"), dict), schema.get("additionalProperties")
    if fields and others:
        rule = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", rule)
    for name, each in fields.items():
        yield from _structural(_read(each, dict), f"{path}.properties[{name}]", _OF_FIELD)
    if not isinstance(others, bool | None):
        yield from _structural(_read(others, dict), f"{path}.additionalProperties", _OF_FIELD)
    if isinstance(schema.get("items"), dict):
        yield from _structural(schema["items"], f"{path}.items", _OF_ITEM)
    if not schema.get(_INT_OR_STRING):
        yield from _types_of_choices(schema, path)


def _types_of_choices(schema: Schema, path: str) -> Iterator[Cause]:
    for word in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(_read(schema.get(word), list)):
            if _read(each, dict).get("type"):
                yield forbidden(f"{path}.{word}[{index}].type", "must be empty to be structural")


def _read(value: Any, kind: type[Value]) -> Value:
    """Return a part of a schema, empty where it is absent; what is of another type cannot be decoded."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        refusal = f"json: cannot unmarshal {json_word(value)} into Go value of type v1.JSONSchemaProps"
        raise undecodable(DEFINITIONS, refusal)
    return value


RULES: Mapping[str, Rule] = {"apiextensions.v1.CustomResourceDefinitionSpec": _spec}
