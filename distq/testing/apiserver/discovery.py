"""Discovery: which groups, versions and resources there are, their schemas, and the server's version.

The aggregated form is not served: clients that ask for it take this one too. From OpenAPI v3 kubectl knows
what ``explain`` shows, how to merge, and that the server validates. Schemas of built-in kinds come without
prose, those of custom ones as their definitions have them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver.built_in import published
from distq.testing.apiserver.resources import OF_SUBRESOURCES, SUBRESOURCE_VERBS, Catalogue, ServedResource

Document = dict[str, Any]
_PREFIX = "#/components/schemas/"
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "emulated by distq",
    "platform": "linux/amd64",
}


def core_versions() -> Document:
    """Return the answer of /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(catalogue: Catalogue) -> Document:
    """Return the answer of /apis."""
    names = sorted({each.group for each in catalogue if each.group})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(catalogue, name) for name in names]}


def group(catalogue: Catalogue, name: str) -> Document:
    """Return the answer of /apis/NAME; raises KeyError where nothing is served under it."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(catalogue, name)


def _group(catalogue: Catalogue, name: str) -> Document:
    versions = list(dict.fromkeys(each.version for each in catalogue if each.group == name))
    if not versions:
        raise KeyError(name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resources(catalogue: Catalogue, group_name: str, version: str) -> Document:
    """Return the answer of /api/v1 or /apis/GROUP/VERSION; raises KeyError where nothing is served."""
    served = _served(catalogue, group_name, version)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": [entry for each in served for entry in _entries(each)],
    }


def _served(catalogue: Catalogue, group_name: str, version: str) -> list[ServedResource]:
    served = [each for each in catalogue if (each.group, each.version) == (group_name, version)]
    if not served:
        raise KeyError(version)
    return served


def _entries(resource: ServedResource) -> list[Document]:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_subresource(resource, name) for name in resource.subresources)]


def _subresource(resource: ServedResource, name: str) -> Document:
    shown = OF_SUBRESOURCES.get(name)
    place = {} if shown is None else {"group": shown.group, "version": shown.version}
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        **place,
        "kind": (shown or resource).kind,
        "verbs": list(SUBRESOURCE_VERBS[name]),
    }


def openapi_paths(catalogue: Catalogue) -> Document:
    """Return the answer of /openapi/v3."""
    versions = {f"apis/{each.api_version}" if each.group else "api/v1" for each in catalogue}
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in sorted(versions)}}


def openapi(catalogue: Catalogue, group_name: str, version: str) -> Document:
    """Return the answer of /openapi/v3/apis/GROUP/VERSION; raises KeyError where nothing is served."""
    served = _served(catalogue, group_name, version)
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
