"""The controllers of ``benchmarks.end_to_end``, in processes of their own: distq's informer and worker, kopf.

``python -m benchmarks.reconcilers PART LOAD KUBECONFIG NAMESPACE REDIS`` prints "ready" before it imports
anything that it is measured by, begins at once, and works until it is ended. controller-runtime's are in
``tests.go.controllerruntime``.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from benchmarks.objects import ITEM, LABEL, SET, pod_of

if TYPE_CHECKING:
    from distq import Client, Controller, Request

Object = dict[str, Any]

CONCURRENCY = 8


def items(client: "Client", namespace: str) -> "Controller":
    """Return a controller that sets the status of each Item to the generation that it has seen."""
    from distq import Controller, For
    from distq.controller.predicate import generation_changed

    def reconcile(request: "Request") -> None:
        item = controller.lister(ITEM).get(request.key)
        if item is None:
            return
        generation = item["metadata"]["generation"]
        if item.get("status", {}).get("observedGeneration") != generation:
            client.patch(ITEM, request.key, {"status": {"observedGeneration": generation}}, status=True)

    watch = For(ITEM, namespaces=[namespace], cached=True, predicates=generation_changed)
    controller = Controller("items", reconcile, watches=[watch], concurrency=CONCURRENCY)
    return controller


def sets(client: "Client", namespace: str) -> "Controller":
    """Return a controller that lets each Set have Pods: adopts those with its label, creates the others."""
    from distq import Controller, For, Watches
    from distq.controller.predicate import generation_changed
    from distq.errors import Conflict

    def reconcile(request: "Request") -> None:
        found = controller.lister(SET).get(request.key)
        if found is None:
            return
        pods = controller.lister("v1/Pod").by_index(LABEL, request.key)
        owner = owner_of(found)
        owned = 0
        for pod in pods:
            if pod["metadata"].get("ownerReferences"):
                owned += 1
            else:
                key = f"{request.namespace}/{pod['metadata']['name']}"
                client.patch("v1/Pod", key, {"metadata": {"ownerReferences": [owner]}})
        there = {pod["metadata"]["name"] for pod in pods}
        for number in range(found["spec"]["replicas"]):
            pod = pod_of(request.name, number, owner)
            if pod["metadata"]["name"] not in there:
                pod["metadata"]["namespace"] = request.namespace
                with suppress(Conflict):  # where the cache does not have it yet
                    client.create(pod)
        if found.get("status", {}).get("replicas", 0) != owned:
            client.patch(SET, request.key, {"status": {"replicas": owned}}, status=True)

    controller = Controller(
        "sets",
        reconcile,
        watches=[
            For(SET, namespaces=[namespace], cached=True, predicates=generation_changed),
            Watches("v1/Pod", set_of, namespaces=[namespace], cached=True, indexers={LABEL: set_of}),
        ],
        concurrency=CONCURRENCY,
    )
    return controller


def owner_of(found: Object) -> Object:
    """Return the reference to a Set that makes it the controller of a Pod."""
    metadata = found["metadata"]
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def set_of(pod: Object) -> list[str]:
    """Return the key of the Set that a Pod's label names."""
    metadata = pod["metadata"]
    name = metadata.get("labels", {}).get(LABEL)
    return [f"{metadata['namespace']}/{name}"] if name else []


LOADS: Mapping[str, Callable[["Client", str], "Controller"]] = {"items": items, "sets": sets}


def run_distq(part: str, load: str, kubeconfig: str, namespace: str, redis: str) -> None:
    """Run distq's informer or a worker of it."""
    from distq import Client, Manager
    from distq.config import Settings

    client = Client(kubeconfig)
    settings = Settings(lease_namespace=namespace, lease_name="benchmark")
    manager = Manager([LOADS[load](client, namespace)], redis=redis, client=client, settings=settings)
    manager.run(informer=part == "informer", workers=part == "worker")


def run_kopf(namespace: str) -> None:
    """Run kopf's operator of Items; the kubeconfig is in the environment.

    It has handlers of events alone, without annotations of its own, so that a change is one patch.
    """
    import logging

    import kopf

    logging.disable(logging.WARNING)
    group, version, _ = ITEM.split("/")

    async def configure(settings: Any, **_: Any) -> None:
        settings.posting.enabled = False

    async def observe(meta: Any, status: Any, patch: Any, **_: Any) -> None:
        if status.get("observedGeneration") != meta["generation"]:
            patch.status["observedGeneration"] = meta["generation"]

    kopf.on.startup()(configure)
    kopf.on.event(group, version, "items")(observe)
    kopf.run(standalone=True, namespaces=[namespace])


def main() -> None:
    """Run one part."""
    part, load, kubeconfig, namespace, redis = sys.argv[1:]
    print("ready", flush=True)
    if part == "kopf":
        run_kopf(namespace)
    else:
        run_distq(part, load, kubeconfig, namespace, redis)


if __name__ == "__main__":
    main()
