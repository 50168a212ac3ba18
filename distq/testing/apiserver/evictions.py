"""The eviction subresource: a Pod is deleted, where the PodDisruptionBudget that selects it allows that.

A controller writes into the status of a budget what it allows; here the tests do.
Source: kubernetes pkg/registry/core/pod/storage/eviction.go.
"""

from typing import Any

from distq.client.conditions import get_condition
from distq.informer.selectors import matches
from distq.testing.apiserver import objects
from distq.testing.apiserver.objects import is_true, timestamp, with_condition
from distq.testing.apiserver.registry import DeleteOptions, Registry
from distq.testing.apiserver.requests import Target
from distq.testing.apiserver.resources import BUDGETS, EVICTIONS, PODS
from distq.testing.apiserver.status import StatusError, bad_request, disruption, forbidden, not_found
from distq.testing.apiserver.store import Content, Stored
from distq.testing.apiserver.writes import how_to_delete

_UNPROTECTED = {"Succeeded", "Failed", "Pending"}
"""Phases in which a Pod may end without a disruption."""
_MOST_DISRUPTED = 2000
_ALLOWED = "DisruptionAllowed"
_TOO_MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def evict(registry: Registry, target: Target, eviction: Any, *, dry_run: bool) -> None:
    """Delete the Pod that a path names, as an Eviction says, unless a budget forbids it."""
    content = objects.accept(EVICTIONS, eviction, target.namespace)
    if content["metadata"].get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = content.get("deleteOptions") or {}
    options = how_to_delete(wanted)
    pod = registry.find(target)
    if pod is None:
        raise not_found(PODS, target.name)
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
