"""What keeps an object, a status or an update of a built-in kind from being one, as far as people meet it.

Fields that have to be there, choices, ports, selectors, counts that contradict each other; the real server
looks at far more. Where that quotes a difference, or a value by Go's names, the message has the JSON instead.
Source: kubernetes pkg/apis/*/validation, pkg/registry/batch/job/strategy.go.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from distq.testing.apiserver import core_rules, names, workload_rules
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    forbidden,
    misformed,
    repeated,
    required,
    unsupported,
    wrong,
)
from distq.testing.apiserver.resources import (
    NAME,
    PRESERVES,
    Rules,
    Schema,
    ServedResource,
    definition,
    names_in,
    pointers,
    rules_of,
)
from distq.testing.apiserver.store import Content, value_at

_OPPOSED = list(product(("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")))
"""Conditions of which a Job has one."""
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
    rules = rules_of(name)
    needed = _needed(name) if name else {}
    missing = {field for field in needed if not value.get(field)}
    for field in sorted(missing):
        yield required(f"{before}{field}", needed[field])
    for field in names_in(rules, "ports"):
        port = value.get(field, 0 if name == "core.v1.HTTPGetAction" else None)
        if isinstance(port, int) and not 0 < port < 65536 and field not in missing:
            yield wrong(f"{before}{field}", port, _PORT_RULE)
    if rules:
        yield from too_low_numbers(rules, value, before)
        yield from _choices_and_forms(rules, value, before)
    if name in _RULES:
        yield from _RULES[name](value, before)
    if name == "apps.v1.StatefulSetSpec":
        value = _with_claims(value)
    additional = schema.get("additionalProperties")
    for field, each in value.items():
        inner = schema.get("properties", {}).get(field, additional)
        if field not in missing and (before or field not in {"metadata", "status"}):
            yield from built_in_violations(inner or {}, each, f"{before}{field}")


@cache
def _needed(name: str) -> Mapping[str, str]:
    """Return the fields of a type that may not be empty, each with the server's words: texts and others."""
    schema, rules = definition(name), rules_of(name)
    fields = {field: schema["properties"][field] for field in schema.get("required", ())}
    texts = [field for field, each in fields.items() if each.get("type") == "string" and "enum" not in each]
    words = dict.fromkeys(texts) | rules.get("required", {})
    return {field: words[field] or "" for field in words if field not in names_in(rules, "may_be_empty")}


def _choices_and_forms(rules: Rules, value: Fields, before: str) -> Iterator[Cause]:
    for path, choices in rules.get("choices", {}).items():
        given = value_at(value, path, [])
        for each in given if isinstance(given, list) else [given]:
            yield from unsupported(f"{before}{path}", each, choices.split())
    for field, name in rules.get("forms", {}).items():
        given, form = value.get(field), getattr(names, name)
        if isinstance(given, str) and given:
            yield from misformed(f"{before}{field}", given, form)
        elif isinstance(given, list):
            for index, each in enumerate(given):
                yield from misformed(f"{before}{field}[{index}]", each, form)
    for field, key in rules.get("unique", {}).items():
        items = enumerate(value.get(field) or ())
        yield from repeated((f"{before}{field}[{i}].{key}", each.get(key, "")) for i, each in items)


def too_low_numbers(rules: Rules, value: Fields, before: str) -> Iterator[Cause]:
    """Yield the fields of a type that are lower than they may be; ``before`` is the path to them."""
    for field in names_in(rules, "positive"):
        if value.get(field, 1) < 1:
            yield wrong(f"{before}{field}", value[field], "must be greater than 0")
    for field in names_in(rules, "never_negative"):
        if value.get(field, 0) < 0:
            yield wrong(f"{before}{field}", value[field], "must be greater than or equal to 0")


def _with_claims(spec: Fields) -> Fields:
    """Return a StatefulSet's spec with its claims among the volumes that its Pods will have."""
    template, claims = spec["template"], spec.get("volumeClaimTemplates") or ()
    claimed = {claim.get("metadata", {}).get("name"): None for claim in claims}
    others = [each for each in template["spec"].get("volumes", ()) if each.get("name") not in claimed]
    volumes = [*others, *({"name": name} for name in claimed if name)]
    return {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}


def status_violations(schema: Schema, new: Fields, old: Fields) -> Iterator[Cause]:
    """Yield what is wrong with a status that was another one before."""
    name = schema.get(NAME, "")
    rules = rules_of(name)
    yield from too_low_numbers(rules, new, "status.")
    if within := names_in(rules, "within_replicas"):
        yield from _counts(name, within, new)
    for field, rule in rules.get("never_fewer", {}).items():
        is_unset = field in pointers(name) and field not in old
        if not is_unset and (count := new.get(field, 0)) < old.get(field, 0):
            yield wrong(f"status.{field}", count, rule)
    if name == "batch.v1.JobStatus":
        yield from _job(new, old)


