"""The kinds of ``benchmarks.end_to_end``: Items, of which the status is set, and Sets, which have Pods.

It imports nothing, so that a process that is measured from its start has nothing of it.
"""

from typing import Any

GROUP = "benchmark.distq.dev"
ITEM = f"{GROUP}/v1/Item"
SET = f"{GROUP}/v1/Set"
LABEL = "set"
"""The label of a Pod that names its Set, and the index of it."""

REPLICAS = 3

Object = dict[str, Any]


def definition(kind: str) -> Object:
    """Return the CustomResourceDefinition of a kind."""
    name = kind.lower()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{name}s", "singular": name},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def item(name: str) -> Object:
    """Return a new Item."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Item",
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
        "spec": {"text": f"what somebody wants of {name}"},
    }


def set_of_pods(name: str) -> Object:
    """Return a new Set."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Set",
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS},
    }


def pod_of(name: str, number: int, owner: Object | None) -> Object:
    """Return a new Pod of a Set; without an owner it is there to be adopted."""
    metadata: Object = {"name": f"{name}-{number}", "labels": {LABEL: name}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    containers = [{"name": "web", "image": "example.com/web:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "nobody", "containers": containers},
    }
