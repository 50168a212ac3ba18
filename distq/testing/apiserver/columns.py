"""The columns of built-in kinds, and what stands in them.

Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from distq.testing.apiserver.durations import age, between
from distq.testing.apiserver.pod_columns import pod_cells
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.store import Content

Cells = list[Any]
_TYPES = {"#": "integer", "?": "boolean"}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_WIDTH = 16
"""So much of a load balancer's addresses is shown."""


class Column(NamedTuple):
    """A column of a table (metav1.TableColumnDefinition)."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """Above 0 it is shown by ``-o wide`` alone."""


class Columns(NamedTuple):
    """The columns of a kind, and what makes an object's cells."""

    definitions: list[Column]
    cells: Callable[[Content], Cells]


def columns_of(resource: ServedResource) -> Columns | None:
    """Return the columns of a built-in kind, None where they are not known."""
    return None if resource.group == "events.k8s.io" else _OF_KIND.get(resource.kind)


def _columns(names: str, cells: Callable[[Content], Cells]) -> Columns:
    """Read names between bars: behind ``*`` shown where there is room, before ``#`` and ``?`` no text."""
    definitions = []
    for text in names.split("|"):
        kind = _TYPES.get(text[-1], "string")
        name = text.strip("*#?")
        form = "name" if name == "Name" else ""
        definitions.append(Column(name, kind, form, priority=int(text.startswith("*"))))
    return Columns(definitions, cells)


def _at(content: Content, path: str, absent: Any = None) -> Any:
    value: Any = content
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return absent if value is None else value


def _name(content: Content) -> str:
    name: str = content["metadata"]["name"]
    return name


def _age(content: Content) -> str:
    return age(content["metadata"].get("creationTimestamp"))


def _created(content: Content) -> Cells:
    return [_name(content), content["metadata"].get("creationTimestamp")]


def _plain(*paths: str) -> Callable[[Content], Cells]:
    """Return what makes the cells of name, fields and age."""
    return lambda content: [_name(content), *(_at(content, path, "") for path in paths), _age(content)]


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted((labels or {}).items())) or "<none>"


def _selector(selector: Mapping[str, Any] | None) -> str:
    return text_of_label_selector(selector or {}) or "<none>"


def _containers(template: Content) -> Cells:
    containers = _at(template, "spec.containers", [])
    return [",".join(each[field] for each in containers) for field in ("name", "image")]


def _entries(content: Content, *fields: str) -> int:
    return sum(len(content.get(field, ())) for field in fields)


def _config_map(content: Content) -> Cells:
    return [_name(content), _entries(content, "data", "binaryData"), _age(content)]


def _secret(content: Content) -> Cells:
    return [_name(content), content.get("type", ""), _entries(content, "data"), _age(content)]


def _deployment(content: Content) -> Cells:
    ready = f"{_at(content, 'status.readyReplicas', 0)}/{_at(content, 'spec.replicas', 0)}"
    counts = (_at(content, f"status.{name}", 0) for name in ("updatedReplicas", "availableReplicas"))
    spec = content["spec"]
    return [
        _name(content),
        ready,
        *counts,
        _age(content),
        *_containers(spec["template"]),
        _selector(spec["selector"]),
    ]


