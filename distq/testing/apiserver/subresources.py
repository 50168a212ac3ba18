"""The subresources that have a kind of their own: the scale of an object, and the eviction of a Pod.

A controller writes into the status of a PodDisruptionBudget what it allows; here the tests do.
Source: kubernetes pkg/registry/apps/*/storage, pkg/registry/core/pod/storage/eviction.go,
apiextensions-apiserver pkg/registry/customresource.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from distq.client.conditions import get_condition
from distq.informer.selectors import matches
from distq.testing.apiserver import objects
from distq.testing.apiserver.causes import wrong
from distq.testing.apiserver.objects import is_true, timestamp, with_condition
from distq.testing.apiserver.registry import DeleteOptions, Registry
from distq.testing.apiserver.requests import Target
from distq.testing.apiserver.resources import BUDGETS, EVICTIONS, PODS, SCALES, ServedResource
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.status import StatusError, bad_request, conflict, disruption, forbidden, refuse
from distq.testing.apiserver.store import Content, Stored, value_at

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_UNPROTECTED = {"Succeeded", "Failed", "Pending"}
"""Phases in which a Pod may end without a disruption."""
_MOST_DISRUPTED = 2000
_ALLOWED = "DisruptionAllowed"
_TOO_MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def scale_of(resource: ServedResource, stored: Stored) -> Stored:
    """Return an object as its Scale."""
    return Stored(stored.key, _scale(resource, stored.content), stored.revision)


def scaling(
    resource: ServedResource, change: Callable[[Content], Content]
) -> Callable[[Content | None], Content]:
    """Return the change of an object that a change of its Scale means."""

    def scaled(existing: Content | None) -> Content:
        existing = existing or {}
        scale = change(_scale(resource, existing))
        if not resource.custom:
            _require(resource, existing["metadata"], scale)
        metadata = dict(existing["metadata"])
        version = scale["metadata"].get("resourceVersion", "")
        if version or not resource.custom:
            metadata["resourceVersion"] = version
        whole = existing | {"metadata": metadata}
        return _with(whole, resource.scale.replicas, scale["spec"].get("replicas", 0))

    return scaled


def _scale(resource: ServedResource, content: Content) -> Content:
    metadata, paths = content["metadata"], resource.scale
    selector: Any = value_at(content, paths.selector) if paths.selector else ""
    text = selector if resource.custom else text_of_label_selector(selector or {})
    replicas = value_at(content, paths.replicas)
    status = {"replicas": value_at(content, paths.status_replicas) or 0}
    return {
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status | ({"selector": text} if text else {}),
    }


def _require(resource: ServedResource, metadata: Content, scale: Content) -> None:
    """Refuse a Scale that no object of a built-in kind can have."""
    name, replicas = metadata["name"], scale["spec"].get("replicas", 0)
    if replicas < 0:
        refuse(SCALES, name, [wrong("spec.replicas", replicas, "must be greater than or equal to 0")])
    uid = scale["metadata"].get("uid", metadata["uid"])
    if uid != metadata["uid"]:
        cause = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        raise conflict(replace(resource, plural=f"{resource.plural}/scale"), name, cause)


def _with(content: Content, path: Sequence[str], value: Any) -> Content:
    first, *rest = path
    return content | {first: _with(content.get(first) or {}, rest, value) if rest else value}


def evict(registry: Registry, target: Target, eviction: Any, *, dry_run: bool) -> None:
    """Delete the Pod that a path names, as an Eviction says, unless a budget forbids it."""
    content = objects.accept(EVICTIONS, eviction, target.namespace)
    if content["metadata"].get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = content.get("deleteOptions") or {}
    options = DeleteOptions.parse(wanted)
    pod = registry.get(target)
    with registry.store.rehearsal(dry_run or bool(wanted.get("dryRun"))):
        if pod.content["status"]["phase"] not in _UNPROTECTED and "deletionTimestamp" not in pod.metadata:
            _ask_budgets(registry, pod)
        registry.check_preconditions(PODS, pod, options)
        shown = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        status = with_condition(pod.content["status"], "DisruptionTarget", "True", **shown)
        registry.rewrite(PODS, pod, "status", status=status)
        how = DeleteOptions(propagation=options.propagation, grace_period=options.grace_period)
        registry.delete(PODS, pod.key, how)


def _ask_budgets(registry: Registry, pod: Stored) -> None:
    budgets = registry.store.collection(BUDGETS.identity).scan(f"{pod.metadata['namespace']}/")
    labels = pod.metadata.get("labels")
    selecting = [each for each in budgets if matches(each.content["spec"].get("selector"), labels)]
    if len(selecting) > 1:
        raise StatusError(500, _TOO_MANY)
    for budget in selecting:
        if is_true(pod.content, "Ready") or not _lets_unhealthy_go(budget):
            _take_a_disruption(registry, budget, pod.name)


def _take_a_disruption(registry: Registry, budget: Stored, pod: str) -> None:
    _require_allowed(budget)
    status = budget.content["status"]
    left = status["disruptionsAllowed"] - 1
    disrupted = {**status.get("disruptedPods", {}), pod: timestamp()}
    status = status | {"disruptionsAllowed": left, "disruptedPods": disrupted}
    if not left:
        seen = {"observedGeneration": status["observedGeneration"], "message": ""}
        status = with_condition(status, _ALLOWED, "False", reason="InsufficientPods", **seen)
    registry.rewrite(BUDGETS, budget, "status", status=status)


def _lets_unhealthy_go(budget: Stored) -> bool:
    """Return whether a Pod that is not ready may go without taking a disruption."""
    if budget.content["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status: dict[str, int] = budget.content.get("status", {})
    return 0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0)


def _require_allowed(budget: Stored) -> None:
    status = budget.content.get("status", {})
    if status.get("observedGeneration", 0) < budget.metadata["generation"]:
        message = f"The disruption budget {budget.name} is still being processed by the server."
        raise disruption(message, retry_after=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(BUDGETS, budget.name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", {})) > _MOST_DISRUPTED:
        cause = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(BUDGETS, budget.name, cause)
    if allowed == 0:
        raise disruption(f"The disruption budget {budget.name} {_why_not(status)}")


def _why_not(status: Content) -> str:
    condition = get_condition({"status": status}, _ALLOWED) or {}
    shown = condition.get("message") if condition.get("status") == "False" else ""
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    refusal = "does not allow evicting pods currently"
    if shown and condition.get("reason") == "SyncFailed":
        return f"{refusal} because it failed sync: {shown}"
    if current <= desired:
        return f"needs {desired} healthy pods and has {current} currently"
    return f"{refusal} ({condition['reason']}): {shown}" if shown else refusal
