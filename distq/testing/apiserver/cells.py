"""What columns of built-in kinds show, of an object or of one value in it, which may be None.

Source: kubernetes pkg/printers/internalversion/printers.go, apimachinery pkg/util/duration.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from distq.client.conditions import get_condition
from distq.testing.apiserver.objects import is_true
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.store import Content, value_at

Container = dict[str, Any]
Items = Sequence[Mapping[str, Any]] | None

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ENDS_OF_JOBS = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_UNITS = (
    *((120, "s"), (600, "ms"), (3 * 3600, "m"), (8 * 3600, "hm"), (2 * 86400, "h"), (8 * 86400, "dh")),
    *((2 * 365 * 86400, "d"), (8 * 365 * 86400, "yd"), (math.inf, "y")),
)
"""The units in which durations below so many seconds are shown."""


def age(timestamp: str | None) -> str:
    """Return how long ago an RFC 3339 time was; ``<unknown>`` without one, ``<invalid>`` for other text."""
    if not timestamp:
        return "<unknown>"
    try:
        return human_duration((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds())
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """Return a duration in one or two units; the smaller one is left out where it is 0."""
    left = int(seconds)
    if left < 0:
        return "0s" if left == -1 else "<invalid>"
    units = next(units for limit, units in _UNITS if left < limit)
    shown = ""
    for unit in units:
        count, left = divmod(left, _SECONDS[unit])
        shown += f"{count}{unit}" if count or not shown else ""
    return shown


def _job_status(job: Content) -> str:
    conditions = value_at(job, "status.conditions", ())
    true = [each["type"] for each in conditions if each["status"] == "True"]
    if "deletionTimestamp" in job["metadata"]:
        true.append("Terminating")
    return next((each for each in _ENDS_OF_JOBS if each in true), "Running")


def _job_duration(job: Content) -> str:
    """Show the time from the start to the end, or to now."""
    start, end = value_at(job, "status.startTime"), value_at(job, "status.completionTime")
    if not start or not end:
        return age(start) if start else ""
    return human_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


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
    return ",".join(short for mode, short in _MODES.items() if mode in (given or ()))


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
    about = about or {}
    kind, name = about.get("kind", "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: Content) -> str:
    source = event.get("source", {})
    component: str = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


class _Seen(NamedTuple):
    """What the containers say: in one word, how many are ready, how often they began anew, and when last."""

    reason: str
    ready: int
    restarts: int
    last: str


def _pod_ready(pod: Content) -> str:
    total = len(pod["spec"].get("containers", ())) + len(_sidecars(pod))
    return f"{_containers(pod).ready}/{total}"


def _pod_status(pod: Content) -> str:
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in {"Succeeded", "Failed"}:
            return "Terminating"
    return _containers(pod).reason


def _pod_restarts(pod: Content) -> str:
    _, _, restarts, last = _containers(pod)
    return f"{restarts} ({age(last)} ago)" if restarts and last else str(restarts)


def _readiness_gates(pod: Content) -> str:
    gates = pod["spec"].get("readinessGates", ())
    passed = sum(is_true(pod, gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else "<none>"


def _containers(pod: Content) -> _Seen:
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    if (get_condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    first, initializing = _init_containers(pod, reason)
    if initializing and not is_true(pod, "Initialized"):
        return first
    sidecars = [each for each in status.get("initContainerStatuses", ()) if each["name"] in _sidecars(pod)]
    return _main_containers(pod, first, sidecars)


def _init_containers(pod: Content, reason: str) -> tuple[_Seen, bool]:
    """Return what the init containers say, and whether one of them still runs or has failed."""
    statuses = pod.get("status", {}).get("initContainerStatuses", [])
    ready = 0
    for index, each in enumerate(statuses):
        state, sidecar = each.get("state", {}), each["name"] in _sidecars(pod)
        ended, waiting = state.get("terminated"), state.get("waiting", {}).get("reason", "")
        if ended and not ended.get("exitCode"):
            continue
        if sidecar and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended:
            state = _end_of(ended)
        elif waiting and waiting != "PodInitializing":
            state = waiting
        else:
            state = f"{index}/{len(pod['spec'].get('initContainers', ()))}"
        return _Seen(f"Init:{state}", ready, *_restarts(statuses[: index + 1])), True
    return _Seen(reason, ready, *_restarts(statuses)), False


def _main_containers(pod: Content, first: _Seen, sidecars: list[Container]) -> _Seen:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    reason, failure, ready, running = first.reason, "", first.ready, False
    for each in reversed(statuses):
        state = each.get("state", {})
        if waiting := state.get("waiting", {}).get("reason"):
            reason = waiting
        elif ended := state.get("terminated"):
            reason = _end_of(ended)
            failure = reason if ended.get("exitCode") else failure
        elif each.get("ready") and "running" in state:
            running = True
            ready += 1
    if reason == "Completed":
        if running and is_true(pod, "Ready"):
            reason = "Running"
        elif failure or running:
            reason = failure or "NotReady"
    return _Seen(reason, ready, *_restarts([*sidecars, *statuses]))


def _end_of(ended: Container) -> str:
    signal, code = ended.get("signal"), ended.get("exitCode", 0)
    return ended.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{code}")


def _restarts(statuses: list[Container]) -> tuple[int, str]:
    """Return how often containers began anew, and when the last one had ended that did."""
    ends = [each.get("lastState", {}).get("terminated", {}).get("finishedAt") or "" for each in statuses]
    return sum(each.get("restartCount", 0) for each in statuses), max(ends, default="")


def _sidecars(pod: Content) -> set[str]:
    inits = pod["spec"].get("initContainers", ())
    return {each["name"] for each in inits if each.get("restartPolicy") == "Always"}


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
    "job_duration": _job_duration,
    "job_status": _job_status,
    "names": lambda containers: ",".join(each["name"] for each in containers or ()),
    "pod_ready": _pod_ready,
    "pod_restarts": _pod_restarts,
    "pod_status": _pod_status,
    "readiness_gates": _readiness_gates,
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
    "event_source": _event_source,
    "groups": lambda subjects: _subjects(subjects, "Group"),
    "involved": _involved,
    "role": lambda reference: f"{reference['kind']}/{reference['name']}",
    "users": lambda subjects: _subjects(subjects, "User"),
}
"""By their names in ``built_in_kinds.yaml``: from an object, or a value in it or None, to what is shown."""
