"""What keeps an object of a built-in kind from being one, as far as people meet it.

Fields that have to be there, choices, ports, selectors; the real server looks
at far more. By the name of the type that has the field, as ``defaults``.
Source: kubernetes pkg/apis/*/validation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver import access_rules, core_rules, network_rules, pod_rules, workload_rules
from distq.testing.apiserver.built_in_schemas import NAME, PRESERVES, Schema
from distq.testing.apiserver.causes import Cause, Fields, Rule, required, unsupported, wrong

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
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "apps.v1.DaemonSetSpec": {"selector": ""},
    "apps.v1.DeploymentSpec": {"selector": ""},
    "apps.v1.ReplicaSetSpec": {"selector": ""},
    "apps.v1.StatefulSetSpec": {"selector": ""},
    "core.v1.Container": {"image": ""},
    "core.v1.ConfigMapVolumeSource": {"name": ""},
    "core.v1.ContainerPort": {"containerPort": ""},
    "core.v1.ExecAction": {"command": ""},
    "core.v1.PersistentVolumeClaimSpec": {"accessModes": "at least 1 access mode is required"},
    "core.v1.PersistentVolumeSpec": {"accessModes": "", "capacity": ""},
    "core.v1.PodSpec": {"containers": ""},
    "core.v1.SecretVolumeSource": {"secretName": ""},
    "core.v1.TopologySelectorLabelRequirement": {"values": ""},
    "discovery.v1.Endpoint": {"addresses": "must contain at least 1 address"},
    "discovery.v1.EndpointSlice": {"addressType": ""},
    "networking.v1.IngressClassSpec": {"controller": ""},
    "rbac.v1.AggregationRule": {
        "clusterRoleSelectors": "at least one clusterRoleSelector required if aggregationRule is non-nil"
    },
    "rbac.v1.PolicyRule": {"verbs": "verbs must contain at least one value"},
}
"""What has to be there beside the texts that a schema requires, and what is said where it is not."""
_MAY_BE_EMPTY: Mapping[str, str] = {"core.v1.HTTPHeader": "value", "core.v1.Sysctl": "value"}
"""Texts that a schema requires, and that may be empty all the same."""
_PORTS: Mapping[str, str] = {
    "admissionregistration.v1.ServiceReference": "port",
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


def built_in_violations(schema: Schema, value: Any, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with an object; its status is not looked at."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from built_in_violations(schema.get("items") or {}, each, f"{path}[{index}]")
    elif isinstance(value, dict) and not schema.get(PRESERVES):
        yield from _of_fields(schema, value, path)
    else:
        yield from unsupported(path, value, schema.get("enum", (value,)))


def _of_fields(schema: Schema, value: Fields, path: str) -> Iterator[Cause]:
    name, before = schema.get(NAME, ""), f"{path}." if path else ""
    needed = {**dict.fromkeys(_required_texts(schema), ""), **_REQUIRED.get(name, {})}
    missing = {field for field in needed if not value.get(field)}
    for field in sorted(missing):
        yield required(f"{before}{field}", needed[field])
    for field in _PORTS.get(name, "").split():
        port = value.get(field, 0 if name == "core.v1.HTTPGetAction" else None)
        if isinstance(port, int) and not 0 < port < 65536 and field not in missing:
            yield wrong(f"{before}{field}", port, _PORT_RULE)
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


def _required_texts(schema: Schema) -> Iterator[str]:
    """Yield the texts that the schema requires, choices apart; the server takes no empty ones."""
    may_be_empty = _MAY_BE_EMPTY.get(schema.get(NAME, ""), "").split()
    for field in schema.get("required", ()):
        inner = schema["properties"][field]
        if inner.get("type") == "string" and "enum" not in inner and field not in may_be_empty:
            yield field


def negative_numbers(name: str, value: Fields, before: str) -> Iterator[Cause]:
    """Yield the fields of a type that are below 0 and may not be; ``before`` is the path to them."""
    for field in _NEVER_NEGATIVE.get(name, "").split():
        if value.get(field, 0) < 0:
            yield wrong(f"{before}{field}", value[field], "must be greater than or equal to 0")


def _with_claims(spec: Fields) -> Fields:
    """Return a StatefulSet's spec with its claims among the volumes that its Pods will have."""
    template, claims = spec["template"], spec.get("volumeClaimTemplates") or ()
    claimed = {claim.get("metadata", {}).get("name"): None for claim in claims}
    others = [each for each in template["spec"].get("volumes", ()) if each.get("name") not in claimed]
    volumes = [*others, *({"name": name} for name in claimed if name)]
    return {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}


_RULES: Mapping[str, Rule] = {
    **access_rules.RULES,
    **core_rules.RULES,
    **network_rules.RULES,
    **pod_rules.RULES,
    **workload_rules.RULES,
}
