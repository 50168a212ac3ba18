"""What the server adds to new objects of some kinds beside defaults: addresses, selectors, finalizers.

Source: kubernetes pkg/registry/*/*/strategy.go, plugin/pkg/admission.
"""

import ipaddress
import random
from collections.abc import Callable, Mapping
from typing import Any

from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content

_ADDRESSES = ipaddress.IPv4Network("10.96.0.0/12")
_TOLERATED = ("not-ready", "unreachable")
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def admit(resource: ServedResource, new: Content, old: Content | None) -> None:
    """Complete an object that is written; ``old`` is None where it is new."""
    complete = _OF_KIND.get(resource.identity)
    if complete:
        complete(new, old)


def initial_status(resource: ServedResource, content: Content) -> dict[str, Any]:
    """Return what the status of a new object says."""
    if resource.kind == "Pod":
        gated = {"conditions": [_GATED]} if content["spec"].get("schedulingGates") else {}
        return {"phase": "Pending", "qosClass": _quality(content["spec"]), **gated}
    return {"phase": resource.rules["phase"]} if "phase" in resource.rules else {}


def _quality(spec: dict[str, Any]) -> str:
    """Return the class of a Pod: do all its containers request what they are limited to?"""
    resources = [each["resources"] for each in [*spec.get("containers", ()), *spec.get("initContainers", ())]]
    wanted = [
        {name: each.get(field, {}).get(name) for name in ("cpu", "memory")}
        for field in ("requests", "limits")
        for each in resources
    ]
    if not any(amount for each in wanted for amount in each.values()):
        return "BestEffort"
    requests, limits = wanted[: len(resources)], wanted[len(resources) :]
    return "Guaranteed" if requests == limits and all(all(each.values()) for each in limits) else "Burstable"


def _pod(new: Content, _: Content | None) -> None:
    spec = new["spec"]
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for state in _TOLERATED:
        key = f"node.kubernetes.io/{state}"
        if not any(each.get("key", key) == key for each in tolerations):
            toleration = {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}
            tolerations.append(toleration)


def _service(new: Content, old: Content | None) -> None:
    spec, before = new["spec"], (old or {}).get("spec", {})
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = before.get("clusterIP") or _address()
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["clusterIP"] == "None" and not spec.get("selector"):  # whatever its endpoints have
        spec.setdefault("ipFamilies", before.get("ipFamilies", ["IPv4", "IPv6"]))
        spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy", "RequireDualStack"))
    spec.setdefault("ipFamilies", before.get("ipFamilies", ["IPv4"]))
    spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy", "SingleStack"))
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        for port in spec.get("ports", ()):
            port.setdefault("nodePort", random.randrange(30000, 32768))


def _address() -> str:
    return str(_ADDRESSES[random.randrange(1, _ADDRESSES.num_addresses - 1)])


def _job(new: Content, old: Content | None) -> None:
    """Select the Pods of a new Job by its uid, unless it says that it selects them itself."""
    spec, metadata = new["spec"], new["metadata"]
    if old is not None or spec["manualSelector"]:
        return
    uid = {"batch.kubernetes.io/controller-uid": metadata["uid"], "controller-uid": metadata["uid"]}
    name = {"batch.kubernetes.io/job-name": metadata["name"], "job-name": metadata["name"]}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = template.get("labels", {}) | uid | name
    metadata.setdefault("labels", dict(template["labels"]))


def _daemon_set(new: Content, old: Content | None) -> None:
    annotations = new["metadata"].setdefault("annotations", {})
    count = 1
    if old is not None:
        count = int(old["metadata"]["annotations"][_TEMPLATE_GENERATION])
        count += old["spec"]["template"] != new["spec"]["template"]
    annotations[_TEMPLATE_GENERATION] = str(count)


def _protected(finalizer: str) -> Callable[[Content, Content | None], None]:
    def protect(new: Content, old: Content | None) -> None:
        finalizers = new["metadata"].setdefault("finalizers", [])
        if old is None and finalizer not in finalizers:
            finalizers.append(finalizer)
        if not finalizers:
            del new["metadata"]["finalizers"]

    return protect


PROTECTION = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
}
"""The finalizers of what may be in use."""

_OF_KIND: Mapping[tuple[str, str], Callable[[Content, Content | None], None]] = {
    ("", "pods"): _pod,
    ("", "services"): _service,
    ("apps", "daemonsets"): _daemon_set,
    ("batch", "jobs"): _job,
    **{identity: _protected(finalizer) for identity, finalizer in PROTECTION.items()},
}
