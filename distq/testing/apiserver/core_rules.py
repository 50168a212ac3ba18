"""What networks, secrets, events, webhooks, roles and selectors have to hold.

Source: kubernetes pkg/apis/{admissionregistration,core,discovery,networking,rbac}/validation.
"""

import ipaddress
from collections.abc import Iterator, Mapping

from distq.testing.apiserver import names
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicates,
    forbidden,
    json_text,
    misformed,
    misformed_labels,
    repeated,
    required,
    too_long,
    unsupported,
    wrong,
)
from distq.testing.apiserver.definitions import violations_of_definition
from distq.testing.apiserver.resources import names_in, rules_of

_ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_ACCOUNT = "kubernetes.io/service-account.name"
_MOST_DATA = 1024 * 1024
_LONGEST_OF_EVENT = {"action": 128, "note": 1024, "reason": 128, "reportingInstance": 128}


def _service(spec: Fields, before: str) -> Iterator[Cause]:
    if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(f"{before}ports")
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        yield required(f"{before}externalName")
    yield from misformed_labels(f"{before}selector", spec.get("selector", {}))
    if spec.get("clusterIP", "None") != "None":
        yield from misformed(f"{before}clusterIPs[0]", spec["clusterIP"], _address)
    yield from _ports_of_service(spec, f"{before}ports")


def _ports_of_service(spec: Fields, path: str) -> Iterator[Cause]:
    ports = spec.get("ports", ())
    named = [(f"{path}[{index}].name", port.get("name", "")) for index, port in enumerate(ports)]
    yield from repeated((place, name) for place, name in named if not names.label(name))
    for index, port in enumerate(ports):
        if name := port.get("name"):
            yield from misformed(f"{path}[{index}].name", name, names.label)
        elif len(ports) > 1:
            yield required(f"{path}[{index}].name")
    yield from duplicates((f"{path}[{index}]", _in_go(port)) for index, port in enumerate(ports))


def _in_go(port: Fields) -> str:
    """Return the port as the real server's message quotes it, by Go's names."""
    unset = {"AppProtocol": None, "Port": port["port"], "TargetPort": 0, "NodePort": 0}
    return json_text({"Name": "", "Protocol": port["protocol"], **unset})


def _address(text: str) -> list[str]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [_ADDRESS_RULE]
    return []


def _endpoint_subset(subset: Fields, before: str) -> Iterator[Cause]:
    path, ports = before.rstrip("."), subset.get("ports", ())
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(path, "must specify `addresses` or `notReadyAddresses`")
    for field in ("addresses", "notReadyAddresses"):
        for index, each in enumerate(subset.get(field, ())):
            yield from misformed(f"{path}.{field}[{index}].ip", each["ip"], _address)
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{path}.ports[{index}].name")


def _endpoint_slice(content: Fields, _: str) -> Iterator[Cause]:
    version = {"IPv4": 4, "IPv6": 6}.get(content.get("addressType", ""))
    for index, endpoint in enumerate(content.get("endpoints") or ()):
        for place, address in enumerate(endpoint.get("addresses") or ()):
            path = f"endpoints[{index}].addresses[{place}]"
            if version and _address(address):
                yield wrong(path, address, _ADDRESS_RULE)
            elif version and ipaddress.ip_address(address).version != version:
                yield wrong(path, address, f"must be an IPv{version} address")
            elif not version:
                yield from misformed(path, address, names.subdomain)
    ports = enumerate(content.get("ports") or ())
    yield from duplicates((f"ports[{index}].name", f'"{each.get("name") or ""}"') for index, each in ports)


def _ingress(spec: Fields, before: str) -> Iterator[Cause]:
    if "defaultBackend" not in spec and "rules" not in spec:
        yield wrong(before.rstrip("."), None, "either `defaultBackend` or `rules` must be specified")


def _ingress_backend(backend: Fields, before: str) -> Iterator[Cause]:
    path, service = before.rstrip("."), backend.get("service")
    if service is None and "resource" not in backend:
        yield wrong(path, "", "resource or service backend is required")
    if service is None:
        return
    if service.get("name"):
        yield from misformed(f"{before}service.name", service["name"], names.label)
    if not service.get("port", {}).keys() & {"name", "number"}:
        yield required(path, "port name or number is required")


def _ingress_class(spec: Fields, before: str) -> Iterator[Cause]:
    controller = spec.get("controller", "")
    domain, _, path = controller.partition("/")
    if controller and (not path or names.subdomain(domain)):
        rule = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield wrong(f"{before}controller", controller, rule)


def _keys(content: Fields, _: str) -> Iterator[Cause]:
    for field in ("data", "binaryData"):
        for key in content.get(field, {}):
            yield from misformed(f"{field}[{key}]", key, names.config_key)


def _config_map(content: Fields, _: str) -> Iterator[Cause]:
    yield from _keys(content, "")
    size = sum(len(text.encode()) for text in content.get("data", {}).values())
    if size + _bytes_in(content.get("binaryData", {})) > _MOST_DATA:
        yield too_long("[]", _MOST_DATA)


