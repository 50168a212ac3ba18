"""Discovery: which groups, versions and resources there are, their schemas, and the server's version.

The aggregated form is not served: clients that ask for it take this one too. From OpenAPI v3 kubectl knows
what ``explain`` shows, and how to merge. Schemas of built-in kinds come without prose, those of custom ones
as their definitions have them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distq.testing.apiserver.resources import (
    OF_SUBRESOURCES,
    SUBRESOURCE_VERBS,
    Catalogue,
    ServedResource,
    built_in,
    published,
)

Document = dict[str, Any]
_KINDS = "x-kubernetes-group-version-kind"
_VERSION = re.compile(r"v(?P<major>[1-9][0-9]*)(?:(?P<stage>alpha|beta)(?P<minor>[1-9][0-9]*))?")
# by which kubectl knows that the server validates
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def discover(catalogue: Catalogue, path: str) -> Document:
    """Return the answer of a path; raises KeyError where nothing is served under it."""
    match path.strip("/").split("/"):
        case ["version"]:
            return dict(built_in()["version"])
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            names = sorted({each.group for each in catalogue if each.group})
            listed = [_group(catalogue, name) for name in names]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group]:
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(catalogue, group)
        case ["api", version]:
            return _resources(_served(catalogue, "", version))
        case ["apis", group, version]:
            return _resources(_served(catalogue, group, version))
        case ["openapi", "v3"]:
            paths = sorted({f"apis/{each.api_version}" if each.group else "api/v1" for each in catalogue})
            return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}
        case ["openapi", "v3", "api", version]:
            return _openapi(_served(catalogue, "", version))
        case ["openapi", "v3", "apis", group, version]:
            return _openapi(_served(catalogue, group, version))
    raise KeyError(path)


def _group(catalogue: Catalogue, name: str) -> Document:
    versions = list(dict.fromkeys(each.version for each in catalogue if each.group == name))
    if not versions:
        raise KeyError(name)
    versions.sort(key=_priority)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _priority(version: str) -> tuple[int, int, int, str]:
    """Return the place of a version in its group: v2, v1, v1beta1, v1alpha1, other names.

    Source: apimachinery CompareKubeAwareVersionStrings.
    """
    if (known := _VERSION.fullmatch(version)) is None:
        return 3, 0, 0, version
    major, stage, minor = known["major"], known["stage"], known["minor"]
    return {None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), ""


def _resources(served: Sequence[ServedResource]) -> Document:
    entries = [entry for each in served for entry in _entries(each)]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].api_version}
    return head | {"resources": entries}


def _served(catalogue: Catalogue, group_name: str, version: str) -> list[ServedResource]:
    served = [each for each in catalogue if (each.group, each.version) == (group_name, version)]
    if not served:
        raise KeyError(version)
    return served


def _entries(resource: ServedResource) -> Iterator[Document]:
    of_all = {"namespaced": resource.namespaced, "kind": resource.kind}
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    yield {
        **of_all,
        "name": resource.plural,
        "singularName": resource.singular,
        "verbs": list(resource.verbs),
        **{field: listed for field, listed in names.items() if listed},
    }
    for name in resource.subresources:
        entry = {"name": f"{resource.plural}/{name}", "singularName": "", "verbs": SUBRESOURCE_VERBS[name]}
        yield of_all | entry | (_kind(OF_SUBRESOURCES[name]) if name in OF_SUBRESOURCES else {})


def _openapi(served: Sequence[ServedResource]) -> Document:
    schemas: Document = {}
    for each in served:
        schemas |= _custom(each) if each.custom else _built_in(each)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": built_in()["version"]["gitVersion"]},
        "paths": dict(map(_path, served)),
        "components": {"schemas": schemas},
    }


def _path(resource: ServedResource) -> tuple[str, Document]:
    patch = {
        "parameters": [_FIELD_VALIDATION],
        "responses": {"200": {"description": "OK"}},
        _KINDS: _kind(resource),
    }
    place = f"{'apis' if resource.group else 'api'}/{resource.api_version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{place}{scope}/{resource.plural}/{{name}}", {"get": patch, "patch": patch}


def _kind(resource: ServedResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _custom(resource: ServedResource) -> Document:
    text = {"type": "string"}
    known = {"apiVersion": text, "kind": text, "metadata": {"allOf": [_reference("meta.v1.ObjectMeta")]}}
    properties = known | (resource.schema.get("properties") or {})
    schema = {"type": "object", **resource.schema, "properties": properties}
    name = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
    return {name: schema | {_KINDS: [_kind(resource)]}} | dict(_reached("meta.v1.ObjectMeta"))


def _built_in(resource: ServedResource) -> Document:
    name = published()["kinds"][f"{resource.api_version}/{resource.kind}"]
    schemas = dict(_reached(name))
    return schemas | {name: schemas[name] | {_KINDS: [_kind(resource)]}}


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
    return {"$ref": f"#/components/schemas/{name}"}
