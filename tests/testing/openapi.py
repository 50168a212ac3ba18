"""The schemas of the built-in kinds, taken from a real API server for the emulated one.

``python -m tests.testing.openapi`` starts one and writes what the emulator ships
anew: names, types and list keys of fields, without descriptions. Which fields keep
a zero is in no schema: it is read from Go's types, which ``python -m tests.go`` loads.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from distq.client import Client
from distq.testing.apiserver.resources import BUILT_IN, OF_SUBRESOURCES, SCHEMAS

Definitions = dict[str, dict[str, Any]]

_PREFIXES = (
    "io.k8s.api.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apimachinery.pkg.",
    "io.k8s.apiextensions-apiserver.pkg.apis.",
)
_LEFT_OUT = {"description", "x-kubernetes-group-version-kind", "x-kubernetes-unions", "title"}
_REFERENCE = "#/components/schemas/"
_SCALARS = {"boolean", "integer", "number", "string"}
_MODULES = {"apiextensions": "apiextensions-apiserver@*/pkg/apis", "meta": "apimachinery@*/pkg/apis"}
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\s+(\w+)(?:\s+(\S+))?\s+`.*json:"([^",]*),?(\w*)"', re.MULTILINE)


def published(client: Client) -> dict[str, Any]:
    """Return the schema of each built-in kind, and the definitions that they refer to."""
    shown = [*BUILT_IN, *OF_SUBRESOURCES.values()]
    paths = {f"/openapi/v3/{'apis' if each.group else 'api'}/{each.api_version}" for each in shown}
    found: Definitions = {}
    for path in sorted(paths):
        found |= msgspec.json.decode(client.request("GET", path))["components"]["schemas"]
    names = {
        f"{kind['group']}/{kind['version']}/{kind['kind']}".lstrip("/"): name
        for name, schema in found.items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    kinds = {f"{each.api_version}/{each.kind}": names[f"{each.api_version}/{each.kind}"] for each in shown}
    needed = _reachable(found, sorted(kinds.values()))
    return {
        "kinds": {kind: _short(name) for kind, name in sorted(kinds.items())},
        "definitions": {_short(name): _bare(found[name]) for name in sorted(needed)},
    }


def with_pointers(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas and, by type, the optional scalars that Go has pointers to: those keep a zero."""
    found = {name: _pointers(name, schema) for name, schema in schemas["definitions"].items()}
    return {**schemas, "pointers": {name: fields for name, fields in found.items() if fields}}


def _pointers(name: str, schema: dict[str, Any]) -> list[str]:
    group, version, kind = name.rsplit(".", 2)
    optional = schema.get("properties", {}).keys() - set(schema.get("required", ()))
    scalars = {each for each in optional if schema["properties"][each].get("type") in _SCALARS}
    types = _go_types(group, version)
    return sorted(scalars & types.get(kind, set()))


@cache
def _go_types(group: str, version: str) -> dict[str, set[str]]:
    """Return the JSON names of each struct's pointers, those of the structs in it included."""
    place = f"{_MODULES.get(group, 'api@*')}/{group}/{version}/types*.go"
    source = "".join(each.read_text() for each in (Path.home() / "go/pkg/mod/k8s.io").glob(place))
    types: dict[str, set[str]] = {}
    inlined: list[tuple[str, str]] = []
    for struct, body in _STRUCT.findall(source):
        fields = _FIELD.findall(body)
        types[struct] = {name for _, go_type, name, _ in fields if go_type.startswith("*")}
        inlined += [(struct, go_type or field) for field, go_type, _, option in fields if option == "inline"]
    for struct, inner in inlined:
        types[struct] |= types.get(inner, set())
    return types


def written(schemas: dict[str, Any]) -> bytes:
    """Return the file's content: a line for each definition."""
    lines = [
        b"%s:%s" % (msgspec.json.encode(name), msgspec.json.encode(each, order="sorted"))
        for name, each in schemas["definitions"].items()
    ]
    kinds = msgspec.json.encode(schemas["kinds"], order="sorted")
    pointers = msgspec.json.encode(schemas["pointers"], order="sorted")
    return b'{"kinds":%s,\n"pointers":%s,\n"definitions":{\n%s\n}}\n' % (kinds, pointers, b",\n".join(lines))


def _reachable(found: Definitions, names: list[str]) -> set[str]:
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            names += _references(found[name])
    return seen


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _references(each)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REFERENCE)
            else:
                yield from _references(value)


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its prose, and a reference beside what is said about the field."""
    bare = {name: value for name, value in schema.items() if name not in _LEFT_OUT}
    for reference in bare.pop("allOf", ()):
        bare |= reference
    if "$ref" in bare:
        bare["$ref"] = _short(bare["$ref"].removeprefix(_REFERENCE))
    if "properties" in bare:
        bare["properties"] = {name: _bare(each) for name, each in bare["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(bare.get(name), dict):
            bare[name] = _bare(bare[name])
    return bare


def _short(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def main() -> None:
    """Write the file."""
    from tests.support.api_servers import RealApiServer, real_api_server_assets

    with RealApiServer(real_api_server_assets()) as server:
        SCHEMAS.write_bytes(written(with_pointers(published(server.client()))))


if __name__ == "__main__":
    main()
