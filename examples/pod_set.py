"""PodSet: Kubernetes' ReplicaSet under a name of its own, so that a cluster can have both.

    kubectl apply -f examples/pod-set-crd.yaml
    distq informer examples.pod_set
    distq worker examples.pod_set --concurrency 8
    kubectl apply -f examples/pod-set.yaml

Source: kubernetes/pkg/controller/replicaset. Different: there are no expectations, since a cached read shows
each write of the fleet whose call has returned. If a process dies before that, the next worker asks for pods
of the same names, which follow from the PodSet's uid: the API server creates none of them twice. A PodSet
whose selector cannot work is dead until it changes.
"""

import contextlib
import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from distq import (
    Client,
    Controller,
    For,
    Request,
    Result,
    TerminalError,
    Watches,
    controller_of,
    key_of,
    matches,
    remove_condition,
    set_condition,
    set_controller_reference,
)
from distq.controller.predicate import generation_changed
from distq.errors import ApiError, ConfigError, Conflict, NotFound
from examples.pods import is_active, is_deleted, is_ready, ranking, ready_since

POD_SET = "example.com/v1/PodSet"
POD = "v1/Pod"

BURST = 500
"""So many pods are created or deleted by one reconcile; their events make the item pending again."""

Object = dict[str, Any]
Thing = TypeVar("Thing")
Outcome = TypeVar("Outcome")

client = Client()
threads = ThreadPoolExecutor(16, thread_name_prefix="pods")
clock = time.time
"""Returns seconds since the epoch; tests set it."""


class InvalidSelector(TerminalError):
    """The selector does not select the template's pods, of which there would be no end, or selects all."""


class FailedCreate(Exception):
    """The API server refused a pod; this name is the event's reason, and that of the condition."""


class FailedDelete(Exception):
    """The API server did not delete a pod."""


def reconcile(request: Request) -> Result | None:
    """Adopt and release pods, create or delete some where the number is wrong, and write the status."""
    pod_set = controller.lister(POD_SET).get(request.key)
    if pod_set is None:
        return None  # its pods go with it
    require_selector(pod_set)
    pods = claim(pod_set)
    try:
        pods = scale(request, pod_set, pods)
    except (FailedCreate, FailedDelete) as error:
        report(pod_set, pods, error)
        raise
    if request.cancelled.is_set():
        return None  # another worker has the item by now, and says what it finds
    report(pod_set, pods)
    return look_again(pod_set, pods)


def require_selector(pod_set: Object) -> None:
    """Raise InvalidSelector where pods of the template would not be the PodSet's."""
    spec = pod_set["spec"]
    try:
        selects = matches(spec["selector"], labels_of(spec["template"]))
    except ConfigError as error:
        raise InvalidSelector(str(error)) from None
    if not selects or not any(spec["selector"].values()):
        raise InvalidSelector("spec.selector must select the labels of spec.template, and not all there are")


def claim(pod_set: Object) -> list[Object]:
    """Return the PodSet's living pods, after it has adopted those that it selects, and released others."""
    pods, about = controller.lister(POD), pod_set["metadata"]
    own = list(filter(is_active, pods.by_index("controller", about["uid"])))
    if is_deleted(pod_set):
        return own
    orphans = filter(is_active, pods.by_index("controller", about["namespace"]))
    lost = [pod for pod in orphans if selects(pod_set, pod)]
    if lost:
        require_alive(pod_set)
    for pod in own:
        if not selects(pod_set, pod):
            release(pod_set, pod)
    adopted = [adopt(pod_set, pod) for pod in lost]
    return [pod for pod in own + adopted if pod and is_active(pod) and selects(pod_set, pod)]


def require_alive(pod_set: Object) -> None:
    """Raise Conflict where the API server no longer has this PodSet: its pods would be deleted with it."""
    newest = client.get_or_raise(POD_SET, key_of(pod_set))
    if newest["metadata"]["uid"] != pod_set["metadata"]["uid"] or is_deleted(newest):
        raise Conflict(f"PodSet {key_of(pod_set)} was deleted")


def adopt(pod_set: Object, pod: Object) -> Object | None:
    """Make the PodSet the controller of a pod that has none; return None if the pod is gone."""
    set_controller_reference(pod_set, pod)
    about = {name: pod["metadata"][name] for name in ("uid", "ownerReferences")}
    try:
        return client.patch(POD, key_of(pod), {"metadata": about}, strategic=True)
    except NotFound:
        return None


def release(pod_set: Object, pod: Object) -> None:
    """Let a pod go whose labels are no longer the PodSet's."""
    own = {"$patch": "delete", "uid": pod_set["metadata"]["uid"]}
    about = {"uid": pod["metadata"]["uid"], "ownerReferences": [own]}
    with contextlib.suppress(NotFound):
        client.patch(POD, key_of(pod), {"metadata": about}, strategic=True)


def scale(request: Request, pod_set: Object, pods: list[Object]) -> list[Object]:
    """Create pods that are missing, or delete those that matter least; return those that there are then."""
    missing = 0 if is_deleted(pod_set) else pod_set["spec"]["replicas"] - len(pods)
    if missing > 0:
        names = list(itertools.islice(free_names(pod_set), min(missing, BURST)))
        with refusals_as(FailedCreate):
            created = in_batches(request, lambda name: create(pod_set, name), names)
        return pods + [pod for pod in created if pod]
    ranked = sorted(pods, key=ranking(pods))
    doomed = ranked[: min(-missing, BURST)]
    with refusals_as(FailedDelete):
        in_batches(request, lambda pod: delete(pod_set, pod), doomed)
    return ranked[len(doomed) :]


