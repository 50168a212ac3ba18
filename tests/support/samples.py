"""Objects that the client's tests write."""

from distq.client import Client, Object
from distq.errors import NotFound
from tests.support.eventually import eventually

FOO_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Foo, plural: foos, singular: foo}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
"""A manifest of the namespaced kind Foo, which takes any fields."""


def custom_resource(group: str) -> Object:
    """Return the definition of the namespaced kind Widget."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def wait_until_served(client: Client, resource: str) -> None:
    """Wait until discovery knows the resource and its objects can be listed."""

    def is_served() -> bool:
        try:
            list(client.list(resource))
        except NotFound:
            return False
        return True

    eventually(is_served, f"{resource} is served")


def config_map(namespace: str, name: str, **data: str) -> Object:
    """Return a ConfigMap to be written."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def replica_set(namespace: str) -> Object:
    """Return a ReplicaSet, whose conditions have no observedGeneration."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    about = {"name": "web", "namespace": namespace}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": about, "spec": spec}