def _bytes_in(encoded: Fields) -> int:
    """Return how many bytes are in texts of base64."""
    return sum(len(text) * 3 // 4 - text.count("=") for text in encoded.values())


def _secret(content: Fields, _: str) -> Iterator[Cause]:
    yield from _keys(content, "")
    kind, data = content.get("type", ""), content.get("data", {})
    if _bytes_in(data) > _MOST_DATA:
        yield too_long("data", _MOST_DATA)
    needed = names_in(rules_of("core.v1.Secret")["keys"], kind)
    missing = [key for key in needed if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"password", "username"}:
        missing = ["password", "username"]
    for key in missing:
        yield required(f"data[{key}]")
    annotations = content["metadata"].get("annotations", {})
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")


def _event(content: Fields, _: str) -> Iterator[Cause]:
    about = (content.get("involvedObject") or content.get("regarding") or {}).get("namespace", "")
    own = content["metadata"].get("namespace", "")
    if content.get("eventTime"):
        fits = bool(about) or own in {"default", "kube-system"}
    else:
        fits = own == (about or "default")
    if not fits:
        yield wrong("involvedObject.namespace", about, "does not match event.namespace")


def _event_of_group(content: Fields, _: str) -> Iterator[Cause]:
    yield from _event(content, "")
    for field, most in _LONGEST_OF_EVENT.items():
        if len(content.get(field, "").encode()) > most:
            yield wrong(field, "", f"can have at most {most} characters")


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
    for index, subject in enumerate(binding.get("subjects", ())):
        if subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            yield required(f"subjects[{index}].namespace")


def _subject(subject: Fields, before: str) -> Iterator[Cause]:
    group = "" if subject["kind"] == "ServiceAccount" else "rbac.authorization.k8s.io"
    if subject["kind"] in {"ServiceAccount", "User", "Group"}:
        yield from unsupported(f"{before}apiGroup", subject.get("apiGroup", group), [group])
    if subject["kind"] == "ServiceAccount" and subject.get("name"):
        yield from misformed(f"{before}name", subject["name"], names.subdomain)


def _webhook(hook: Fields, before: str) -> Iterator[Cause]:
    if name := hook.get("name"):
        yield from misformed(f"{before}name", name, _name_of_webhook)
    versions, path = hook.get("admissionReviewVersions", ()), f"{before}admissionReviewVersions"
    for index, version in enumerate(versions):
        yield from misformed(f"{path}[{index}]", version, names.dns_1035_label)
        if version in versions[:index]:
            yield wrong(f"{path}[{index}]", version, "duplicate version")
    if versions and not {"v1", "v1beta1"} & {*versions}:
        yield wrong(path, versions, "must include at least one of v1, v1beta1")
    if ("url" in hook["clientConfig"]) == ("service" in hook["clientConfig"]):
        yield required(f"{before}clientConfig", "exactly one of url or service is required")


def _name_of_webhook(name: str) -> list[str]:
    too_few = ["should be a domain with at least three segments separated by dots"] * (name.count(".") < 2)
    return names.subdomain(name) + too_few


def _rule_of_webhook(rule: Fields, before: str) -> Iterator[Cause]:
    for field in ("apiVersions", "resources"):
        for index, each in enumerate(rule.get(field, ())):
            if not each:
                yield required(f"{before}{field}[{index}]")


def _label_selector(selector: Fields, before: str) -> Iterator[Cause]:
    yield from misformed_labels(f"{before}matchLabels", selector.get("matchLabels", {}))
    for index, each in enumerate(selector.get("matchExpressions", ())):
        yield from _expression(each, f"{before}matchExpressions[{index}]")


def _expression(expression: Fields, path: str) -> Iterator[Cause]:
    values, operator = expression.get("values"), expression["operator"]
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{path}.values", rule)
    else:
        yield wrong(f"{path}.operator", operator, "not a valid selector operator")
    yield from misformed(f"{path}.key", expression["key"], names.label_key)
    for index, value in enumerate(values or ()):
        yield from misformed(f"{path}.values[{index}]", value, names.label_value)


RULES: Mapping[str, Rule] = {
    "admissionregistration.v1.MutatingWebhook": _webhook,
    "admissionregistration.v1.RuleWithOperations": _rule_of_webhook,
    "admissionregistration.v1.ValidatingWebhook": _webhook,
    "apiextensions.v1.CustomResourceDefinitionSpec": violations_of_definition,
    "core.v1.ConfigMap": _config_map,
    "core.v1.EndpointSubset": _endpoint_subset,
    "core.v1.Event": _event,
    "core.v1.Secret": _secret,
    "core.v1.ServiceSpec": _service,
    "discovery.v1.EndpointSlice": _endpoint_slice,
    "events.v1.Event": _event_of_group,
    "meta.v1.LabelSelector": _label_selector,
    "networking.v1.IngressBackend": _ingress_backend,
    "networking.v1.IngressClassSpec": _ingress_class,
    "networking.v1.IngressSpec": _ingress,
    "rbac.v1.ClusterRoleBinding": _cluster_role_binding,
    "rbac.v1.PolicyRule": _policy_rule,
    "rbac.v1.Role": _role,
    "rbac.v1.Subject": _subject,
}