def _replica_set(content: Content) -> Cells:
    counts = [_at(content, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    spec = content["spec"]
    return [
        _name(content),
        *counts,
        _age(content),
        *_containers(spec["template"]),
        _selector(spec["selector"]),
    ]


def _stateful_set(content: Content) -> Cells:
    ready = f"{_at(content, 'status.readyReplicas', 0)}/{_at(content, 'spec.replicas', 0)}"
    return [_name(content), ready, _age(content), *_containers(content["spec"]["template"])]


_SCHEDULED = (
    *("desiredNumberScheduled", "currentNumberScheduled", "numberReady"),
    *("updatedNumberScheduled", "numberAvailable"),
)


def _daemon_set(content: Content) -> Cells:
    spec = content["spec"]
    return [
        _name(content),
        *(_at(content, f"status.{name}", 0) for name in _SCHEDULED),
        _labels(_at(spec, "template.spec.nodeSelector")),
        _age(content),
        *_containers(spec["template"]),
        _selector(spec["selector"]),
    ]


def _job(content: Content) -> Cells:
    spec, status = content["spec"], content.get("status", {})
    done, parallelism = status.get("succeeded", 0), spec.get("parallelism", 0)
    completions = f"{done}/{spec.get('completions', 1)}"
    if "completions" not in spec and parallelism > 1:
        completions = f"{done}/1 of {parallelism}"
    return [
        _name(content),
        _job_status(content),
        completions,
        between(status.get("startTime"), status.get("completionTime")),
        _age(content),
        *_containers(spec["template"]),
        _selector(spec.get("selector")),
    ]


def _job_status(content: Content) -> str:
    conditions = _at(content, "status.conditions", [])
    true = [each["type"] for each in conditions if each["status"] == "True"]
    if "deletionTimestamp" in content["metadata"]:
        true.append("Terminating")
    ordered = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((each for each in ordered if each in true), "Running")


def _cron_job(content: Content) -> Cells:
    spec, last = content["spec"], _at(content, "status.lastScheduleTime")
    job = spec["jobTemplate"]["spec"]
    return [
        _name(content),
        spec["schedule"],
        spec.get("timeZone", "<none>"),
        str(spec.get("suspend", "<unset>")),
        len(_at(content, "status.active", ())),
        age(last) if last else "<none>",
        _age(content),
        *_containers(job["template"]),
        _selector(job.get("selector")),
    ]


def _service(content: Content) -> Cells:
    spec = content["spec"]
    addresses, ports = spec.get("clusterIPs", ()), spec.get("ports", ())
    return [
        _name(content),
        spec["type"],
        addresses[0] if addresses else "<none>",
        _external_addresses(content),
        ",".join(map(_port, ports)) or "<none>",
        _age(content),
        _labels(spec.get("selector")),
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
    found = _at(content, "status.loadBalancer.ingress", [])
    return ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in found} - {""}))


def _ingress(content: Content) -> Cells:
    spec = content["spec"]
    hosts = [each["host"] for each in spec.get("rules", ())[:3] if each.get("host")]
    more = len(spec.get("rules", ())) - 3
    listed = ",".join(hosts) or "*"
    return [
        _name(content),
        spec.get("ingressClassName", "<none>"),
        f"{listed} + {more} more..." if more > 0 and hosts else listed,
        _balancers(content),
        "80, 443" if spec.get("tls") else "80",
        _age(content),
    ]


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _phase(content: Content) -> str:
    return "Terminating" if "deletionTimestamp" in content["metadata"] else _at(content, "status.phase", "")


def _class(content: Content) -> str:
    annotated: str | None = _at(content, "metadata.annotations", {}).get(_CLASS)
    return annotated or _at(content, "spec.storageClassName", "")


def _volume(content: Content) -> Cells:
    spec = content["spec"]
    claim = spec.get("claimRef")
    return [
        _name(content),
        _at(spec, "capacity.storage", "0"),
        _modes(spec.get("accessModes", [])),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(content),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(content),
        spec.get("volumeAttributesClassName", "<unset>"),
        _at(content, "status.reason", ""),
        _age(content),
        spec.get("volumeMode", "<unset>"),
    ]


def _claim(content: Content) -> Cells:
    spec = content["spec"]
    bound = bool(spec.get("volumeName"))
    return [
        _name(content),
        _phase(content),
        spec.get("volumeName", ""),
        _at(content, "status.capacity.storage", "0") if bound else "",
        _modes(_at(content, "status.accessModes", [])) if bound else "",
        _class(content),
        spec.get("volumeAttributesClassName", "<unset>"),
        _age(content),
        spec.get("volumeMode", "<unset>"),
    ]


def _storage_class(content: Content) -> Cells:
    default = _at(content, "metadata.annotations", {}).get(_DEFAULT_CLASS) == "true"
    return [
        f"{_name(content)} (default)" if default else _name(content),
        content["provisioner"],
        content.get("reclaimPolicy", "Delete"),
        content.get("volumeBindingMode", "Immediate"),
        content.get("allowVolumeExpansion", False),
        _age(content),
    ]


