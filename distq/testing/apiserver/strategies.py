"""What differs from kind to kind when objects are written: status, generation, validation, and what is added.

Only what controllers meet; the real server validates far more.
Source: kubernetes pkg/registry/*/*/strategy.go, plugin/pkg/admission.
"""

import base64
import ipaddress
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from distq.testing.apiserver import objects, typed
from distq.testing.apiserver.causes import GO_TYPES, Cause, forbidden, go_text, wrong
from distq.testing.apiserver.definitions import established, with_defaults
from distq.testing.apiserver.resources import DEFINITIONS, NAMESPACES, ServedResource, built_in, names_in
from distq.testing.apiserver.schema_validation import violations
from distq.testing.apiserver.status import StatusError, invalid, refuse
from distq.testing.apiserver.store import Content, value_at
from distq.testing.apiserver.validation import built_in_violations, changes_of_immutable, status_violations

_MOST_REPLICAS = 2**31 - 1
_MOST_BYTES = 3 * 2**19
"""What etcd stores of one object."""
_DATA = {("", "configmaps"), ("", "secrets")}
_IMMUTABLE = "field is immutable when `immutable` is set"
_OF_BALANCERS = "may only be used when `spec.type` is 'LoadBalancer'"
_ADDRESSES = ipaddress.IPv4Network("10.96.0.0/12")
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def prepare_for_create(resource: ServedResource, content: Content) -> None:
    """Set what the kind's new objects start with."""
    _complete(resource, content, None)
    if resource.status and resource.kind != "Node":  # which a kubelet creates with its status
        content.pop("status", None)
        if not resource.custom:
            status = {"status": _initial_status(resource, content)}
            content["status"] = typed.decode(resource, status)["status"]
    _require_schema(resource, content)
    if resource == DEFINITIONS:
        content["status"] = established(content)