@contextlib.contextmanager
def refusals_as(kind: type[Exception]) -> Iterator[None]:
    """Raise what the API server answers as this kind of error.

    Not a Conflict: the cache does not show a pod, or its end, yet, as after a crash. The retry sees it.
    """
    try:
        yield
    except Conflict:
        raise
    except ApiError as error:
        raise kind(str(error)) from error


def in_batches(request: Request, act: Callable[[Thing], Outcome], things: Sequence[Thing]) -> list[Outcome]:
    """Act on one, then two, then four and so on at a time; an error, or the loss of the claim, ends it.

    So what the API server refuses for all, such as pods beyond a quota, is asked once and not 500 times.
    """
    outcomes: list[Outcome] = []
    size = 1
    while len(outcomes) < len(things) and not request.cancelled.is_set():
        batch = [threads.submit(act, thing) for thing in things[len(outcomes) :][:size]]
        wait(batch)
        outcomes += [each.result() for each in batch]
        size *= 2
    return outcomes


def free_names(pod_set: Object) -> Iterator[str]:
    """Yield names for new pods: the same at each call, until there are pods of these names."""
    pods, about = controller.lister(POD), pod_set["metadata"]
    taken = {pod["metadata"]["name"] for pod in pods.by_index("controller", about["uid"])}
    for number in itertools.count():
        digest = hashlib.sha256(f"{about['uid']} {number}".encode()).hexdigest()
        name = f"{about['name']}-{digest[:8]}"
        if name not in taken and pods.get(f"{about['namespace']}/{name}") is None:
            yield name


def create(pod_set: Object, name: str) -> Object | None:
    """Create a pod by the template; return None if its namespace is about to end, and so is the PodSet."""
    template = pod_set["spec"]["template"]
    metadata = {**template.get("metadata", {}), "name": name, "namespace": pod_set["metadata"]["namespace"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    set_controller_reference(pod_set, pod)
    try:
        created = client.create(pod)
    except ApiError as error:
        if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            return None
        raise
    client.event(pod_set, "SuccessfulCreate", f"Created pod: {name}")
    return created


def delete(pod_set: Object, pod: Object) -> None:
    """Delete this very pod."""
    client.delete(POD, key_of(pod), uid=pod["metadata"]["uid"])
    client.event(pod_set, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def report(pod_set: Object, pods: Sequence[Object], failure: Exception | None = None) -> None:
    """Say in the status how many pods there are, and what refused more of them or fewer."""
    if failure:
        set_condition(pod_set, "ReplicaFailure", True, reason=type(failure).__name__, message=str(failure))
    else:
        remove_condition(pod_set, "ReplicaFailure")
    labels = labels_of(pod_set["spec"]["template"]).items()
    counts = {
        "replicas": len(pods),
        "fullyLabeledReplicas": sum(labels_of(pod).items() >= labels for pod in pods),
        "readyReplicas": sum(map(is_ready, pods)),
        "availableReplicas": sum(available_in(pod_set, pod) == 0 for pod in pods),
        "observedGeneration": pod_set["metadata"]["generation"],
    }
    client.patch_status(pod_set, {**pod_set.get("status", {}), **counts})


def look_again(pod_set: Object, pods: Sequence[Object]) -> Result | None:
    """Return when the next pod that is ready becomes available: no event says so."""
    waits = [wait for pod in pods if is_ready(pod) and (wait := available_in(pod_set, pod))]
    return Result(requeue_after=min(waits)) if waits else None


def available_in(pod_set: Object, pod: Object) -> float:
    """Return in how many seconds a pod has been ready for long enough; infinity while it is not ready."""
    if not is_ready(pod):
        return math.inf
    wanted: float = pod_set["spec"]["minReadySeconds"]
    return max(0.0, ready_since(pod) + wanted - clock())


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels of an object or a template."""
    return obj.get("metadata", {}).get("labels") or {}


def selects(pod_set: Object, pod: Object) -> bool:
    """Return whether a PodSet selects a pod; one whose selector cannot work selects none."""
    try:
        return matches(pod_set["spec"]["selector"], labels_of(pod))
    except ConfigError:
        return False


def by_controller(pod: Object) -> list[str]:
    """Return the uid of a pod's controller, and the namespace of a pod that has none."""
    owner = controller_of(pod)
    return [owner["uid"] if owner else pod["metadata"]["namespace"]]


def concerned(pod: Object) -> list[str]:
    """Return the PodSet that controls a pod, or those that may adopt it."""
    namespace, owner = pod["metadata"]["namespace"], controller_of(pod)
    if owner is None:
        pod_sets = controller.lister(POD_SET).list(namespace)
        return [key_of(pod_set) for pod_set in pod_sets if selects(pod_set, pod)]
    return [f"{namespace}/{owner['name']}"] if owner["kind"] == "PodSet" else []


controller = Controller(
    "pod-sets",
    reconcile,
    watches=[
        For(POD_SET, predicates=generation_changed, cached=True),
        Watches(POD, concerned, cached=True, indexers={"controller": by_controller}),
    ],
    failure_events=True,
)
