"""What Deployments and their like, Jobs, autoscalers and disruption budgets have to hold.

Source: kubernetes pkg/apis/{apps,autoscaling,batch,policy,storage}/validation.
"""

import re
from collections.abc import Iterator, Mapping

from distq.testing.apiserver import names
from distq.testing.apiserver.causes import Cause, Fields, Rule, misformed, required, unsupported, wrong

_PERCENT = re.compile("[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)


def _selecting(kind: str) -> Rule:
    """Return the rule that the template's labels are those that are selected, and its Pods run for ever."""

    def rule(spec: Fields, before: str) -> Iterator[Cause]:
        restarts = spec["template"]["spec"]["restartPolicy"]
        yield from unsupported(f"{before}template.spec.restartPolicy", restarts, ["Always"])
        labels, selector = spec["template"].get("metadata", {}).get("labels"), spec.get("selector")
        if selector == {}:
            yield wrong(f"{before}selector", selector, f"empty selector is invalid for {kind}")
            return
        wanted = (selector or {}).get("matchLabels", {})
        if selector is None or not wanted.items() <= (labels or {}).items():
            unmet = "`selector` does not match template `labels`"
            yield wrong(f"{before}template.metadata.labels", labels, unmet)

    return rule


def _deployment(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _selecting("deployment")(spec, before)
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= spec.get("minReadySeconds", 0):
        yield wrong(f"{before}progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _stateful_set(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _selecting("statefulset")(spec, before)
    if name := spec.get("serviceName"):
        yield from misformed(f"{before}serviceName", name, names.label)


def _schedule(spec: Fields, before: str) -> Iterator[Cause]:
    schedule = spec.get("schedule", "")
    parts = schedule.split()
    if schedule and not schedule.startswith(("@", "TZ=", "CRON_TZ=")) and len(parts) != 5:
        found = f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
        yield wrong(f"{before}schedule", schedule, found)


def _disruption_budget(spec: Fields, before: str) -> Iterator[Cause]:
    if spec.keys() >= {"minAvailable", "maxUnavailable"}:
        yield wrong(before.rstrip("."), spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field, 0)
        if isinstance(value, str) and not _PERCENT.fullmatch(value):
            yield wrong(f"{before}{field}", value, _PERCENT_RULE)
        elif isinstance(value, int) and value < 0:
            yield wrong(f"{before}{field}", value, "must be greater than or equal to 0")


def _autoscaler(spec: Fields, before: str) -> Iterator[Cause]:
    most, least = spec["maxReplicas"], spec["minReplicas"]
    if most < 1:
        yield wrong(f"{before}maxReplicas", most, "must be greater than 0")
    if most < least:
        yield wrong(f"{before}maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _scale_target(target: Fields, before: str) -> Iterator[Cause]:
    for field in ("kind", "name"):
        yield from misformed(f"{before}{field}", target.get(field, ""), names.path_segment)
    if target.get("apiVersion", "").count("/") != 1:
        yield wrong(f"{before}apiVersion", target.get("apiVersion", ""), "apiVersion must specify API group")


def _job_template(template: Fields, before: str) -> Iterator[Cause]:
    if template["spec"]["template"]["spec"].get("restartPolicy") == "Always":
        path = f"{before}spec.template.spec.restartPolicy"
        yield required(path, 'valid values: "OnFailure", "Never"')


def _storage_class(content: Fields, _: str) -> Iterator[Cause]:
    if provisioner := content.get("provisioner"):
        yield from misformed("provisioner", provisioner.lower(), names.qualified)
    yield from unsupported("reclaimPolicy", content["reclaimPolicy"], ["Delete", "Retain"])


RULES: Mapping[str, Rule] = {
    "apps.v1.DaemonSetSpec": _selecting("daemonset"),
    "apps.v1.DeploymentSpec": _deployment,
    "apps.v1.ReplicaSetSpec": _selecting("deployment"),
    "apps.v1.StatefulSetSpec": _stateful_set,
    "autoscaling.v2.CrossVersionObjectReference": _scale_target,
    "autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler,
    "batch.v1.CronJobSpec": _schedule,
    "batch.v1.Job": _job_template,
    "batch.v1.JobTemplateSpec": _job_template,
    "policy.v1.PodDisruptionBudgetSpec": _disruption_budget,
    "storage.v1.StorageClass": _storage_class,
}
