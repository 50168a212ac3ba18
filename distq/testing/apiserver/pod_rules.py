"""What Pods and the templates of Pods have to hold.

Source: kubernetes pkg/apis/core/validation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from distq.testing.apiserver import names, quantities
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicates,
    misformed,
    required,
    surplus,
    wrong,
)

_SOURCES_OF_VARIABLES = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def _pod(spec: Fields, before: str) -> Iterator[Cause]:
    yield from duplicates(_names(spec, before, "volumes"))
    containers = [*_names(spec, before, "initContainers"), *_names(spec, before, "containers")]
    yield from duplicates(containers)
    for path, name in containers:
        yield from misformed(path, name, names.label) if name else ()
    volumes = {name for _, name in _names(spec, before, "volumes") if not names.label(name)}
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield from _mounts(container, f"{before}{kind}[{index}].volumeMounts", volumes)


def _names(spec: Fields, before: str, field: str) -> list[tuple[str, str]]:
    return [
        (f"{before}{field}[{i}].name", each.get("name", "")) for i, each in enumerate(spec.get(field, ()))
    ]


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
    if name := volume.get("name"):
        yield from misformed(f"{before}name", name, names.label)
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


def named_port(fields: Fields, before: str) -> Iterator[Cause]:
    """Yield what is wrong with the name of a port, where it is one."""
    if isinstance(port := fields.get("port"), str):
        yield from misformed(f"{before}port", port, names.port_name)


RULES: Mapping[str, Rule] = {
    "core.v1.EnvFromSource": _variables_from,
    "core.v1.EnvVar": _variable,
    "core.v1.EnvVarSource": _source_of_variable,
    "core.v1.HTTPGetAction": named_port,
    "core.v1.PodSpec": _pod,
    "core.v1.Probe": _probe,
    "core.v1.ResourceRequirements": _resources,
    "core.v1.TCPSocketAction": named_port,
    "core.v1.Volume": _volume,
    "networking.v1.NetworkPolicyPort": named_port,
}
