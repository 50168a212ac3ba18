"""Kubernetes' sample-controller: each Foo owns a Deployment with its name and replicas.

    kubectl apply -f workers/sample-controller-crd.yaml
    distq informer workers.sample_controller
    distq worker workers.sample_controller --concurrency 8
    kubectl apply -f workers/sample-foo.yaml

Source: kubernetes/sample-controller. Different: a condition says in the status what the events say; where
nothing needs a write there is none, and no event; the item of a Foo that names no Deployment is dead until
the Foo changes.
"""

from typing import Any

from distq import (
    Client,
    Controller,
    For,
    Owns,
    Request,
    TerminalError,
    owned_by,
    set_condition,
    set_controller_reference,
)

FOO = "samplecontroller.k8s.io/v1alpha1/Foo"
DEPLOYMENT = "apps/v1/Deployment"

Object = dict[str, Any]

client = Client()


def reconcile(request: Request) -> None:
    """Bring the Deployment of one Foo to its spec, then the Foo's status to the Deployment's."""
    foo = controller.lister(FOO).get(request.key)
    if foo is None or foo["metadata"].get("deletionTimestamp"):
        return  # its Deployment goes with it
    name = foo["spec"].get("deploymentName")
    if not name:
        message = "spec.deploymentName is empty"
        report(foo, False, "NoDeploymentName", message)
        raise TerminalError(message)
    key = f"{request.namespace}/{name}"
    deployment = controller.lister(DEPLOYMENT).get(key)
    changed = False
    if deployment is None:
        deployment, changed = client.create(new_deployment(foo)), True
    elif not owned_by(deployment, foo):
        message = f'Resource "{name}" already exists and is not managed by Foo'
        client.event(foo, "ErrResourceExists", message, type="Warning")
        report(foo, False, "ErrResourceExists", message)
        raise RuntimeError(message)
    replicas = foo["spec"].get("replicas")
    if replicas is not None and replicas != deployment["spec"].get("replicas"):
        deployment, changed = client.patch(DEPLOYMENT, key, {"spec": {"replicas": replicas}}), True
    available = deployment.get("status", {}).get("availableReplicas", 0)
    message = "Foo synced successfully"
    if report(foo, True, "Synced", message, availableReplicas=available) or changed:
        client.event(foo, "Synced", message)


def report(foo: Object, synced: bool, reason: str, message: str, **status: Any) -> bool:
    """Say in the Foo's status how it went; return whether the status had not said so before."""
    set_condition(foo, "Synced", synced, reason=reason, message=message)
    return client.patch_status(foo, {**foo["status"], **status}) is not foo


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


controller = Controller("foos", reconcile, watches=[For(FOO, cached=True), Owns(DEPLOYMENT, cached=True)])
