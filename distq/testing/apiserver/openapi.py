"""OpenAPI v3: what ``kubectl explain`` shows, and merges by.

By it kubectl knows, too, that the server validates. Schemas of
built-in kinds come without prose, those of custom ones as their definitions
have them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver.built_in_schemas import published
from distq.testing.apiserver.discovery import VERSION
from distq.testing.apiserver.resources import Catalogue, ServedResource

Document = dict[str, Any]
_PREFIX = "#/components/schemas/"
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def paths(catalogue: Catalogue) -> Document:
    """Return the answer of /openapi/v3."""
    versions = {f"apis/{each.api_version}" if each.group else "api/v1" for each in catalogue}
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in sorted(versions)}}


def document(catalogue: Catalogue, group_name: str, version: str) -> Document:
    """Return the answer of /openapi/v3/apis/GROUP/VERSION; raises KeyError where nothing is served."""
    served = [each for each in catalogue if (each.group, each.version) == (group_name, version)]
    if not served:
        raise KeyError(version)
    schemas: Document = {}
    for each in served:
        schemas |= _custom(each) if each.custom else _built_in(each)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": dict(map(_path, served)),
        "components": {"schemas": schemas},
    }


def _path(resource: ServedResource) -> tuple[str, Document]:
    patch = {
        "parameters": [_FIELD_VALIDATION],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": _kind(resource),
    }
    place = f"{'apis' if resource.group else 'api'}/{resource.api_version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{place}{scope}/{resource.plural}/{{name}}", {"get": patch, "patch": patch}


def _kind(resource: ServedResource) -> Mapping[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _custom(resource: ServedResource) -> Document:
    text = {"type": "string"}
    known = {"apiVersion": text, "kind": text, "metadata": {"allOf": [_reference("meta.v1.ObjectMeta")]}}
    properties = known | (resource.schema.get("properties") or {})
    schema = {"type": "object", **resource.schema, "properties": properties}
    name = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
    return {name: schema | _of(resource)} | dict(_reached("meta.v1.ObjectMeta"))


def _built_in(resource: ServedResource) -> Document:
    name = published()["kinds"].get(f"{resource.api_version}/{resource.kind}")
    if name is None:
        return {}
    schemas = dict(_reached(name))
    return schemas | {name: schemas[name] | _of(resource)}


def _of(resource: ServedResource) -> Document:
    return {"x-kubernetes-group-version-kind": [_kind(resource)]}


def _reached(start: str) -> Iterator[tuple[str, Document]]:
    seen, waiting = {start}, [start]
    while waiting:
        name = waiting.pop()
        found: set[str] = set()
        yield name, _referring(published()["definitions"][name], found)
        waiting += found - seen
        seen |= found


def _referring(schema: Any, found: set[str]) -> Any:
    """Return a schema with references as OpenAPI writes them, and note to what."""
    if isinstance(schema, list):
        return [_referring(each, found) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _referring(each, found) for name, each in schema.items() if name != "$ref"}
    if "$ref" not in schema:
        return inner
    found.add(schema["$ref"])
    return inner | {"allOf": [_reference(schema["$ref"])]}


def _reference(name: str) -> Mapping[str, str]:
    return {"$ref": f"{_PREFIX}{name}"}
