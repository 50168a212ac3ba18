"""What Services, endpoints, Ingresses, secrets, events, volumes, limits and selectors have to hold.

Source: kubernetes pkg/apis/{core,discovery,networking}/validation.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping

import msgspec

from distq.testing.apiserver import names, quantities
from distq.testing.apiserver.built_in import names_in, rules_of
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicate,
    duplicates,
    forbidden,
    misformed,
    misformed_labels,
    required,
    surplus,
    wrong,
)
from distq.testing.apiserver.objects import finalizer_wrongs

_ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_KEY = re.compile(r"^[-._a-zA-Z0-9]+$")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_CREDENTIALS = ("password", "username")
"""Of these a Secret for basic authentication has to hold one."""
_LIMITED = {"Container", "PersistentVolumeClaim", "Pod"}
_AMOUNTS_OF_LIMITS = {"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"}
_ACCOUNT = "kubernetes.io/service-account.name"


def _service(spec: Fields, before: str) -> Iterator[Cause]:
    """Yield what is wrong with a Service: missing or ambiguous ports, a bad address or label."""
    if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(f"{before}ports")
    yield from misformed_labels(f"{before}selector", spec.get("selector", {}))
    if spec.get("clusterIP", "None") != "None":
        yield from misformed(f"{before}clusterIPs[0]", spec["clusterIP"], _address)
    yield from _ports_of_service(spec, f"{before}ports")


def _ports_of_service(spec: Fields, path: str) -> Iterator[Cause]:
    ports, numbers = spec.get("ports", ()), set()
    named = [(f"{path}[{index}].name", port.get("name", "")) for index, port in enumerate(ports)]
    yield from duplicates((place, name) for place, name in named if not names.label(name))
    for index, port in enumerate(ports):
        name, number = port.get("name"), (port["protocol"], port["port"])
        if not name and len(ports) > 1:
            yield required(f"{path}[{index}].name")
        elif name:
            yield from misformed(f"{path}[{index}].name", name, names.label)
        if number in numbers:
            yield duplicate(f"{path}[{index}]", _in_go(port))
        numbers.add(number)


def _in_go(port: Fields) -> str:
    """Return the port as the real server's message quotes it, by Go's names."""
    unset = {"AppProtocol": None, "Port": port["port"], "TargetPort": 0, "NodePort": 0}
    return msgspec.json.encode({"Name": "", "Protocol": port["protocol"], **unset}).decode()


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
    known: set[str] = set()
    for index, port in enumerate(content.get("ports") or ()):
        if (name := port.get("name") or "") in known:
            yield duplicate(f"ports[{index}].name", f'"{name}"')
        known.add(name)


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
            if not _KEY.match(key):
                yield wrong(f"{field}[{key}]", key, _KEY_RULE)


def _secret(content: Fields, _: str) -> Iterator[Cause]:
    """Yield what is wrong with the keys of a Secret, and those that one of its type lacks."""
    yield from _keys(content, "")
    kind, data = content.get("type", ""), content.get("data", {})
    needed = names_in(rules_of("core.v1.Secret")["keys"], kind)
    missing = [key for key in needed if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & set(_CREDENTIALS):
        missing = [*_CREDENTIALS]
    for key in missing:
        yield required(f"data[{key}]")
    annotations = content["metadata"].get("annotations", {})
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")


def _event(reference: str) -> Rule:
    """Return the rule that an event is in the namespace of what it is about, which the field names."""

    def rule(content: Fields, _: str) -> Iterator[Cause]:
        own, about = content["metadata"].get("namespace", ""), content.get(reference, {}).get("namespace", "")
        if content.get("eventTime"):
            fits = bool(about) or own in {"default", "kube-system"}
        else:
            fits = own == (about or "default")
        if not fits:
            yield wrong("involvedObject.namespace", about, "does not match event.namespace")

    return rule


def _lease(spec: Fields, before: str) -> Iterator[Cause]:
    if (seconds := spec.get("leaseDurationSeconds", 1)) < 1:
        yield wrong(f"{before}leaseDurationSeconds", seconds, "must be greater than 0")
    if (count := spec.get("leaseTransitions", 0)) < 0:
        yield wrong(f"{before}leaseTransitions", count, "must be greater than or equal to 0")


def _namespace(spec: Fields, before: str) -> Iterator[Cause]:
    for index, finalizer in enumerate(spec.get("finalizers", ())):
        yield from misformed(f"{before}finalizers[{index}]", finalizer, finalizer_wrongs)


def _volume(spec: Fields, before: str) -> Iterator[Cause]:
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
    yield from duplicates((f"{before}limits[{i}].type", each["type"]) for i, each in enumerate(limits))
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
    "coordination.v1.LeaseSpec": _lease,
    "core.v1.ConfigMap": _keys,
    "core.v1.EndpointSubset": _endpoint_subset,
    "core.v1.Event": _event("involvedObject"),
    "core.v1.LimitRangeSpec": _limit_range,
    "core.v1.NamespaceSpec": _namespace,
    "core.v1.PersistentVolumeClaimSpec": _claim,
    "core.v1.PersistentVolumeSpec": _volume,
    "core.v1.ResourceQuotaSpec": _quota,
    "core.v1.Secret": _secret,
    "core.v1.ServiceSpec": _service,
    "discovery.v1.EndpointSlice": _endpoint_slice,
    "events.v1.Event": _event("regarding"),
    "meta.v1.LabelSelector": _label_selector,
    "networking.v1.IngressBackend": _ingress_backend,
    "networking.v1.IngressClassSpec": _ingress_class,
    "networking.v1.IngressSpec": _ingress,
}
