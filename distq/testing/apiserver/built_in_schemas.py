"""The schemas of the built-in kinds, as the real server publishes them.

The file beside this one has them without prose; definitions refer to each
other by name, here the objects themselves.
Source: /openapi/v3 of kube-apiserver 1.36, and for pointers types.go of k8s.io/api.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Schema = Mapping[str, Any]

PRESERVES = "x-kubernetes-preserve-unknown-fields"
FILE = Path(__file__).with_name("built_in_schemas.json")
NAME = "x-distq-name"
"""In a schema: the name of the definition that it is, such as ``core.v1.PodSpec``."""


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
    content: dict[str, Any] = msgspec.json.decode(FILE.read_bytes())
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
