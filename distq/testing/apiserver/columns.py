"""The columns of built-in kinds, and their cells.

Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping
from typing import Any

from distq.testing.apiserver.cells import (
    Cells,
    Column,
    Columns,
    age_of,
    columns,
    labels_text,
    name_of,
    selector_text,
    value_at,
)
from distq.testing.apiserver.durations import age
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content
from distq.testing.apiserver.workload_columns import WORKLOADS

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def columns_of(resource: ServedResource) -> Columns | None:
    """Return the columns of a built-in kind, None where they are not known."""
    return None if resource.group == "events.k8s.io" else _OF_KIND.get(resource.kind)


def _created(content: Content) -> Cells:
    return [name_of(content), content["metadata"].get("creationTimestamp")]


def _plain(*paths: str) -> Callable[[Content], Cells]:
    """Return what makes the cells of name, fields and age."""
    return lambda content: [
        name_of(content),
        *(value_at(content, path, "") for path in paths),
        age_of(content),
    ]


def _entries(content: Content, *fields: str) -> int:
    return sum(len(content.get(field, ())) for field in fields)


def _config_map(content: Content) -> Cells:
    return [name_of(content), _entries(content, "data", "binaryData"), age_of(content)]


def _secret(content: Content) -> Cells:
    return [name_of(content), content.get("type", ""), _entries(content, "data"), age_of(content)]


def _service(content: Content) -> Cells:
    spec = content["spec"]
    addresses, ports = spec.get("clusterIPs", ()), spec.get("ports", ())
    return [
        name_of(content),
        spec["type"],
        addresses[0] if addresses else "<none>",
        _external_addresses(content),
        ",".join(map(_port, ports)) or "<none>",
        age_of(content),
        labels_text(spec.get("selector")),
    ]


def _port(port: Mapping[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


def _external_addresses(content: Content) -> str:
    spec = content["spec"]
    given = spec.get("externalIPs", [])
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec["type"] != "LoadBalancer":
        return ",".join(given) or "<none>"
    balancers = _balancers(content)
    return ",".join([*(balancers.split(",") if balancers else ()), *given]) or "<pending>"


def _balancers(content: Content) -> str:
    found = value_at(content, "status.loadBalancer.ingress", [])
    return ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in found} - {""}))


def _ingress(content: Content) -> Cells:
    spec = content["spec"]
    hosts = [each["host"] for each in spec.get("rules", ())[:3] if each.get("host")]
    more = len(spec.get("rules", ())) - 3
    listed = ",".join(hosts) or "*"
    return [
        name_of(content),
        spec.get("ingressClassName", "<none>"),
        f"{listed} + {more} more..." if more > 0 and hosts else listed,
        _balancers(content),
        "80, 443" if spec.get("tls") else "80",
        age_of(content),
    ]


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _phase(content: Content) -> str:
    return (
        "Terminating" if "deletionTimestamp" in content["metadata"] else value_at(content, "status.phase", "")
    )


def _class(content: Content) -> str:
    annotated: str | None = value_at(content, "metadata.annotations", {}).get(_CLASS)
    return annotated or value_at(content, "spec.storageClassName", "")


def _volume(content: Content) -> Cells:
    spec = content["spec"]
    claim = spec.get("claimRef")
    return [
        name_of(content),
        value_at(spec, "capacity.storage", "0"),
        _modes(spec.get("accessModes", [])),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(content),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(content),
        spec.get("volumeAttributesClassName", "<unset>"),
        value_at(content, "status.reason", ""),
        age_of(content),
        spec.get("volumeMode", "<unset>"),
    ]


def _claim(content: Content) -> Cells:
    spec = content["spec"]
    bound = bool(spec.get("volumeName"))
    return [
        name_of(content),
        _phase(content),
        spec.get("volumeName", ""),
        value_at(content, "status.capacity.storage", "0") if bound else "",
        _modes(value_at(content, "status.accessModes", [])) if bound else "",
        _class(content),
        spec.get("volumeAttributesClassName", "<unset>"),
        age_of(content),
        spec.get("volumeMode", "<unset>"),
    ]


def _storage_class(content: Content) -> Cells:
    default = value_at(content, "metadata.annotations", {}).get(_DEFAULT_CLASS) == "true"
    return [
        f"{name_of(content)} (default)" if default else name_of(content),
        content["provisioner"],
        content.get("reclaimPolicy", "Delete"),
        content.get("volumeBindingMode", "Immediate"),
        content.get("allowVolumeExpansion", False),
        age_of(content),
    ]


def _budget(content: Content) -> Cells:
    bounds = [str(value_at(content, f"spec.{name}", "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [name_of(content), *bounds, value_at(content, "status.disruptionsAllowed", 0), age_of(content)]


def _priority_class(content: Content) -> Cells:
    given = content.get("value", 0), content.get("globalDefault", False)
    return [name_of(content), *given, age_of(content), content.get("preemptionPolicy", "")]


def _webhooks(content: Content) -> Cells:
    return [name_of(content), len(content.get("webhooks", ())), age_of(content)]


def _network_policy(content: Content) -> Cells:
    return [name_of(content), selector_text(value_at(content, "spec.podSelector")), age_of(content)]


def _binding(content: Content) -> Cells:
    role, subjects = content["roleRef"], content.get("subjects", ())
    names = {"User": "{name}", "Group": "{name}", "ServiceAccount": "{namespace}/{name}"}
    listed = [
        ", ".join(text.format(**{"namespace": "", **each}) for each in subjects if each["kind"] == kind)
        for kind, text in names.items()
    ]
    return [name_of(content), f"{role['kind']}/{role['name']}", age_of(content), *listed]


def _event(content: Content) -> Cells:
    about, source = content.get("involvedObject", {}), content.get("source", {})
    first = content.get("firstTimestamp") or content.get("eventTime")
    last = content.get("lastTimestamp") or first
    count = content.get("count") or 1
    if series := content.get("series"):
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    component = source.get("component") or content.get("reportingComponent", "")
    instance = source.get("host") or content.get("reportingInstance", "")
    kind, name = about.get("kind", "").lower(), about.get("name")
    return [
        age(last),
        content.get("type", ""),
        content.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        content.get("message", "").strip(),
        age(first),
        count,
        name_of(content),
    ]


_WEBHOOKS = columns("Name|Webhooks#|Age", _webhooks)
_BINDINGS = columns("Name|Role|Age|*Users|*Groups|*ServiceAccounts", _binding)
_BY_TIME = Columns([Column("Name", format="name"), Column("Created At", "date")], _created)
_OF_KIND: Mapping[str, Columns] = {
    **WORKLOADS,
    "ClusterRole": _BY_TIME,
    "ClusterRoleBinding": _BINDINGS,
    "ConfigMap": columns("Name|Data|Age", _config_map),
    "CustomResourceDefinition": _BY_TIME,
    "Event": columns(
        "Last Seen|Type|Reason|Object|*Subobject|*Source|Message|*First Seen|*Count|*Name", _event
    ),
    "Ingress": columns("Name|Class|Hosts|Address|Ports|Age", _ingress),
    "Lease": columns("Name|Holder|Age", _plain("spec.holderIdentity")),
    "LimitRange": _BY_TIME,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "Namespace": columns("Name|Status|Age", _plain("status.phase")),
    "NetworkPolicy": columns("Name|Pod-Selector|Age", _network_policy),
    "PersistentVolume": columns(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age"
        "|*VolumeMode",
        _volume,
    ),
    "PersistentVolumeClaim": columns(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|*VolumeMode", _claim
    ),
    "PodDisruptionBudget": columns("Name|Min Available|Max Unavailable|Allowed Disruptions#|Age", _budget),
    "PriorityClass": columns("Name|Value#|Global-Default?|Age|PreemptionPolicy", _priority_class),
    "Role": _BY_TIME,
    "RoleBinding": _BINDINGS,
    "Secret": columns("Name|Type|Data|Age", _secret),
    "Service": columns("Name|Type|Cluster-IP|External-IP|Port(s)|Age|*Selector", _service),
    "ServiceAccount": columns("Name|Age", _plain()),
    "StorageClass": columns(
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", _storage_class
    ),
    "ValidatingWebhookConfiguration": _WEBHOOKS,
}
"""All but Node, Endpoints, EndpointSlice, HorizontalPodAutoscaler, IngressClass and ResourceQuota."""
