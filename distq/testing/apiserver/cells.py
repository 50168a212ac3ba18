"""What columns of built-in kinds show, of an object or of one value in it, which may be None.

Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from distq.testing.apiserver.durations import age, between
from distq.testing.apiserver.pod_cells import pod_ready, pod_restarts, pod_status, readiness_gates
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.store import Content, value_at

__all__ = ["age", "pod_ready", "pod_restarts", "pod_status", "readiness_gates"]

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

# Of any kind


def plain(value: Any) -> Any:
    """Show a value as it is."""
    return "" if value is None else value


def text(value: Any) -> str:
    """Show a number or boolean as a text."""
    return str(value)


def stripped(message: str | None) -> str:
    """Show a text without the space around it."""
    return (message or "").strip()


def count(items: Items) -> int:
    """Show how many there are."""
    return len(items or ())


def first(texts: Sequence[str] | None) -> str:
    """Show the first of several."""
    return texts[0] if texts else "<none>"


def first_address(addresses: Items) -> str:
    """Show the first of a Pod's addresses."""
    return (addresses[0].get("ip") if addresses else "") or "<none>"


def labels(given: Mapping[str, str] | None) -> str:
    """Show labels in one line."""
    return ",".join(f"{name}={value}" for name, value in sorted((given or {}).items())) or "<none>"


def selector(given: Mapping[str, Any] | None) -> str:
    """Show a label selector in one line."""
    return text_of_label_selector(given or {}) or "<none>"


def entries(content: Content) -> int:
    """Show how many keys a ConfigMap or a Secret has."""
    return sum(len(content.get(field, ())) for field in ("data", "binaryData"))


# Of workloads


def ready_of_wanted(content: Content) -> str:
    """Show how many replicas are ready, and how many there should be."""
    return f"{value_at(content, 'status.readyReplicas', 0)}/{value_at(content, 'spec.replicas', 0)}"


def containers(template: Content) -> str:
    """Show the names of a template's containers."""
    return ",".join(each["name"] for each in value_at(template, "spec.containers", ()))


def images(template: Content) -> str:
    """Show the images of a template's containers."""
    return ",".join(each["image"] for each in value_at(template, "spec.containers", ()))


def job_status(job: Content) -> str:
    """Show how a Job ends or has ended."""
    conditions = value_at(job, "status.conditions", ())
    true = [each["type"] for each in conditions if each["status"] == "True"]
    if "deletionTimestamp" in job["metadata"]:
        true.append("Terminating")
    return next((each for each in _ENDS_OF_JOBS if each in true), "Running")


def completions(job: Content) -> str:
    """Show how many Pods of a Job succeeded, and how many shall."""
    spec, done = job["spec"], value_at(job, "status.succeeded", 0)
    parallelism = spec.get("parallelism", 0)
    if "completions" not in spec and parallelism > 1:
        return f"{done}/1 of {parallelism}"
    return f"{done}/{spec.get('completions', 1)}"


def job_duration(job: Content) -> str:
    """Show how long a Job runs, or ran."""
    return between(value_at(job, "status.startTime"), value_at(job, "status.completionTime"))


# Of Services and Ingresses


def ports(given: Items) -> str:
    """Show the ports of a Service."""
    return ",".join(map(_port, given or ())) or "<none>"


def _port(port: Mapping[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


def external_addresses(service: Content) -> str:
    """Show where a Service is found from outside."""
    spec = service["spec"]
    given = spec.get("externalIPs", [])
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec["type"] != "LoadBalancer":
        return ",".join(given) or "<none>"
    found = balancers(value_at(service, "status.loadBalancer.ingress"))
    return ",".join([*(found.split(",") if found else ()), *given]) or "<pending>"


def balancers(found: Items) -> str:
    """Show the addresses of load balancers."""
    return ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in found or ()} - {""}))


def hosts(rules: Items) -> str:
    """Show the first three hosts of an Ingress."""
    named = [each["host"] for each in (rules or ())[:3] if each.get("host")]
    more = count(rules) - 3
    listed = ",".join(named) or "*"
    return f"{listed} + {more} more..." if more > 0 and named else listed


def ingress_ports(tls: Items) -> str:
    """Show the ports of an Ingress."""
    return "80, 443" if tls else "80"


# Of volumes


def phase(content: Content) -> str:
    """Show the phase of a volume or a claim."""
    is_deleted = "deletionTimestamp" in content["metadata"]
    return "Terminating" if is_deleted else value_at(content, "status.phase", "")


def modes(given: Sequence[str] | None) -> str:
    """Show access modes in their order, by their short names."""
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (given or ()))


def claim(reference: Mapping[str, str] | None) -> str:
    """Show which claim a volume is bound to."""
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def storage_class(content: Content) -> str:
    """Show the class of a volume or a claim, which an annotation named once."""
    annotated: str | None = value_at(content, "metadata.annotations", {}).get(_CLASS)
    return annotated or value_at(content, "spec.storageClassName", "")


def bound_capacity(content: Content) -> str:
    """Show the capacity of a claim that is bound."""
    return value_at(content, "status.capacity.storage", "0") if content["spec"].get("volumeName") else ""


def bound_modes(content: Content) -> str:
    """Show the access modes of a claim that is bound."""
    return modes(value_at(content, "status.accessModes")) if content["spec"].get("volumeName") else ""


def class_name(content: Content) -> str:
    """Show the name of a StorageClass, and whether it is the default."""
    name: str = content["metadata"]["name"]
    is_default = value_at(content, "metadata.annotations", {}).get(_DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


# Of bindings


def role(reference: Mapping[str, str]) -> str:
    """Show which role is bound."""
    return f"{reference['kind']}/{reference['name']}"


def users(subjects: Items) -> str:
    """Show the users of a binding."""
    return _subjects(subjects, "User")


def groups(subjects: Items) -> str:
    """Show the groups of a binding."""
    return _subjects(subjects, "Group")


def accounts(subjects: Items) -> str:
    """Show the service accounts of a binding."""
    return _subjects(subjects, "ServiceAccount")


def _subjects(subjects: Items, kind: str) -> str:
    form = "{namespace}/{name}" if kind == "ServiceAccount" else "{name}"
    chosen = [each for each in subjects or () if each["kind"] == kind]
    return ", ".join(form.format(**{"namespace": "", **each}) for each in chosen)


# Of events


def involved(about: Mapping[str, str] | None) -> str:
    """Show which object an event is about."""
    about = about or {}
    kind, name = about.get("kind", "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def event_source(event: Content) -> str:
    """Show who reported an event."""
    source = event.get("source", {})
    component: str = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def event_count(event: Content) -> int:
    """Show how often it happened."""
    series = event.get("series")
    happened: int = series.get("count", 0) if series else event.get("count") or 1
    return happened


def first_seen(event: Content) -> str:
    """Show when it happened first."""
    return age(event.get("firstTimestamp") or event.get("eventTime"))


def last_seen(event: Content) -> str:
    """Show when it happened last."""
    if series := event.get("series"):
        return age(series.get("lastObservedTime"))
    return age(event.get("lastTimestamp") or event.get("firstTimestamp") or event.get("eventTime"))
