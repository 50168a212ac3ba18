"""The columns of kinds that run Pods.

Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from collections.abc import Mapping

from distq.testing.apiserver.cells import (
    Cells,
    Columns,
    age_of,
    columns,
    container_cells,
    labels_text,
    name_of,
    selector_text,
    value_at,
)
from distq.testing.apiserver.durations import age, between
from distq.testing.apiserver.pod_columns import pod_cells
from distq.testing.apiserver.store import Content


def _deployment(content: Content) -> Cells:
    ready = f"{value_at(content, 'status.readyReplicas', 0)}/{value_at(content, 'spec.replicas', 0)}"
    counts = (value_at(content, f"status.{name}", 0) for name in ("updatedReplicas", "availableReplicas"))
    spec = content["spec"]
    return [
        name_of(content),
        ready,
        *counts,
        age_of(content),
        *container_cells(spec["template"]),
        selector_text(spec["selector"]),
    ]


def _replica_set(content: Content) -> Cells:
    counts = [
        value_at(content, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")
    ]
    spec = content["spec"]
    return [
        name_of(content),
        *counts,
        age_of(content),
        *container_cells(spec["template"]),
        selector_text(spec["selector"]),
    ]


def _stateful_set(content: Content) -> Cells:
    ready = f"{value_at(content, 'status.readyReplicas', 0)}/{value_at(content, 'spec.replicas', 0)}"
    return [name_of(content), ready, age_of(content), *container_cells(content["spec"]["template"])]


_SCHEDULED = (
    *("desiredNumberScheduled", "currentNumberScheduled", "numberReady"),
    *("updatedNumberScheduled", "numberAvailable"),
)


def _daemon_set(content: Content) -> Cells:
    spec = content["spec"]
    return [
        name_of(content),
        *(value_at(content, f"status.{name}", 0) for name in _SCHEDULED),
        labels_text(value_at(spec, "template.spec.nodeSelector")),
        age_of(content),
        *container_cells(spec["template"]),
        selector_text(spec["selector"]),
    ]


def _job(content: Content) -> Cells:
    spec, status = content["spec"], content.get("status", {})
    done, parallelism = status.get("succeeded", 0), spec.get("parallelism", 0)
    completions = f"{done}/{spec.get('completions', 1)}"
    if "completions" not in spec and parallelism > 1:
        completions = f"{done}/1 of {parallelism}"
    return [
        name_of(content),
        _job_status(content),
        completions,
        between(status.get("startTime"), status.get("completionTime")),
        age_of(content),
        *container_cells(spec["template"]),
        selector_text(spec.get("selector")),
    ]


def _job_status(content: Content) -> str:
    conditions = value_at(content, "status.conditions", [])
    true = [each["type"] for each in conditions if each["status"] == "True"]
    if "deletionTimestamp" in content["metadata"]:
        true.append("Terminating")
    ordered = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((each for each in ordered if each in true), "Running")


def _cron_job(content: Content) -> Cells:
    spec, last = content["spec"], value_at(content, "status.lastScheduleTime")
    job = spec["jobTemplate"]["spec"]
    return [
        name_of(content),
        spec["schedule"],
        spec.get("timeZone", "<none>"),
        str(spec.get("suspend", "<unset>")),
        len(value_at(content, "status.active", ())),
        age(last) if last else "<none>",
        age_of(content),
        *container_cells(job["template"]),
        selector_text(job.get("selector")),
    ]


_WORKLOAD = "|Age|*Containers|*Images"
WORKLOADS: Mapping[str, Columns] = {
    "CronJob": columns(
        "Name|Schedule|Timezone|Suspend?|Active#|Last Schedule" + _WORKLOAD + "|*Selector", _cron_job
    ),
    "DaemonSet": columns(
        "Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector" + _WORKLOAD + "|*Selector",
        _daemon_set,
    ),
    "Deployment": columns("Name|Ready|Up-to-date|Available" + _WORKLOAD + "|*Selector", _deployment),
    "Job": columns("Name|Status|Completions|Duration" + _WORKLOAD + "|*Selector", _job),
    "Pod": columns("Name|Ready|Status|Restarts|Age|*IP|*Node|*Nominated Node|*Readiness Gates", pod_cells),
    "ReplicaSet": columns("Name|Desired#|Current#|Ready#" + _WORKLOAD + "|*Selector", _replica_set),
    "StatefulSet": columns("Name|Ready" + _WORKLOAD, _stateful_set),
}