def _budget(content: Content) -> Cells:
    bounds = [str(_at(content, f"spec.{name}", "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [_name(content), *bounds, _at(content, "status.disruptionsAllowed", 0), _age(content)]


def _priority_class(content: Content) -> Cells:
    given = content.get("value", 0), content.get("globalDefault", False)
    return [_name(content), *given, _age(content), content.get("preemptionPolicy", "")]


def _webhooks(content: Content) -> Cells:
    return [_name(content), len(content.get("webhooks", ())), _age(content)]


def _network_policy(content: Content) -> Cells:
    return [_name(content), _selector(_at(content, "spec.podSelector")), _age(content)]


def _binding(content: Content) -> Cells:
    role, subjects = content["roleRef"], content.get("subjects", ())
    names = {"User": "{name}", "Group": "{name}", "ServiceAccount": "{namespace}/{name}"}
    listed = [
        ", ".join(text.format(**{"namespace": "", **each}) for each in subjects if each["kind"] == kind)
        for kind, text in names.items()
    ]
    return [_name(content), f"{role['kind']}/{role['name']}", _age(content), *listed]


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
        _name(content),
    ]


_WORKLOAD = "|Age|*Containers|*Images"
_WEBHOOKS = _columns("Name|Webhooks#|Age", _webhooks)
_BINDINGS = _columns("Name|Role|Age|*Users|*Groups|*ServiceAccounts", _binding)
_BY_TIME = Columns([Column("Name", format="name"), Column("Created At", "date")], _created)
_OF_KIND: Mapping[str, Columns] = {
    "ClusterRole": _BY_TIME,
    "ClusterRoleBinding": _BINDINGS,
    "ConfigMap": _columns("Name|Data|Age", _config_map),
    "CronJob": _columns(
        "Name|Schedule|Timezone|Suspend?|Active#|Last Schedule" + _WORKLOAD + "|*Selector", _cron_job
    ),
    "CustomResourceDefinition": _BY_TIME,
    "DaemonSet": _columns(
        "Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector" + _WORKLOAD + "|*Selector",
        _daemon_set,
    ),
    "Deployment": _columns("Name|Ready|Up-to-date|Available" + _WORKLOAD + "|*Selector", _deployment),
    "Event": _columns(
        "Last Seen|Type|Reason|Object|*Subobject|*Source|Message|*First Seen|*Count|*Name", _event
    ),
    "Ingress": _columns("Name|Class|Hosts|Address|Ports|Age", _ingress),
    "Job": _columns("Name|Status|Completions|Duration" + _WORKLOAD + "|*Selector", _job),
    "Lease": _columns("Name|Holder|Age", _plain("spec.holderIdentity")),
    "LimitRange": _BY_TIME,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "Namespace": _columns("Name|Status|Age", _plain("status.phase")),
    "NetworkPolicy": _columns("Name|Pod-Selector|Age", _network_policy),
    "PersistentVolume": _columns(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age"
        "|*VolumeMode",
        _volume,
    ),
    "PersistentVolumeClaim": _columns(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|*VolumeMode", _claim
    ),
    "Pod": _columns("Name|Ready|Status|Restarts|Age|*IP|*Node|*Nominated Node|*Readiness Gates", pod_cells),
    "PodDisruptionBudget": _columns("Name|Min Available|Max Unavailable|Allowed Disruptions#|Age", _budget),
    "PriorityClass": _columns("Name|Value#|Global-Default?|Age|PreemptionPolicy", _priority_class),
    "ReplicaSet": _columns("Name|Desired#|Current#|Ready#" + _WORKLOAD + "|*Selector", _replica_set),
    "Role": _BY_TIME,
    "RoleBinding": _BINDINGS,
    "Secret": _columns("Name|Type|Data|Age", _secret),
    "Service": _columns("Name|Type|Cluster-IP|External-IP|Port(s)|Age|*Selector", _service),
    "ServiceAccount": _columns("Name|Age", _plain()),
    "StatefulSet": _columns("Name|Ready" + _WORKLOAD, _stateful_set),
    "StorageClass": _columns(
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", _storage_class
    ),
    "ValidatingWebhookConfiguration": _WEBHOOKS,
}
"""All but Node, Endpoints, EndpointSlice, HorizontalPodAutoscaler, IngressClass and ResourceQuota."""
