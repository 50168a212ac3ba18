"""Discovery: which groups, versions and resources there are, and the server's version.

The aggregated form is not served: clients that ask for it take this one too.
"""

from typing import Any

from distq.testing.apiserver.resources import OF_SUBRESOURCES, SUBRESOURCE_VERBS, Catalogue, ServedResource

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


def core_versions() -> dict[str, Any]:
    """Return the answer of /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(catalogue: Catalogue) -> dict[str, Any]:
    """Return the answer of /apis."""
    names = sorted({each.group for each in catalogue if each.group})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(catalogue, name) for name in names]}


def group(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """Return the answer of /apis/NAME; raises KeyError where nothing is served under it."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(catalogue, name)


def _group(catalogue: Catalogue, name: str) -> dict[str, Any]:
    versions = list(dict.fromkeys(each.version for each in catalogue if each.group == name))
    if not versions:
        raise KeyError(name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resources(catalogue: Catalogue, group_name: str, version: str) -> dict[str, Any]:
    """Return the answer of /api/v1 or /apis/GROUP/VERSION; raises KeyError where nothing is served."""
    served = [each for each in catalogue if (each.group, each.version) == (group_name, version)]
    if not served:
        raise KeyError(version)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": [entry for each in served for entry in _entries(each)],
    }


def _entries(resource: ServedResource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
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


def _subresource(resource: ServedResource, name: str) -> dict[str, Any]:
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
