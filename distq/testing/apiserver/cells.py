"""What columns of built-in kinds show, of an object or of one value in it, which may be None.

Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distq.testing.apiserver.durations import age, between
from distq.testing.apiserver.pod_cells import pod_ready, pod_restarts, pod_status, readiness_gates
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.store import Content, value_at

Items = Sequence[Mapping[str, Any]] | None

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ENDS_OF_JOBS = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(job: Content) -> str:
    conditions = value_at(job, "status.conditions", ())
    true = [each["type"] for each in conditions if each["status"] == "True"]
    if "deletionTimestamp" in job["metadata"]:
        true.append("Terminating")
    return next((each for each in _ENDS_OF_JOBS if each in true), "Running")


def _completions(job: Content) -> str:
    spec, done = job["spec"], value_at(job, "status.succeeded", 0)
    parallelism = spec.get("parallelism", 0)
    if "completions" not in spec and parallelism > 1:
        return f"{done}/1 of {parallelism}"
    return f"{done}/{spec.get('completions', 1)}"


def _port(port: Mapping[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


def _external_addresses(service: Content) -> str:
    spec = service["spec"]
    given = spec.get("externalIPs", [])
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec["type"] != "LoadBalancer":
        return ",".join(given) or "<none>"
    found = _balancers(value_at(service, "status.loadBalancer.ingress"))
    return ",".join([*(found.split(",") if found else ()), *given]) or "<pending>"


def _balancers(found: Items) -> str:
    return ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in found or ()} - {""}))


def _hosts(rules: Items) -> str:
    rules = rules or ()
    hosts = [each["host"] for each in rules[:3] if each.get("host")]
    listed = ",".join(hosts) or "*"
    return f"{listed} + {len(rules) - 3} more..." if len(rules) > 3 and hosts else listed


def _phase(content: Content) -> str:
    is_deleted = "deletionTimestamp" in content["metadata"]
    return "Terminating" if is_deleted else value_at(content, "status.phase", "")


def _modes(given: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (given or ()))


def _storage_class(content: Content) -> str:
    annotated: str | None = value_at(content, "metadata.annotations", {}).get(_CLASS)
    return annotated or value_at(content, "spec.storageClassName", "")


def _bound(claim: Content, path: str, absent: Any) -> Any:
    """Return a value of a claim that is bound; one that is not shows nothing."""
    return value_at(claim, path, absent) if claim["spec"].get("volumeName") else None


def _class_name(content: Content) -> str:
    name: str = content["metadata"]["name"]
    is_default = value_at(content, "metadata.annotations", {}).get(_DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


def _subjects(subjects: Items, kind: str, form: str = "{name}") -> str:
    chosen = [each for each in subjects or () if each["kind"] == kind]
    return ", ".join(form.format(**{"namespace": "", **each}) for each in chosen)


def _involved(about: Mapping[str, str] | None) -> str:
    """Show which object an event is about."""
    about = about or {}
    kind, name = about.get("kind", "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: Content) -> str:
    source = event.get("source", {})
    component: str = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def _event_count(event: Content) -> int:
    series = event.get("series")
    happened: int = series.get("count", 0) if series else event.get("count") or 1
    return happened


def _first_seen(event: Content) -> str | None:
    return event.get("firstTimestamp") or event.get("eventTime")


def _last_seen(event: Content) -> str | None:
    if series := event.get("series"):
        last: str | None = series.get("lastObservedTime")
        return last
    return event.get("lastTimestamp") or _first_seen(event)


CELLS: Mapping[str, Callable[[Any], Any]] = {
    # of any kind
    "age": age,
    "count": lambda items: len(items or ()),
    "entries": lambda content: sum(len(content.get(field, ())) for field in ("data", "binaryData")),
    "first": lambda texts: texts[0] if texts else "<none>",
    "labels": lambda labels: ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or "<none>",
    "phase": _phase,
    "selector": lambda selector: text_of_label_selector(selector or {}) or "<none>",
    "stripped": lambda text: (text or "").strip(),
    "text": str,
    # of workloads
    "completions": _completions,
    "first_address": lambda addresses: (addresses[0].get("ip") if addresses else "") or "<none>",
    "images": lambda containers: ",".join(each["image"] for each in containers or ()),
    "job_duration": lambda job: between(
        value_at(job, "status.startTime"), value_at(job, "status.completionTime")
    ),
    "job_status": _job_status,
    "names": lambda containers: ",".join(each["name"] for each in containers or ()),
    "pod_ready": pod_ready,
    "pod_restarts": pod_restarts,
    "pod_status": pod_status,
    "readiness_gates": readiness_gates,
    "ready_of_wanted": lambda content: (
        f"{value_at(content, 'status.readyReplicas', 0)}/{value_at(content, 'spec.replicas', 0)}"
    ),
    # of networks
    "balancers": _balancers,
    "external_addresses": _external_addresses,
    "hosts": _hosts,
    "ingress_ports": lambda tls: "80, 443" if tls else "80",
    "ports": lambda ports: ",".join(map(_port, ports or ())) or "<none>",
    # of volumes
    "bound_capacity": lambda claim: _bound(claim, "status.capacity.storage", "0") or "",
    "bound_modes": lambda claim: _modes(_bound(claim, "status.accessModes", ())),
    "claim": lambda claim: f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
    "class_name": _class_name,
    "modes": _modes,
    "storage_class": _storage_class,
    # of bindings and events
    "accounts": lambda subjects: _subjects(subjects, "ServiceAccount", "{namespace}/{name}"),
    "event_count": _event_count,
    "event_source": _event_source,
    "first_seen": lambda event: age(_first_seen(event)),
    "groups": lambda subjects: _subjects(subjects, "Group"),
    "involved": _involved,
    "last_seen": lambda event: age(_last_seen(event)),
    "role": lambda reference: f"{reference['kind']}/{reference['name']}",
    "users": lambda subjects: _subjects(subjects, "User"),
}
"""By their names in ``built_in_kinds.yaml``: from an object, or a value in it or None, to what is shown."""
