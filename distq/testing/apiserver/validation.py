"""What keeps an object of a built-in kind from being one, as far as people meet it.

Fields that have to be there, choices, ports, selectors; the real server looks
at far more. By the name of the type that has the field, as ``defaults``.
Source: kubernetes pkg/apis/*/validation.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from distq.testing.apiserver import core_rules
from distq.testing.apiserver.built_in_schemas import NAME, PRESERVES, Schema
from distq.testing.apiserver.objects import FINALIZER_RULE, QUALIFIED, QUALIFIED_RULE, STANDARD_FINALIZERS
from distq.testing.apiserver.schema_validation import Cause

Fields = dict[str, Any]

_WEBHOOK = {
    "admissionReviewVersions": "must specify one of v1, v1beta1",
    "name": "",
    "sideEffects": "must specify one of None, NoneOnDryRun",
}
_REQUIRED: Mapping[str, Mapping[str, str]] = {
    "admissionregistration.v1.MutatingWebhook": _WEBHOOK,
    "admissionregistration.v1.RuleWithOperations": {
        "apiGroups": "",
        "apiVersions": "",
        "operations": "",
        "resources": "",
    },
    "admissionregistration.v1.ServiceReference": {"name": "", "namespace": ""},
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "apps.v1.DaemonSetSpec": {"selector": ""},
    "apps.v1.DeploymentSpec": {"selector": ""},
    "apps.v1.ReplicaSetSpec": {"selector": ""},
    "apps.v1.StatefulSetSpec": {"selector": ""},
    "autoscaling.v2.CrossVersionObjectReference": {"kind": "", "name": ""},
    "batch.v1.CronJobSpec": {"schedule": ""},
    "core.v1.Container": {"image": "", "name": ""},
    "core.v1.ConfigMapVolumeSource": {"name": ""},
    "core.v1.ContainerPort": {"containerPort": ""},
    "core.v1.EnvVar": {"name": ""},
    "core.v1.HostPathVolumeSource": {"path": ""},
    "core.v1.PersistentVolumeClaimSpec": {"accessModes": "at least 1 access mode is required"},
    "core.v1.PersistentVolumeSpec": {"accessModes": "", "capacity": ""},
    "core.v1.PodSpec": {"containers": ""},
    "core.v1.SecretVolumeSource": {"secretName": ""},
    "core.v1.Volume": {"name": ""},
    "core.v1.VolumeMount": {"mountPath": "", "name": ""},
    "discovery.v1.Endpoint": {"addresses": "must contain at least 1 address"},
    "discovery.v1.EndpointSlice": {"addressType": ""},
    "networking.v1.IngressClassSpec": {"controller": ""},
    "networking.v1.IngressServiceBackend": {"name": ""},
    "rbac.v1.PolicyRule": {"verbs": "verbs must contain at least one value"},
    "rbac.v1.RoleRef": {"name": ""},
    "rbac.v1.Subject": {"name": ""},
    "storage.v1.StorageClass": {"provisioner": ""},
}
_PORTS: Mapping[str, str] = {
    "core.v1.ContainerPort": "containerPort",
    "core.v1.EndpointPort": "port",
    "core.v1.HTTPGetAction": "port",
    "core.v1.ServicePort": "port targetPort",
    "networking.v1.NetworkPolicyPort": "port",
    "networking.v1.ServiceBackendPort": "number",
}
_NEVER_NEGATIVE: Mapping[str, str] = {
    "apps.v1.DaemonSetSpec": "minReadySeconds revisionHistoryLimit",
    "apps.v1.DaemonSetStatus": "collisionCount currentNumberScheduled desiredNumberScheduled numberAvailable "
    "numberMisscheduled numberReady numberUnavailable observedGeneration updatedNumberScheduled",
    "apps.v1.DeploymentSpec": "minReadySeconds progressDeadlineSeconds replicas revisionHistoryLimit",
    "apps.v1.DeploymentStatus": "availableReplicas collisionCount observedGeneration readyReplicas replicas "
    "terminatingReplicas unavailableReplicas updatedReplicas",
    "apps.v1.ReplicaSetSpec": "minReadySeconds replicas",
    "apps.v1.ReplicaSetStatus": "availableReplicas fullyLabeledReplicas observedGeneration readyReplicas "
    "replicas terminatingReplicas",
    "apps.v1.StatefulSetSpec": "minReadySeconds replicas",
    "apps.v1.StatefulSetStatus": "availableReplicas collisionCount currentReplicas observedGeneration "
    "readyReplicas replicas updatedReplicas",
    "batch.v1.CronJobSpec": "failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit",
    "batch.v1.JobSpec": "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completions "
    "maxFailedIndexes parallelism ttlSecondsAfterFinished",
    "batch.v1.JobStatus": "active failed ready succeeded terminating",
    "core.v1.Probe": "failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds",
    "policy.v1.PodDisruptionBudgetStatus": "currentHealthy desiredHealthy disruptionsAllowed expectedPods",
}
_PORT_RULE = "must be between 1 and 65535, inclusive"
_ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
_SUBJECTS = ["ServiceAccount", "User", "Group"]


def built_in_violations(schema: Schema, value: Any, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with an object; its status is not looked at."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from built_in_violations(schema.get("items") or {}, each, f"{path}[{index}]")
    elif isinstance(value, dict) and not schema.get(PRESERVES):
        yield from _of_fields(schema, value, path)
    else:
        yield from _choice(schema.get("enum"), value, path)


def _of_fields(schema: Schema, value: Fields, path: str) -> Iterator[Cause]:
    name, before = schema.get(NAME, ""), f"{path}." if path else ""
    missing = {field for field in _REQUIRED.get(name, {}) if not value.get(field)}
    for field in sorted(missing):
        detail = _REQUIRED[name][field]
        yield "FieldValueRequired", f"{before}{field}", f"Required value{': ' if detail else ''}{detail}"
    for field in _PORTS.get(name, "").split():
        port = value.get(field, 0 if name == "core.v1.HTTPGetAction" else None)
        if isinstance(port, int) and not 0 < port < 65536 and field not in missing:
            yield "FieldValueInvalid", f"{before}{field}", f"Invalid value: {port}: {_PORT_RULE}"
    yield from negative_numbers(name, value, before)
    if name in _RULES:
        yield from _RULES[name](value, before)
    if name == "apps.v1.StatefulSetSpec":
        value = _with_claims(value)
    additional = schema.get("additionalProperties")
    for field, each in value.items():
        inner = schema.get("properties", {}).get(field, additional)
        if field not in missing and (before or field not in {"metadata", "status"}):
            yield from built_in_violations(inner or {}, each, f"{before}{field}")


def negative_numbers(name: str, value: Fields, before: str) -> Iterator[Cause]:
    """Yield the fields of a type that are below 0 and may not be; ``before`` is the path to them."""
    for field in _NEVER_NEGATIVE.get(name, "").split():
        if value.get(field, 0) < 0:
            message = f"Invalid value: {value[field]}: must be greater than or equal to 0"
            yield "FieldValueInvalid", f"{before}{field}", message


def _choice(supported: list[Any] | None, value: Any, path: str) -> Iterator[Cause]:
    if supported is not None and value not in supported:
        listed = ", ".join(f'"{each}"' for each in supported)
        yield "FieldValueNotSupported", path, f'Unsupported value: "{value}": supported values: {listed}'


def _access_modes(spec: Fields, before: str) -> Iterator[Cause]:
    for mode in spec.get("accessModes", ()):
        yield from _choice(_ACCESS_MODES, mode, f"{before}accessModes")


def _namespace(spec: Fields, before: str) -> Iterator[Cause]:
    for index, finalizer in enumerate(spec.get("finalizers", ())):
        rules = []
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            rules.append(FINALIZER_RULE)
        if not QUALIFIED.match(finalizer):
            rules.append(QUALIFIED_RULE)
        for rule in rules:
            yield "FieldValueInvalid", f"{before}finalizers[{index}]", f'Invalid value: "{finalizer}": {rule}'


def _claim(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _access_modes(spec, before)
    if "storage" not in spec["resources"].get("requests", {}):
        yield "FieldValueRequired", f"{before}resources[storage]", "Required value"


def _mounts(spec: Fields, before: str) -> Iterator[Cause]:
    volumes = {each.get("name") for each in spec.get("volumes", ())} - {""}
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            for place, mount in enumerate(container.get("volumeMounts", ())):
                if mount["name"] not in volumes:
                    path = f"{before}{kind}[{index}].volumeMounts[{place}].name"
                    yield "FieldValueNotFound", path, f'Not found: "{mount["name"]}"'


def _with_claims(spec: Fields) -> Fields:
    """Return a StatefulSet's spec with its claims among the volumes that its Pods will have."""
    template, claims = spec["template"], spec.get("volumeClaimTemplates") or ()
    names = [claim.get("metadata", {}).get("name") for claim in claims]
    volumes = [*template["spec"].get("volumes", ()), *({"name": name} for name in names if name)]
    return {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}


