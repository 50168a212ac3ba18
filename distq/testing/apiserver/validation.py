"""What keeps an object of a built-in kind from being one, as far as people meet it.

Fields that have to be there, choices, ports, selectors; the real server looks
at far more. By the name of the type that has the field, as ``defaults``.
Source: kubernetes pkg/apis/*/validation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver import access_rules, core_rules, network_rules, pod_rules, workload_rules
from distq.testing.apiserver.built_in_kinds import Rules, names_in, rules_of
from distq.testing.apiserver.built_in_schemas import NAME, PRESERVES, Schema
from distq.testing.apiserver.causes import Cause, Fields, Rule, required, unsupported, wrong

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
    needed = {**dict.fromkeys(_required_texts(schema, rules)), **rules.get("required", {})}
    missing = {field for field in needed if not value.get(field)}
    for field in sorted(missing):
        yield required(f"{before}{field}", needed[field] or "")
    for field in names_in(rules, "ports"):
        port = value.get(field, 0 if name == "core.v1.HTTPGetAction" else None)
        if isinstance(port, int) and not 0 < port < 65536 and field not in missing:
            yield wrong(f"{before}{field}", port, _PORT_RULE)
    yield from negative_numbers(rules, value, before)
    if name in _RULES:
        yield from _RULES[name](value, before)
    if name == "apps.v1.StatefulSetSpec":
        value = _with_claims(value)
    additional = schema.get("additionalProperties")
    for field, each in value.items():
        inner = schema.get("properties", {}).get(field, additional)
        if field not in missing and (before or field not in {"metadata", "status"}):
            yield from built_in_violations(inner or {}, each, f"{before}{field}")


def _required_texts(schema: Schema, rules: Rules) -> Iterator[str]:
    """Yield the texts that the schema requires, choices apart; the server takes no empty ones."""
    for field in schema.get("required", ()):
        inner = schema["properties"][field]
        if (
            inner.get("type") == "string"
            and "enum" not in inner
            and field not in names_in(rules, "may_be_empty")
        ):
            yield field


def negative_numbers(rules: Rules, value: Fields, before: str) -> Iterator[Cause]:
    """Yield the fields of a type that are below 0 and may not be; ``before`` is the path to them."""
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


_RULES: Mapping[str, Rule] = {
    **access_rules.RULES,
    **core_rules.RULES,
    **network_rules.RULES,
    **pod_rules.RULES,
    **workload_rules.RULES,
}
