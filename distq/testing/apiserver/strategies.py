"""What differs from kind to kind when objects are written: defaults, status, generation, validation.

Only what controllers meet; the real server validates far more.
Source: kubernetes pkg/registry/*/*/strategy.go.
"""

import base64
import re
from datetime import UTC, datetime
from typing import Any

from distq.testing.apiserver.definitions import established, with_defaults
from distq.testing.apiserver.resources import DEFINITIONS, DEPLOYMENTS, LEASES, NAMESPACES, Resource
from distq.testing.apiserver.status import invalid, undecodable
from distq.testing.apiserver.store import Content

_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_LEASE_FIELDS = {
    "acquireTime",
    "holderIdentity",
    "leaseDurationSeconds",
    "leaseTransitions",
    "renewTime",
}
_DATA = {("", "configmaps"), ("", "secrets")}
_INITIAL_STATUS: dict[str, dict[str, Any]] = {
    "namespaces": {"phase": "Active"},
    "pods": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
}


def prepare_for_create(resource: Resource, content: Content) -> None:
    """Set what the kind's new objects start with."""
    _normalize(resource, content)
    if resource.status and resource.kind != "Node":
        content.pop("status", None)
        if not resource.custom:
            content["status"] = dict(_INITIAL_STATUS.get(resource.plural, {}))
    if resource == DEFINITIONS:
        content["status"] = established(content)
    if resource == NAMESPACES:
        metadata = content["metadata"]
        own_label = {"kubernetes.io/metadata.name": metadata["name"]}
        metadata["labels"] = metadata.get("labels", {}) | own_label
        content["spec"] = {"finalizers": ["kubernetes"]}


def prepare_for_update(resource: Resource, new: Content, old: Content) -> None:
    """Keep the status, and count the generation."""
    _normalize(resource, new)
    if resource.status:
        _take(new, "status", old)
    if resource == NAMESPACES:
        _take(new, "spec", old)
        own_label = {"kubernetes.io/metadata.name": new["metadata"]["name"]}
        new["metadata"]["labels"] = new["metadata"].get("labels", {}) | own_label
    if resource.generation and _intent(resource, new) != _intent(resource, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_for_status_update(new: Content, old: Content) -> Content:
    """Return the old object with the new one's status."""
    updated = old | {"metadata": dict(old["metadata"])}
    _take(updated, "status", new)
    return updated


def _take(content: Content, field: str, source: Content) -> None:
    if field in source:
        content[field] = source[field]
    else:
        content.pop(field, None)


def _intent(resource: Resource, content: Content) -> Any:
    """Return what the generation counts the changes of."""
    if resource.custom:
        apart = {"metadata", "status"} if resource.status else {"metadata"}
        return {field: value for field, value in content.items() if field not in apart}
    annotations = content["metadata"].get("annotations") if resource == DEPLOYMENTS else None
    return content.get("spec"), annotations


def _normalize(resource: Resource, content: Content) -> None:
    if not resource.custom:
        for field in [field for field, value in content.items() if value is None]:
            del content[field]
    if resource.identity == LEASES.identity:
        _normalize_lease(content)
    elif resource.identity == DEFINITIONS.identity:
        _normalize_definition(content)
    elif resource.identity == ("", "secrets"):
        _normalize_secret(content)
    if resource.identity in _DATA:
        for field in [field for field in ("data", "binaryData") if not content.get(field)]:
            content.pop(field, None)


def _normalize_lease(content: Content) -> None:
    given = content.get("spec") or {}
    spec = {field: given[field] for field in _LEASE_FIELDS if given.get(field) is not None}
    for field in ("acquireTime", "renewTime"):
        if field in spec:
            spec[field] = _micro_time(str(spec[field]))
    for field, least, rule in (
        ("leaseDurationSeconds", 1, "greater than 0"),
        ("leaseTransitions", 0, "greater than or equal to 0"),
    ):
        value = spec.get(field, least)
        if not isinstance(value, int):
            cause = f"json: cannot unmarshal string into Go struct field LeaseSpec.spec.{field} of type int32"
            raise undecodable(LEASES, cause)
        if value < least:
            message = f"Invalid value: {value}: must be {rule}"
            name = content["metadata"]["name"]
            raise invalid(LEASES.group, LEASES.kind, name, ("FieldValueInvalid", f"spec.{field}", message))
    content["spec"] = spec


def _micro_time(text: str) -> str:
    """Return a metav1.MicroTime as the server writes it; it takes exactly six decimals."""
    if not _MICRO_TIME.match(text):
        layout = "2006-01-02T15:04:05.000000Z07:00"
        raise undecodable(
            LEASES, f'parsing time "{text}" as "{layout}": cannot parse "{text[19:]}" as ".000000"'
        )
    instant = datetime.fromisoformat(text).astimezone(UTC)
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _normalize_secret(content: Content) -> None:
    plain = content.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        content["data"] = (content.get("data") or {}) | encoded
    content.setdefault("type", "Opaque")


def _normalize_definition(content: Content) -> None:
    spec = content.get("spec") or {}
    names = spec.get("names") or {}
    expected = f"{names.get('plural')}.{spec.get('group')}"
    name = content["metadata"]["name"]
    if name != expected:
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        raise invalid(
            DEFINITIONS.group, DEFINITIONS.kind, name, ("FieldValueInvalid", "metadata.name", message)
        )
    content["spec"] = with_defaults(spec)
