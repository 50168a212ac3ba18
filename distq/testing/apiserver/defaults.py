"""What the server fills in where an object of a built-in kind leaves it out.

By the name of the type that has the field. What Go's zero values are comes
from the schemas instead.
Source: kubernetes pkg/apis/*/v1/defaults.go.
"""

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from distq.testing.apiserver.causes import Fields
from distq.testing.apiserver.resources import rules_of

_IMAGE = re.compile(r"([\w.-]+(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[\w.-]+)?(@.+)?$", re.ASCII)
"""The name of an image, roughly; what is none is never pulled again."""


def fill(name: str, fields: Fields) -> None:
    """Add to the fields of a type what is left out of them."""
    _add(rules_of(name).get("defaults", {}), fields)
    if name in _DERIVED:
        _DERIVED[name](fields)


def _add(defaults: Mapping[str, Any], fields: Fields) -> None:
    for field, value in defaults.items():
        if field not in fields:
            fields[field] = deepcopy(value)
        elif isinstance(value, dict) and isinstance(fields[field], dict):
            _add(value, fields[field])


def _container(fields: Fields) -> None:
    image = fields.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    pinned = "@" in image or tag not in {"", "latest"} or not _IMAGE.match(image)
    fields.setdefault("imagePullPolicy", "IfNotPresent" if pinned else "Always")


def _volume(fields: Fields) -> None:
    if not fields.keys() - {"name"}:
        fields["emptyDir"] = {}


def _pod(fields: Fields) -> None:
    spec = fields["spec"]
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        resources = container["resources"]
        if "limits" in resources:
            resources["requests"] = resources["limits"] | resources.get("requests", {})


def _pod_spec(fields: Fields) -> None:
    if name := fields.get("serviceAccountName") or fields.get("serviceAccount"):
        fields |= {"serviceAccountName": name, "serviceAccount": name}


def _pod_status(fields: Fields) -> None:
    """Let both fields of a Pod's addresses agree: the older one is believed."""
    listed = fields.get("podIPs")
    if address := fields.get("podIP"):
        fields["podIPs"] = listed if listed and listed[0].get("ip") == address else [{"ip": address}]
    elif listed:
        fields["podIP"] = listed[0].get("ip", "")


def _stateful_set(fields: Fields) -> None:
    _roll(fields["updateStrategy"], partition=0)
    for claim in fields.get("volumeClaimTemplates", ()):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _roll(strategy: Fields, **limits: Any) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = limits | strategy.get("rollingUpdate", {})


def _job(fields: Fields) -> None:
    spec = fields["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _limit_range_item(fields: Fields) -> None:
    if fields.get("type") != "Container":
        return
    limits = fields.get("max", {}) | fields.get("default", {})
    requests = limits | fields.get("min", {}) | fields.get("defaultRequest", {})
    fields |= {name: each for name, each in (("default", limits), ("defaultRequest", requests)) if each}


def _network_policy(fields: Fields) -> None:
    fields.setdefault("policyTypes", ["Ingress", "Egress"] if "egress" in fields else ["Ingress"])


def _service(fields: Fields) -> None:
    if fields["sessionAffinity"] != "ClientIP":
        fields.pop("sessionAffinityConfig", None)
        return
    config = fields.setdefault("sessionAffinityConfig", {})
    config.setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)


def _ingress_of_service(fields: Fields) -> None:
    if fields.get("ip"):
        fields.setdefault("ipMode", "VIP")


def _service_account(fields: Fields) -> None:
    for secret in fields.get("secrets", ()):
        for other in secret.keys() - {"name"}:
            del secret[other]


def _local_reference(fields: Fields) -> None:
    if not fields["name"]:
        del fields["name"]


def _service_port(fields: Fields) -> None:
    if fields.get("targetPort") in {None, "", 0} and "port" in fields:
        fields["targetPort"] = fields["port"]


def _reference_to_rbac(fields: Fields) -> None:
    if not fields.get("apiGroup") and fields.get("kind") != "ServiceAccount":
        fields["apiGroup"] = "rbac.authorization.k8s.io"


_DERIVED: Mapping[str, Callable[[Fields], object]] = {
    "apps.v1.DaemonSetSpec": lambda spec: _roll(spec["updateStrategy"], maxSurge=0, maxUnavailable=1),
    "apps.v1.DeploymentSpec": lambda spec: _roll(spec["strategy"], maxSurge="25%", maxUnavailable="25%"),
    "apps.v1.StatefulSetSpec": _stateful_set,
    "batch.v1.Job": _job,
    "core.v1.Container": _container,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.LimitRangeSpec": lambda spec: spec.update(limits=spec.get("limits") or None),
    "core.v1.LoadBalancerIngress": _ingress_of_service,
    "core.v1.LocalObjectReference": _local_reference,
    "core.v1.Pod": _pod,
    "core.v1.PodSpec": _pod_spec,
    "core.v1.PodStatus": _pod_status,
    "core.v1.ServiceAccount": _service_account,
    "core.v1.ServicePort": _service_port,
    "core.v1.ServiceSpec": _service,
    "core.v1.Volume": _volume,
    "discovery.v1.Endpoint": lambda endpoint: endpoint.pop("deprecatedTopology", None),
    "networking.v1.NetworkPolicySpec": _network_policy,
    "rbac.v1.RoleRef": _reference_to_rbac,
    "rbac.v1.Subject": _reference_to_rbac,
}
