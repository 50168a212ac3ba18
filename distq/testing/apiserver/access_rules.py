"""What roles, their bindings and webhooks have to hold.

Source: kubernetes pkg/apis/{rbac,admissionregistration}/validation.
"""

from collections.abc import Iterator, Mapping

from distq.testing.apiserver import names
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicates,
    misformed,
    required,
    unsupported,
    wrong,
)

_SUBJECTS = ["ServiceAccount", "User", "Group"]
_REVIEWS = ["v1", "v1beta1"]


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


def _role_reference(reference: Fields, before: str) -> Iterator[Cause]:
    yield from unsupported(f"{before}apiGroup", reference["apiGroup"], ["rbac.authorization.k8s.io"])
    yield from misformed(f"{before}name", reference.get("name", ""), names.path_segment)


def _subject(subject: Fields, before: str) -> Iterator[Cause]:
    yield from unsupported(f"{before}kind", subject["kind"], _SUBJECTS)
    group = "" if subject["kind"] == "ServiceAccount" else "rbac.authorization.k8s.io"
    if subject["kind"] in _SUBJECTS:
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


RULES: Mapping[str, Rule] = {
    "admissionregistration.v1.MutatingWebhook": _webhook,
    "admissionregistration.v1.MutatingWebhookConfiguration": _webhooks,
    "admissionregistration.v1.RuleWithOperations": _rule_of_webhook,
    "admissionregistration.v1.ValidatingWebhook": _webhook,
    "admissionregistration.v1.ValidatingWebhookConfiguration": _webhooks,
    "rbac.v1.ClusterRoleBinding": _cluster_role_binding,
    "rbac.v1.PolicyRule": _policy_rule,
    "rbac.v1.Role": _role,
    "rbac.v1.RoleBinding": lambda binding, _: unsupported(
        "roleRef.kind", binding["roleRef"]["kind"], ["Role", "ClusterRole"]
    ),
    "rbac.v1.RoleRef": _role_reference,
    "rbac.v1.Subject": _subject,
}
