"""What Pods, Deployments and their like, Jobs, autoscalers, budgets, volumes and limits have to hold.

Source: kubernetes pkg/apis/{apps,autoscaling,batch,core,policy,storage}/validation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver import names, quantities
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    forbidden,
    misformed,
    repeated,
    required,
    surplus,
    unsupported,
    wrong,
)
from distq.testing.apiserver.resources import names_in, rules_of

_LIMITED = {"Container", "PersistentVolumeClaim", "Pod"}
_AMOUNTS_OF_LIMITS = {"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"}
_SOURCES_OF_VARIABLES = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def _pod(spec: Fields, before: str) -> Iterator[Cause]:
    containers = [*_names(spec, before, "initContainers"), *_names(spec, before, "containers")]
    yield from repeated(containers)
    for path, name in containers:
        yield from misformed(path, name, names.label) if name else ()
    volumes = {name for _, name in _names(spec, before, "volumes") if not names.label(name)}
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield from _mounts(container, f"{before}{kind}[{index}].volumeMounts", volumes)


def _names(spec: Fields, before: str, field: str) -> list[tuple[str, str]]:
    items = enumerate(spec.get(field, ()))
    return [(f"{before}{field}[{index}].name", each.get("name", "")) for index, each in items]


def _mounts(container: Fields, path: str, volumes: set[str]) -> Iterator[Cause]:
    """Yield mounts of volumes that there are not, and places where there is one already."""
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount["name"] not in volumes:
            yield "FieldValueNotFound", f"{path}[{index}].name", f'Not found: "{mount["name"]}"'
        if (place := mount["mountPath"]) and place in places:
            yield wrong(f"{path}[{index}].mountPath", place, "must be unique")
        places.add(place)


def _volume(volume: Fields, before: str) -> Iterator[Cause]:
    yield from surplus(before, volume.keys() - {"name"}, "volume type")


def _variable(variable: Fields, before: str) -> Iterator[Cause]:
    name = variable.get("name", "")
    if "=" in name or not (name.isascii() and name.isprintable()):
        rule = "must consist only of printable ASCII characters other than '='"
        yield wrong(f"{before}name", name, f"a valid environment variable name {rule}")
    if variable.get("value") and "valueFrom" in variable:
        yield wrong(f"{before}valueFrom", "", "may not be specified when `value` is not empty")


def _source_of_variable(source: Fields, before: str) -> Iterator[Cause]:
    if not source:
        yield wrong(before.rstrip("."), "", f"must specify one of: {_SOURCES_OF_VARIABLES}")
    elif len(source) > 1:
        yield wrong(before.rstrip("."), "", "may not have more than one field specified at a time")


def _variables_from(source: Fields, before: str) -> Iterator[Cause]:
    path, chosen = before.rpartition("[")[0], source.keys() & {"configMapRef", "secretRef"}
    if not chosen:
        yield wrong(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(chosen) > 1:
        yield wrong(path, "", "may not have more than one field specified at a time")


def _resources(resources: Fields, before: str) -> Iterator[Cause]:
    limits: Mapping[str, Any] = resources.get("limits", {})
    for field in ("limits", "requests"):
        for name, quantity in resources.get(field, {}).items():
            path, amount = f"{before}{field}[{name}]", quantities.amount(quantity)
            yield from misformed(path, name, names.container_resource)
            if amount < 0:
                yield wrong(path, quantity, "must be greater than or equal to 0")
            if amount > quantities.amount(limits.get(name, quantity)):
                yield wrong(path, quantity, f"must be less than or equal to {name} limit of {limits[name]}")


def _probe(probe: Fields, before: str) -> Iterator[Cause]:
    handlers = probe.keys() & {"exec", "grpc", "httpGet", "tcpSocket"}
    if not handlers:
        yield required(before.rstrip("."), "must specify a handler type")
    yield from surplus(before, handlers, "handler type")


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
    if spec["strategy"].get("type") == "Recreate" and "rollingUpdate" in spec["strategy"]:
        rule = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden(f"{before}strategy.rollingUpdate", rule)


def _stateful_set(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _selecting("statefulset")(spec, before)
    if name := spec.get("serviceName"):
        yield from misformed(f"{before}serviceName", name, names.label)
    strategy = spec["updateStrategy"]
    if strategy.get("type") == "OnDelete" and "rollingUpdate" in strategy:
        rule = "only allowed for updateStrategy 'RollingUpdate'"
        yield wrong(f"{before}updateStrategy.rollingUpdate", strategy["rollingUpdate"], rule)


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
        if isinstance(value, str):
            yield from misformed(f"{before}{field}", value, names.percent)
        elif value < 0:
            yield wrong(f"{before}{field}", value, "must be greater than or equal to 0")


def _autoscaler(spec: Fields, before: str) -> Iterator[Cause]:
    most, least = spec["maxReplicas"], spec["minReplicas"]
    if most < least:
        yield wrong(f"{before}maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _scale_target(target: Fields, before: str) -> Iterator[Cause]:
    if target.get("apiVersion", "").count("/") != 1:
        yield wrong(f"{before}apiVersion", target.get("apiVersion", ""), "apiVersion must specify API group")


def _job_template(template: Fields, before: str) -> Iterator[Cause]:
    if template["spec"]["template"]["spec"].get("restartPolicy") == "Always":
        path = f"{before}spec.template.spec.restartPolicy"
        yield required(path, 'valid values: "OnFailure", "Never"')
    if template["spec"].get("completionMode") == "Indexed" and "completions" not in template["spec"]:
        yield required(f"{before}spec.completions", "when completion mode is Indexed")


def _storage_class(content: Fields, _: str) -> Iterator[Cause]:
    if provisioner := content.get("provisioner"):
        yield from misformed("provisioner", provisioner.lower(), names.qualified)
    yield from unsupported("reclaimPolicy", content["reclaimPolicy"], ["Delete", "Retain"])


def _persistent_volume(spec: Fields, before: str) -> Iterator[Cause]:
    sources = spec.keys() - names_in(rules_of("core.v1.PersistentVolumeSpec"), "not_a_source")
    if not sources:
        yield required(before.rstrip("."), "must specify a volume type")
    yield from surplus(before, sources - {"flexVolume"}, "volume type")  # which the server does not count
    yield from _storage(spec.get("capacity", {}), f"{before}capacity")


def _claim(spec: Fields, before: str) -> Iterator[Cause]:
    requests = spec["resources"].get("requests", {})
    if "storage" not in requests:
        yield required(f"{before}resources[storage]")
    yield from _storage(requests, f"{before}resources")


def _storage(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    if quantities.amount(amounts.get("storage", "1")) <= 0:
        yield wrong(f"{path}[storage]", amounts["storage"], "must be greater than zero")


def _limit_range(spec: Fields, before: str) -> Iterator[Cause]:
    limits = spec.get("limits") or ()
    for index, each in enumerate(limits):
        yield from misformed(f"{before}limits[{index}].type", each["type"], _type_of_limit)
        form = names.container_resource if each["type"] in {"Container", "Pod"} else names.resource
        for field in _AMOUNTS_OF_LIMITS & each.keys():
            for name in each[field]:
                yield from misformed(f"{before}limits[{index}].{field}[{name}]", name, form)


def _type_of_limit(name: str) -> list[str]:
    wrongs = names.qualified(name)
    if not wrongs and "/" not in name and name not in _LIMITED:
        return ["must be a standard limit type or fully qualified"]
    return wrongs


def _quota(spec: Fields, before: str) -> Iterator[Cause]:
    for name, quantity in spec.get("hard", {}).items():
        yield from misformed(f"{before}hard[{name}]", name, names.quota_resource)
        if quantities.amount(quantity) < 0:
            yield wrong(f"{before}hard[{name}]", quantity, "must be greater than or equal to 0")
        if (name in names.COUNTED or name.startswith("count/")) and quantities.amount(quantity) % 1:
            yield wrong(f"{before}hard[{name}]", quantity, "must be an integer")


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
    "core.v1.EnvFromSource": _variables_from,
    "core.v1.EnvVar": _variable,
    "core.v1.EnvVarSource": _source_of_variable,
    "core.v1.LimitRangeSpec": _limit_range,
    "core.v1.PersistentVolumeClaimSpec": _claim,
    "core.v1.PersistentVolumeSpec": _persistent_volume,
    "core.v1.PodSpec": _pod,
    "core.v1.Probe": _probe,
    "core.v1.ResourceQuotaSpec": _quota,
    "core.v1.ResourceRequirements": _resources,
    "core.v1.Volume": _volume,
    "policy.v1.PodDisruptionBudgetSpec": _disruption_budget,
    "storage.v1.StorageClass": _storage_class,
}
