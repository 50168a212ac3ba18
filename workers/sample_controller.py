"""Kubernetes' sample-controller: each Foo owns a Deployment with its name and replicas.

    kubectl apply -f workers/sample-controller-crd.yaml
    distq informer workers.sample_controller
    distq worker workers.sample_controller --concurrency 8
    kubectl apply -f workers/sample-foo.yaml

Source: kubernetes/sample-controller. Different: where nothing needs a write there is none, and no event.
"""

from typing import Any

from distq import Client, Controller, For, Owns, Request, TerminalError, owned_by, set_controller_reference

FOO = "samplecontroller.k8s.io/v1alpha1/Foo"
DEPLOYMENT = "apps/v1/Deployment"

Object = dict[str, Any]

client = Client()


def reconcile(request: Request) -> None:
    """Bring the Deployment of one Foo to its spec, then the Foo's status to the Deployment's."""
    foo = client.get(FOO, request.key)
    if foo is None:
        return  # deleted, and its Deployment with it
    name = foo["spec"].get("deploymentName")
    if not name:
        raise TerminalError("spec.deploymentName is empty")
    deployment = client.get(DEPLOYMENT, f"{request.namespace}/{name}")
    changed = False
    if deployment is None:
        deployment, changed = client.create(new_deployment(foo)), True
    elif not owned_by(deployment, foo):
        message = f'Resource "{name}" already exists and is not managed by Foo'
        client.event(foo, "ErrResourceExists", message, type="Warning")
        raise RuntimeError(message)
    replicas = foo["spec"].get("replicas")
    if replicas is not None and replicas != deployment["spec"].get("replicas"):
        patch = {"spec": {"replicas": replicas}}
        deployment, changed = client.patch(DEPLOYMENT, f"{request.namespace}/{name}", patch), True
    available = deployment.get("status", {}).get("availableReplicas", 0)
    if client.patch_status(foo, {"availableReplicas": available}) is not foo or changed:
        client.event(foo, "Synced", "Foo synced successfully")


def new_deployment(foo: Object) -> Object:
    """Return the Deployment that a Foo owns: nginx, as in the original."""
    labels = {"app": "nginx", "controller": foo["metadata"]["name"]}
    deployment: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": foo["spec"]["deploymentName"], "namespace": foo["metadata"]["namespace"]},
        "spec": {
            "replicas": foo["spec"].get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    }
    set_controller_reference(foo, deployment)
    return deployment


controller = Controller("foos", reconcile, watches=[For(FOO), Owns(DEPLOYMENT)])