def _selecting(kind: str) -> Callable[[Fields, str], Iterator[Cause]]:
    """Return the rule that the template's labels are those that are selected."""

    def rule(spec: Fields, before: str) -> Iterator[Cause]:
        labels, selector = spec["template"].get("metadata", {}).get("labels"), spec.get("selector")
        if selector == {}:
            message = f"Invalid value: {{}}: empty selector is invalid for {kind}"
            yield "FieldValueInvalid", f"{before}selector", message
            return
        wanted = (selector or {}).get("matchLabels", {})
        if selector is None or not wanted.items() <= (labels or {}).items():
            found = msgspec.json.encode(labels, order="sorted").decode()
            message = f"Invalid value: {found}: `selector` does not match template `labels`"
            yield "FieldValueInvalid", f"{before}template.metadata.labels", message

    return rule


def _deployment(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _selecting("deployment")(spec, before)
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= spec.get("minReadySeconds", 0):
        message = f"Invalid value: {deadline}: must be greater than minReadySeconds"
        yield "FieldValueInvalid", f"{before}progressDeadlineSeconds", message


def _schedule(spec: Fields, before: str) -> Iterator[Cause]:
    schedule = spec.get("schedule", "")
    parts = schedule.split()
    if schedule and not schedule.startswith(("@", "TZ=", "CRON_TZ=")) and len(parts) != 5:
        found = f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
        yield "FieldValueInvalid", f"{before}schedule", f'Invalid value: "{schedule}": {found}'


def _role_reference(reference: Fields, before: str) -> Iterator[Cause]:
    yield from _choice(["rbac.authorization.k8s.io"], reference["apiGroup"], f"{before}apiGroup")


def _disruption_budget(spec: Fields, before: str) -> Iterator[Cause]:
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field, 0)
        if isinstance(value, int) and value < 0:
            message = f"Invalid value: {value}: must be greater than or equal to 0"
            yield "FieldValueInvalid", f"{before}{field}", message


