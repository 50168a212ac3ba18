"""The part of an object that the informer reads: its metadata, less the part for the API server alone.

Plain dicts of the API's shape, so that one function takes a partial object and a whole one.
"""

from typing import TypedDict


class OwnerReference(TypedDict, total=False):
    """One entry of ``metadata.ownerReferences``."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None


class Metadata(TypedDict, total=False):
    """An object's metadata without managedFields, the bulk of it."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    generation: int | None
    creationTimestamp: str | None
    deletionTimestamp: str | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    ownerReferences: list[OwnerReference] | None
    finalizers: list[str] | None


def key_of(metadata: Metadata) -> str:
    """Return ``namespace/name``, or the name of a cluster-scoped object (client-go MetaNamespaceKeyFunc)."""
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else metadata["name"]


def is_older(version: str, than: str) -> bool:
    """Return whether one version of a resource was before another; False where that cannot be known.

    Digits compare by length, then text: they may exceed any integer type (KEP-5504).
    """
    if not (version.isdecimal() and than.isdecimal()):
        return False
    return (len(version), version) < (len(than), than)
