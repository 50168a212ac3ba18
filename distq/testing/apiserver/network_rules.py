"""What Services, their endpoints and Ingresses have to hold.

Source: kubernetes pkg/apis/{core,discovery,networking}/validation.
"""

import ipaddress
from collections.abc import Iterator, Mapping

import msgspec

from distq.testing.apiserver import names
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicate,
    duplicates,
    misformed,
    misformed_labels,
    required,
    wrong,
)

_ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


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


RULES: Mapping[str, Rule] = {
    "core.v1.EndpointSubset": _endpoint_subset,
    "core.v1.ServiceSpec": _service,
    "discovery.v1.EndpointSlice": _endpoint_slice,
    "networking.v1.IngressBackend": _ingress_backend,
    "networking.v1.IngressClassSpec": _ingress_class,
    "networking.v1.IngressSpec": _ingress,
}