def _counts(name: str, within: Sequence[str], status: Fields) -> Iterator[Cause]:
    for field in within:
        if (count := status.get(field, 0)) > status.get("replicas", 0):
            yield wrong(f"status.{field}", count, "cannot be greater than status.replicas")
    if (available := status.get("availableReplicas", 0)) > status.get("readyReplicas", 0):
        bound = "status.readyReplicas" if name == "apps.v1.StatefulSetStatus" else "readyReplicas"
        yield wrong("status.availableReplicas", available, f"cannot be greater than {bound}")


def _job(new: Fields, old: Fields) -> Iterator[Cause]:
    """Yield what an end lacks, or contradicts; what was so before is not looked at again."""
    are, were = _true_conditions(new), _true_conditions(old)
    finished = bool(are & {"Complete", "Failed"})
    ended = finished != bool(were & {"Complete", "Failed"})
    completes = ("Complete" in are) != ("Complete" in were)

    def changes(field: str) -> bool:
        return new.get(field) != old.get(field)

    if "Complete" in are and "completionTime" not in new and (completes or changes("completionTime")):
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    if finished and "startTime" not in new and (ended or changes("startTime")):
        yield required("status.startTime", "startTime is required for finished job")
    if "Complete" not in are and "completionTime" in new and (completes or changes("completionTime")):
        rule = "cannot set completionTime when there is no Complete=True condition"
        yield wrong("status.completionTime", new["completionTime"], rule)
    for one, other in _OPPOSED:
        if {one, other} <= are and not {one, other} <= were:
            yield _contradiction(f"cannot set {one}=True and {other}=true conditions")
    for condition, needed in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if condition in are and needed not in are and (condition not in were):
            yield _contradiction(f"cannot set {condition}=True condition without the {needed}=true condition")
    for field in ("active", "terminating"):
        if finished and new.get(field, 0) > 0 and (ended or changes(field)):
            yield wrong(f"status.{field}", new[field], f"{field}>0 is invalid for finished job")
    if "ready" in new and new["ready"] > new.get("active", 0) and (changes("ready") or changes("active")):
        yield wrong("status.ready", new["ready"], "cannot set more ready pods than active")


def _true_conditions(status: Fields) -> set[str]:
    return {each.get("type", "") for each in status.get("conditions", ()) if each.get("status") == "True"}


def _contradiction(rule: str) -> Cause:
    return "FieldValueInvalid", "status.conditions", f"Invalid value: {rule}"


def changes_of_immutable(resource: ServedResource, new: Content, old: Content) -> Iterator[Cause]:
    """Yield what an update changes that stays as it was created."""
    rules = resource.rules
    for path in names_in(rules, "fixed"):
        value, before = value_at(new, path), value_at(old, path)
        if value != before:
            yield wrong(path, value, "field is immutable")
    for path, message in rules.get("forbidden", {}).items():
        if value_at(new, path) != value_at(old, path):
            yield forbidden(path, message)
    if "roleRef" in new and new["roleRef"] != old["roleRef"]:
        yield wrong("roleRef", new["roleRef"], "cannot change roleRef")
    address, before = value_at(new, "spec.clusterIPs"), value_at(old, "spec.clusterIPs")
    if address and before and address[0] != before[0]:
        yield wrong("spec.clusterIPs[0]", address, "may not change once set")
    if resource.kind == "Job":
        yield from _completions(new["spec"], old["spec"])
    changeable = names_in(rules, "changeable")
    if changeable and _fixed(new["spec"], changeable) != _fixed(old["spec"], changeable):
        yield forbidden("spec", rules["immutable"])


def _completions(new: Fields, old: Fields) -> Iterator[Cause]:
    """Yield a change of how many Pods of a Job have to end well, unless it has one for each that runs."""
    value, is_indexed = new.get("completions"), new["completionMode"] == "Indexed"
    if value != old.get("completions") and not (is_indexed and value == new["parallelism"]):
        rule = "can only be modified in tandem with spec.parallelism" if is_indexed else "field is immutable"
        yield wrong("spec.completions", value, rule)


def _fixed(spec: dict[str, Any], changeable: Collection[str]) -> dict[str, Any]:
    return {name: _without_images(each) for name, each in spec.items() if name not in changeable}


def _without_images(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        {k: v for k, v in each.items() if k != "image"} if isinstance(each, dict) else each for each in value
    ]


_RULES: Mapping[str, Rule] = {**core_rules.RULES, **workload_rules.RULES}
