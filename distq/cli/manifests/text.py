"""Manifests as text: sorted as they are best applied, one document an object."""

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from distq.cli.manifests.installation import Manifest

_KINDS = (
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "Service",
    "Deployment",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "ScaledObject",
    "ServiceMonitor",
)
"""Objects that others refer to come first (the order of kustomize and Helm)."""


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice, and lists indented."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the manifests as they are best applied; those of one kind stay in their order."""
    return sorted(manifests, key=lambda manifest: _KINDS.index(manifest.content["kind"]))


def as_yaml(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield each manifest as a YAML document, below its comment."""
    for manifest in manifests:
        comment = "".join(f"# {line}\n" for line in manifest.comment.splitlines())
        text = yaml.dump(manifest.content, Dumper=_Dumper, sort_keys=False, width=110)
        yield f"---\n{comment}{text}"
