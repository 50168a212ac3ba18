"""What CustomResourceDefinitions have to hold, their schemas apart.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation.
"""

from collections.abc import Iterator, Mapping

from distq.testing.apiserver.causes import Cause, Fields, Rule, required, unsupported, wrong


def _spec(spec: Fields, before: str) -> Iterator[Cause]:
    versions, path = spec.get("versions", []), f"{before}versions"
    if len({each.get("name") for each in versions}) < len(versions):
        yield wrong(path, versions, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield wrong(path, versions, "must have exactly one version marked as storage version")
    if scope := spec.get("scope"):
        yield from unsupported(f"{before}scope", scope, ["Cluster", "Namespaced"])


def _version(version: Fields, before: str) -> Iterator[Cause]:
    if "openAPIV3Schema" not in version.get("schema", {}):
        yield required(f"{before}schema.openAPIV3Schema")


RULES: Mapping[str, Rule] = {
    "apiextensions.v1.CustomResourceDefinitionSpec": _spec,
    "apiextensions.v1.CustomResourceDefinitionVersion": _version,
}