def prepare_for_update(
    resource: ServedResource, new: Content, old: Content, *, finalizes: bool = False
) -> None:
    """Keep the status, and count the generation; of a namespace only what ``finalizes`` it sets the spec."""
    _complete(resource, new, old)
    changed = [field for field in ("immutable", "data", "binaryData") if new.get(field) != old.get(field)]
    if resource.identity in _DATA and old.get("immutable"):
        refuse(resource, old["metadata"]["name"], [forbidden(field, _IMMUTABLE) for field in changed])
    if resource.status:
        objects.take(new, "status", old)
    if resource == NAMESPACES and not finalizes:
        objects.take(new, "spec", old)
    _require_schema(resource, new, old)
    if resource.generation and _intent(resource, new) != _intent(resource, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_for_status_update(resource: ServedResource, new: Content, old: Content) -> Content:
    """Return the old object with the new one's status; of built-in kinds most metadata comes along."""
    metadata = dict(old["metadata"])
    if not resource.custom and resource != DEFINITIONS:
        metadata = dict(new["metadata"])
        for field in names_in(resource.rules, "kept"):
            objects.take(metadata, field, old["metadata"])
        new = {"status": {}} | new
    updated = old | {"metadata": metadata}
    objects.take(updated, "status", new)
    if resource == NAMESPACES:
        _require_phase(updated)
    if not resource.custom and resource != DEFINITIONS:
        schema = resource.schema["properties"]["status"]
        causes = list(status_violations(schema, updated["status"], old.get("status", {})))
        balanced = value_at(updated, "status.loadBalancer.ingress")
        if balanced and value_at(updated, "spec.type", "LoadBalancer") != "LoadBalancer":
            causes.append(forbidden("status.loadBalancer.ingress", _OF_BALANCERS))
        refuse(resource, metadata["name"], causes)
    _require_schema(resource, updated, old)
    return updated


def _require_phase(namespace: Content) -> None:
    deleted = "deletionTimestamp" in namespace["metadata"]
    expected, empty = ("Terminating", "not empty") if deleted else ("Active", "empty")
    phase = namespace["status"].get("phase", "")
    if phase != expected:
        rule = f"may only be '{expected}' if `deletionTimestamp` is {empty}"
        raise invalid(NAMESPACES, namespace["metadata"]["name"], wrong("status.Phase", phase, rule))


def _require_schema(resource: ServedResource, new: Content, old: Content | None = None) -> None:
    """Refuse an object that breaks the rules of its kind, or changes what cannot change.

    A custom resource may go on breaking its schema where the old one did.
    """
    if resource.custom:
        if len(msgspec.json.encode(new)) > _MOST_BYTES:
            raise StatusError(500, "etcdserver: request is too large")
        before = None if old is None else resource.with_type(old)
        causes = list(violations(resource.schema, resource.with_type(new), before))
        causes += _violations_of_scale(resource, new)
    else:
        causes = list(built_in_violations(resource.schema, new))
        causes += [] if old is None else changes_of_immutable(resource, new, old)
    refuse(resource, new["metadata"]["name"], causes)


def _violations_of_scale(resource: ServedResource, content: Content) -> Iterator[Cause]:
    """Yield what keeps a custom resource from having a Scale."""
    for path in filter(None, (resource.scale.replicas, resource.scale.status_replicas)):
        value, problem = value_at(content, path), _mistyped(content, path)
        if problem:
            value = 0
        elif value is not None and value < 0:
            problem = "should be a non-negative integer"
        elif value is not None and value > _MOST_REPLICAS:
            problem = f"should be less than or equal to {_MOST_REPLICAS}"
        if problem:
            yield wrong(f".{'.'.join(path)}", value, problem)


def _mistyped(content: Content, path: Sequence[str]) -> str:
    """Return what on a path is no map, or at its end no whole number; empty where all is right, or absent."""
    value: Any = content
    for depth, step in enumerate(path, start=1):
        if not isinstance(value, dict):
            return _wrong(path[:depth], value, "map[string]interface{}")
        if step not in value:
            return ""
        value = value[step]
    return "" if type(value) is int else _wrong(path, value, "int64")


def _wrong(path: Sequence[str], value: Any, wanted: str) -> str:
    found = f"{go_text(value)} is of the type {GO_TYPES[type(value)]}"
    return f".{'.'.join(path)} accessor error: {found}, expected {wanted}"


def _intent(resource: ServedResource, content: Content) -> Any:
    """Return what the generation counts the changes of."""
    apart = {"metadata", "status"} if resource.status else {"metadata"}
    counted = names_in(resource.rules, "counted")
    metadata = {field: content["metadata"].get(field) for field in counted}
    return metadata, {field: value for field, value in content.items() if field not in apart}


def _complete(resource: ServedResource, new: Content, old: Content | None) -> None:
    """Bring what is written into the form that is kept; ``old`` is None where it is new."""
    if complete := _OF_KIND.get(resource.identity):
        complete(new, old)
    finalizer, finalizers = resource.rules.get("protection"), new["metadata"].get("finalizers", [])
    if finalizer and old is None and finalizer not in finalizers:
        new["metadata"]["finalizers"] = [*finalizers, finalizer]


def _namespace(new: Content, old: Content | None) -> None:
    metadata = new["metadata"]
    metadata["labels"] = metadata.get("labels", {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    if old is None:
        finalizers = new.get("spec", {}).get("finalizers", [])
        others = [each for each in finalizers if each != "kubernetes"]
        new["spec"] = {"finalizers": [*others, "kubernetes"]}


def _config_map(new: Content, _: Content | None) -> None:
    for field in [field for field in ("data", "binaryData") if not new.get(field)]:
        new.pop(field, None)


def _secret(new: Content, old: Content | None) -> None:
    plain = new.pop("stringData", {})
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
    new["data"] = (new.get("data") or {}) | encoded
    _config_map(new, old)


def _lease(new: Content, _: Content | None) -> None:
    for gated in ("preferredHolder", "strategy"):  # by CoordinatedLeaderElection, which is off by default
        new["spec"].pop(gated, None)


def _definition(new: Content, _: Content | None) -> None:
    spec, name = new.get("spec") or {}, new["metadata"]["name"]
    names = spec.get("names") or {}
    if name != f"{names.get('plural')}.{spec.get('group')}":
        cause = wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        raise invalid(DEFINITIONS, name, cause)
    new["spec"] = with_defaults(spec)


def _initial_status(resource: ServedResource, content: Content) -> dict[str, Any]:
    if resource.kind == "Pod":
        gates = content["spec"].get("schedulingGates")
        gated = {"conditions": [built_in()["scheduling_gated"]]} if gates else {}
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
    # the admission plugin DefaultTolerationSeconds
    tolerations = new["spec"].setdefault("tolerations", [])
    for toleration in built_in()["tolerations"]:
        key = toleration["key"]
        if not any(each.get("key", key) == key for each in tolerations):
            tolerations.append(dict(toleration))


def _service(new: Content, old: Content | None) -> None:
    spec, before = dict(new["spec"]), (old or {}).get("spec", {})
    new["spec"] = spec
    _leave_out_of_service(spec, before)
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        address = _ADDRESSES[random.randrange(1, _ADDRESSES.num_addresses - 1)]
        spec["clusterIP"] = before.get("clusterIP") or str(address)
    spec["clusterIPs"] = [spec["clusterIP"], *spec.get("clusterIPs", ())[1:]]
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["clusterIP"] == "None" and not spec.get("selector"):  # of any kind that its endpoints may have
        spec.setdefault("ipFamilies", before.get("ipFamilies", ["IPv4", "IPv6"]))
        spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy", "RequireDualStack"))
    spec.setdefault("ipFamilies", before.get("ipFamilies", ["IPv4"]))
    spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy", "SingleStack"))
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        given = {port.get("name"): port.get("nodePort") for port in before.get("ports", ())}
        for port in spec.get("ports", ()):
            port.setdefault("nodePort", given.get(port.get("name")) or random.randrange(30000, 32768))


def _leave_out_of_service(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Leave out what a Service had before, under another type, and has no use for now."""
    unused = ["allocateLoadBalancerNodePorts", "loadBalancerClass"] * (spec["type"] != "LoadBalancer")
    if spec["type"] not in {"NodePort", "LoadBalancer"}:
        unused.append("externalTrafficPolicy")
        ports, were = spec.get("ports", []), before.get("ports", [])
        if ports and [each.get("nodePort") for each in ports] == [each.get("nodePort") for each in were]:
            spec["ports"] = [
                {name: each for name, each in port.items() if name != "nodePort"} for port in ports
            ]
    if spec["type"] == "ExternalName":
        unused += ["clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"]
    for field in unused:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _job(new: Content, old: Content | None) -> None:
    spec, metadata = new["spec"], new["metadata"]
    if old is None and not spec["manualSelector"]:
        uid = {"batch.kubernetes.io/controller-uid": metadata["uid"], "controller-uid": metadata["uid"]}
        name = {"batch.kubernetes.io/job-name": metadata["name"], "job-name": metadata["name"]}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}
        template = spec["template"].setdefault("metadata", {})
        template["labels"] = template.get("labels", {}) | uid | name
    if labels := value_at(spec, "template.metadata.labels"):
        metadata.setdefault("labels", dict(labels))


def _daemon_set(new: Content, old: Content | None) -> None:
    annotations = new["metadata"].setdefault("annotations", {})
    count = 1
    if old is not None:
        count = int(old["metadata"]["annotations"][_TEMPLATE_GENERATION])
        count += old["spec"]["template"] != new["spec"]["template"]
    annotations[_TEMPLATE_GENERATION] = str(count)


_OF_KIND: Mapping[tuple[str, str], Callable[[Content, Content | None], None]] = {
    ("", "configmaps"): _config_map,
    ("", "namespaces"): _namespace,
    ("", "pods"): _pod,
    ("", "secrets"): _secret,
    ("", "services"): _service,
    ("apps", "daemonsets"): _daemon_set,
    ("batch", "jobs"): _job,
    DEFINITIONS.identity: _definition,
    ("coordination.k8s.io", "leases"): _lease,
}
