"""What decoding into the types of built-in kinds does: unknown fields go, wrong types are refused.

Only where controllers meet it; the real server knows every field of every kind.
Source: kubernetes staging/src/k8s.io/api, decoded by encoding/json.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from distq.testing.apiserver.resources import LEASES, ServedResource
from distq.testing.apiserver.status import StatusError, undecodable
from distq.testing.apiserver.store import Content

_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]*")
_CONFIG_MAPS, _SECRETS = ("", "configmaps"), ("", "secrets")
_FIELDS: Mapping[tuple[str, str], set[str]] = {
    _CONFIG_MAPS: {"data", "binaryData", "immutable"},
    _SECRETS: {"data", "stringData", "immutable", "type"},
    LEASES.identity: {"spec"},
}
_TEXTS = {(_CONFIG_MAPS, "data"), (_SECRETS, "stringData")}
_BYTES = {(_CONFIG_MAPS, "binaryData"), (_SECRETS, "data")}
_LEASE_FIELDS = {
    "acquireTime": "time",
    "holderIdentity": "string",
    "leaseDurationSeconds": "int32",
    "leaseTransitions": "int32",
    "renewTime": "time",
}


def decode(resource: ServedResource, content: Content) -> Content:
    """Return the content, metadata apart, as its kind's type keeps it; what is null is absent."""
    if resource.custom:
        return content
    known = _FIELDS.get(resource.identity, {"spec", "status"} if resource.status else set(content))
    kept = {field: value for field, value in content.items() if field in known and value is not None}
    for field, value in kept.items():
        place = resource.identity, field
        if place in _TEXTS or place in _BYTES:
            kept[field] = texts(resource, f"{resource.kind}.{field}", value)
        if place in _BYTES:
            _require_base64(resource, kept[field])
    if resource.identity == LEASES.identity:
        kept["spec"] = _lease_spec(kept.get("spec", {}))
    return kept


def texts(resource: ServedResource, path: str, value: Any) -> dict[str, str]:
    """Return a map of texts, null ones empty."""
    if not isinstance(value, dict):
        raise wrong_type(resource, path, value, "map[string]string")
    for each in value.values():
        if each is not None and not isinstance(each, str):
            raise wrong_type(resource, path, each, "string")
    return {name: each or "" for name, each in value.items()}


def wrong_type(resource: ServedResource, path: str, value: Any, wanted: str) -> StatusError:
    """Return the answer for a value that is not of its field's type."""
    cause = f"json: cannot unmarshal {_word(value)} into Go struct field {path} of type {wanted}"
    return undecodable(resource, cause)


def not_a_map(value: Any) -> str:
    """Return what is wrong with a value where a map has to be."""
    return f"json: cannot unmarshal {_word(value)} into Go value of type map[string]interface {{}}"


def _word(value: Any) -> str:
    words = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return words.get(type(value), "null")


def _require_base64(resource: ServedResource, encoded: dict[str, str]) -> None:
    for text in encoded.values():
        try:
            base64.b64decode("".join(text.split("\n")), validate=True)
        except binascii.Error:
            legal = _BASE64.match(text)
            position = legal.end() if legal else 0
            raise undecodable(resource, f"illegal base64 data at input byte {position}") from None


def _lease_spec(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise wrong_type(LEASES, "Lease.spec", given, "v1.LeaseSpec")
    spec = {field: given[field] for field in _LEASE_FIELDS if given.get(field) is not None}
    for field, value in spec.items():
        path, wanted = f"LeaseSpec.spec.{field}", _LEASE_FIELDS[field]
        if wanted == "int32":
            if type(value) is not int:
                raise wrong_type(LEASES, path, value, wanted)
            if not -(2**31) <= value < 2**31:
                cause = f"json: cannot unmarshal number {value} into Go struct field {path} of type int32"
                raise undecodable(LEASES, cause)
        elif not isinstance(value, str):
            raise wrong_type(LEASES, path, value, "string")
        elif wanted == "time":
            spec[field] = _micro_time(value)
    return spec


def _micro_time(text: str) -> str:
    """Return a metav1.MicroTime as the server writes it; it takes exactly six decimals."""
    if not _MICRO_TIME.match(text):
        cause = f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{text[19:]}" as ".000000"'
        raise undecodable(LEASES, cause)
    instant = datetime.fromisoformat(text).astimezone(UTC)
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")