def _policy_rule(rule: Fields, before: str) -> Iterator[Cause]:
    if rule.get("nonResourceURLs"):
        return
    for field, what in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            message = f"Required value: resource rules must supply at least one {what}"
            yield "FieldValueRequired", f"{before}{field}", message


def _subject(subject: Fields, before: str) -> Iterator[Cause]:
    yield from _choice(_SUBJECTS, subject["kind"], f"{before}kind")


def _autoscaler(spec: Fields, before: str) -> Iterator[Cause]:
    most, least = spec["maxReplicas"], spec["minReplicas"]
    if most < 1:
        yield "FieldValueInvalid", f"{before}maxReplicas", f"Invalid value: {most}: must be greater than 0"
    if most < least:
        message = f"Invalid value: {most}: must be greater than or equal to `minReplicas`"
        yield "FieldValueInvalid", f"{before}maxReplicas", message


def _job_template(template: Fields, before: str) -> Iterator[Cause]:
    policy = template["spec"]["template"]["spec"].get("restartPolicy")
    path = f"{before}spec.template.spec.restartPolicy"
    if policy == "Always":
        yield "FieldValueRequired", path, 'Required value: valid values: "OnFailure", "Never"'


def _job(job: Fields, before: str) -> Iterator[Cause]:
    return _job_template(job, before)


def _probe(probe: Fields, before: str) -> Iterator[Cause]:
    if not probe.keys() & {"exec", "grpc", "httpGet", "tcpSocket"}:
        path = before.rstrip(".")
        yield "FieldValueRequired", path, "Required value: must specify a handler type"


def _ingress(spec: Fields, before: str) -> Iterator[Cause]:
    if "defaultBackend" not in spec and "rules" not in spec:
        message = "Invalid value: null: either `defaultBackend` or `rules` must be specified"
        yield "FieldValueInvalid", before.rstrip("."), message


_RULES: Mapping[str, Callable[[Fields, str], Iterator[Cause]]] = {
    "apps.v1.DaemonSetSpec": _selecting("daemonset"),
    "apps.v1.DeploymentSpec": _deployment,
    "apps.v1.ReplicaSetSpec": _selecting("deployment"),
    "apps.v1.StatefulSetSpec": _selecting("statefulset"),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler,
    "batch.v1.CronJobSpec": _schedule,
    "batch.v1.Job": _job,
    "batch.v1.JobTemplateSpec": _job_template,
    "core.v1.Event": core_rules.event("involvedObject"),
    "core.v1.NamespaceSpec": _namespace,
    "core.v1.PersistentVolumeClaimSpec": _claim,
    "core.v1.PersistentVolumeSpec": _access_modes,
    "core.v1.PodSpec": _mounts,
    "core.v1.Probe": _probe,
    "core.v1.Secret": core_rules.secret,
    "core.v1.ServiceSpec": core_rules.service,
    "events.v1.Event": core_rules.event("regarding"),
    "networking.v1.IngressSpec": _ingress,
    "rbac.v1.PolicyRule": _policy_rule,
    "policy.v1.PodDisruptionBudgetSpec": _disruption_budget,
    "rbac.v1.RoleRef": _role_reference,
    "rbac.v1.Subject": _subject,
}
