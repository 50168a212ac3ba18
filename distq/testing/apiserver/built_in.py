"""The built-in kinds: their schemas, and what else differs from kind to kind, from the two files beside this.

The schemas are as the real server publishes them, without prose; definitions that refer to each other by
name there hold the objects themselves here.
Source: /openapi/v3 of kube-apiserver 1.36, and for pointers types.go of k8s.io/api.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Rules = Mapping[str, Any]
"""What ``built_in_kinds.yaml`` has of a kind, or of a type."""
Schema = Mapping[str, Any]

_KINDS = Path(__file__).with_name("built_in_kinds.yaml")
SCHEMAS = Path(__file__).with_name("built_in_schemas.json")
PRESERVES = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
NAME = "x-distq-name"
"""In a schema: the name of the definition that it is, such as ``core.v1.PodSpec``."""


@cache
def built_in() -> Mapping[str, Mapping[str, Any]]:
    """Return the kinds, the subresources and the types."""
    content: Mapping[str, Mapping[str, Any]] = msgspec.yaml.decode(_KINDS.read_bytes())
    return content


def rules_of(name: str) -> Rules:
    """Return the rules of a type, by its name in the schemas, empty where it has none."""
    rules: Rules = built_in()["types"].get(name, {})
    return rules


def names_in(rules: Rules, key: str) -> list[str]:
    """Return the names that rules list under a key."""
    return str(rules.get(key, "")).split()


def schema_of(api_version: str, kind: str) -> Schema:
    """Return the schema of a kind; that of one which is not in the file allows everything."""
    kinds: Mapping[str, str] = published()["kinds"]
    name = kinds.get(f"{api_version}/{kind}")
    return _definitions()[name] if name else {}


def definition(name: str) -> Schema:
    """Return a definition by its name."""
    return _definitions()[name]


def pointers(name: str) -> Sequence[str]:
    """Return the optional scalars of a definition that keep a zero: Go has pointers to them."""
    found: Sequence[str] = published()["pointers"].get(name, ())
    return found


@cache
def published() -> dict[str, Any]:
    """Return what the file says."""
    content: dict[str, Any] = msgspec.json.decode(SCHEMAS.read_bytes())
    return content


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    """Return the definitions with what they refer to in place; some contain themselves."""
    definitions = {name: _named(name, schema) for name, schema in published()["definitions"].items()}

    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        whole = {**definitions[schema["$ref"]], **schema} if "$ref" in schema else dict(schema)
        for inner in ("items", "additionalProperties"):
            if isinstance(schema.get(inner), dict):
                whole[inner] = resolved(schema[inner])
        return whole

    for each in definitions.values():
        for name, schema in each.get("properties", {}).items():
            each["properties"][name] = resolved(schema)
    return definitions


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a definition that knows its name; one of no fields is of any."""
    if "properties" in schema:
        return {**schema, NAME: name, "properties": dict(schema["properties"])}
    return {**schema, NAME: name, PRESERVES: True}
