"""What governs the API has to hold: roles and their bindings, webhooks, and CustomResourceDefinitions.

The schemas of definitions have to be structural.
Source: kubernetes pkg/apis/{rbac,admissionregistration}/validation, apiextensions-apiserver
pkg/apis/apiextensions/validation, pkg/apiserver/schema/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from distq.testing.apiserver import names
from distq.testing.apiserver.built_in import INT_OR_STRING, PRESERVES, Schema
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicates,
    forbidden,
    misformed,
    required,
    unsupported,
    wrong,
)
from distq.testing.apiserver.resources import DEFINITIONS
from distq.testing.apiserver.status import undecodable
from distq.testing.apiserver.typed import json_word

Value = TypeVar("Value", str, list[Any], dict[str, Any])

_REVIEWS = ["v1", "v1beta1"]
_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_OF_FIELD = "must not be empty for specified object fields"
_OF_ITEM = "must not be empty for specified array items"
_OF_METADATA = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)


def _policy_rule(rule: Fields, before: str) -> Iterator[Cause]:
    if urls := rule.get("nonResourceURLs"):
        if rule.keys() & {"apiGroups", "resourceNames", "resources"}:
            apart = "rules cannot apply to both regular resources and non-resource URLs"
            yield wrong(f"{before}nonResourceURLs", urls, apart)
        return
    for field, what in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            yield required(f"{before}{field}", f"resource rules must supply at least one {what}")


def _role(role: Fields, _: str) -> Iterator[Cause]:
    for index, rule in enumerate(role.get("rules") or ()):
        if urls := rule.get("nonResourceURLs"):
            path = f"rules[{index}].nonResourceURLs"
            yield wrong(path, urls, "namespaced rules cannot apply to non-resource URLs")


def _cluster_role_binding(binding: Fields, _: str) -> Iterator[Cause]:
    yield from unsupported("roleRef.kind", binding["roleRef"]["kind"], ["ClusterRole"])
    for index, subject in enumerate(binding.get("subjects", ())):
        if subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            yield required(f"subjects[{index}].namespace")


def _subject(subject: Fields, before: str) -> Iterator[Cause]:
    group = "" if subject["kind"] == "ServiceAccount" else "rbac.authorization.k8s.io"
    if subject["kind"] in {"ServiceAccount", "User", "Group"}:
        yield from unsupported(f"{before}apiGroup", subject.get("apiGroup", group), [group])
    if subject["kind"] == "ServiceAccount" and subject.get("name"):
        yield from misformed(f"{before}name", subject["name"], names.subdomain)


def _webhooks(configuration: Fields, _: str) -> Iterator[Cause]:
    hooks = configuration.get("webhooks", ())
    yield from duplicates((f"webhooks[{i}].name", each.get("name", "")) for i, each in enumerate(hooks))


def _webhook(hook: Fields, before: str) -> Iterator[Cause]:
    if name := hook.get("name"):
        yield from misformed(f"{before}name", name, _name_of_webhook)
    versions, path = hook.get("admissionReviewVersions", ()), f"{before}admissionReviewVersions"
    for index, version in enumerate(versions):
        yield from misformed(f"{path}[{index}]", version, names.dns_1035_label)
        if version in versions[:index]:
            yield wrong(f"{path}[{index}]", version, "duplicate version")
    if versions and not set(versions) & set(_REVIEWS):
        yield wrong(path, versions, f"must include at least one of {', '.join(_REVIEWS)}")
    if ("url" in hook["clientConfig"]) == ("service" in hook["clientConfig"]):
        yield required(f"{before}clientConfig", "exactly one of url or service is required")


def _name_of_webhook(name: str) -> list[str]:
    too_few = name.count(".") < 2
    return (
        names.subdomain(name)
        + ["should be a domain with at least three segments separated by dots"] * too_few
    )


def _rule_of_webhook(rule: Fields, before: str) -> Iterator[Cause]:
    for field in ("apiVersions", "resources"):
        for index, each in enumerate(rule.get(field, ())):
            if not each:
                yield required(f"{before}{field}[{index}]")


def _definition(spec: Fields, before: str) -> Iterator[Cause]:
    versions, path = spec.get("versions", []), f"{before}versions"
    if len({each.get("name") for each in versions}) < len(versions):
        yield wrong(path, versions, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield wrong(path, versions, "must have exactly one version marked as storage version")
    if scope := spec.get("scope"):
        yield from unsupported(f"{before}scope", scope, ["Cluster", "Namespaced"])
    for index, version in enumerate(versions):
        schema = version.get("schema", {}).get("openAPIV3Schema")
        place = "validation" if len(versions) == 1 else f"versions[{index}].schema"
        if schema is None:
            yield required(f"{path}[{index}].schema.openAPIV3Schema")
        else:
            yield from _root(_read(schema, dict), f"{before}{place}.openAPIV3Schema")


def _root(schema: Schema, path: str) -> Iterator[Cause]:
    kind = _read(schema.get("type"), str)
    if not kind and not schema.get(PRESERVES):
        yield required(f"{path}.type", "must not be empty at the root")
    elif kind not in {"", "object"}:
        yield wrong(f"{path}.type", kind, "must be object at the root")
    metadata = _read(_read(schema.get("properties"), dict).get("metadata"), dict)
    if _read(metadata.get("properties"), dict).keys() - {"name", "generateName"}:
        yield forbidden(f"{path}.properties[metadata]", _OF_METADATA)
    yield from _within(schema, path)


def _structural(schema: Schema, path: str, rule: str) -> Iterator[Cause]:
    """Yield what keeps a schema from being structural, which has a type wherever it names something."""
    kind = _read(schema.get("type"), str)
    if kind:
        yield from unsupported(f"{path}.type", kind, _TYPES)
    elif not schema.get(PRESERVES) and not schema.get(INT_OR_STRING):
        yield required(f"{path}.type", rule)
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    yield from _within(schema, path)


def _within(schema: Schema, path: str) -> Iterator[Cause]:
    fields, others = _read(schema.get("properties"), dict), schema.get("additionalProperties")
    if fields and others:
        rule = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", rule)
    for name, each in fields.items():
        yield from _structural(_read(each, dict), f"{path}.properties[{name}]", _OF_FIELD)
    if not isinstance(others, bool | None):
        yield from _structural(_read(others, dict), f"{path}.additionalProperties", _OF_FIELD)
    if isinstance(schema.get("items"), dict):
        yield from _structural(schema["items"], f"{path}.items", _OF_ITEM)
    if not schema.get(INT_OR_STRING):
        yield from _types_of_choices(schema, path)


def _types_of_choices(schema: Schema, path: str) -> Iterator[Cause]:
    for word in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(_read(schema.get(word), list)):
            if _read(each, dict).get("type"):
                yield forbidden(f"{path}.{word}[{index}].type", "must be empty to be structural")


def _read(value: Any, kind: type[Value]) -> Value:
    """Return a part of a schema, empty where it is absent; what is of another type cannot be decoded."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        refusal = f"json: cannot unmarshal {json_word(value)} into Go value of type v1.JSONSchemaProps"
        raise undecodable(DEFINITIONS, refusal)
    return value


RULES: Mapping[str, Rule] = {
    "admissionregistration.v1.MutatingWebhook": _webhook,
    "admissionregistration.v1.MutatingWebhookConfiguration": _webhooks,
    "admissionregistration.v1.RuleWithOperations": _rule_of_webhook,
    "admissionregistration.v1.ValidatingWebhook": _webhook,
    "admissionregistration.v1.ValidatingWebhookConfiguration": _webhooks,
    "apiextensions.v1.CustomResourceDefinitionSpec": _definition,
    "rbac.v1.ClusterRoleBinding": _cluster_role_binding,
    "rbac.v1.PolicyRule": _policy_rule,
    "rbac.v1.Role": _role,
    "rbac.v1.RoleBinding": lambda binding, _: unsupported(
        "roleRef.kind", binding["roleRef"]["kind"], ["Role", "ClusterRole"]
    ),
    "rbac.v1.Subject": _subject,
}
