"""What holds for the metadata of every object, whatever its kind.

Source: apiserver pkg/registry/rest (BeforeCreate, BeforeUpdate) and apimachinery pkg/api/validation.
"""

import random
import re
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec

from distq.testing.apiserver.resources import Resource
from distq.testing.apiserver.status import StatusError, bad_request, conflict, invalid
from distq.testing.apiserver.store import Content, Stored

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEPT_FROM_OLD = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def timestamp() -> str:
    """Return the time as metav1.Time writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def object_key(namespace: str, name: str) -> str:
    """Return the key of an object in its collection."""
    return f"{namespace}/{name}" if namespace else name


def accept(resource: Resource, decoded: Any, namespace: str, name: str = "") -> Content:
    """Return a decoded body as content, after checking that it is what the URL says."""
    if not isinstance(decoded, dict):
        raise bad_request("couldn't get version/kind; json parse error: the body is no object")
    kind, api_version = decoded.pop("kind", None), decoded.pop("apiVersion", None)
    if resource.custom and not kind:
        raise bad_request(f"Object 'Kind' is missing in '{msgspec.json.encode(decoded).decode()}'")
    if api_version and api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind and kind != resource.kind:
        raise bad_request(
            f"{kind} in version {resource.version!r} cannot be handled as a {resource.kind}: "
            f"converting (v1.{kind}) to (v1.{resource.kind}): unknown conversion"
        )
    metadata = _clean(decoded.get("metadata") or {})
    if name and metadata.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if metadata.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    return decoded | {"metadata": metadata}


def _clean(metadata: dict[str, Any]) -> dict[str, Any]:
    """Drop what typed metadata leaves out: nulls, empty maps and lists, and managed fields."""
    return {
        field: value
        for field, value in metadata.items()
        if value not in (None, "", {}, []) and field not in {"managedFields", "selfLink"}
    }


def prepare_for_create(resource: Resource, content: Content) -> None:
    """Fill what the server gives each new object."""
    metadata = content["metadata"]
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(field, None)
    if "name" not in metadata and "generateName" in metadata:
        suffix = "".join(random.choices(_SUFFIX_ALPHABET, k=5))
        metadata["name"] = metadata["generateName"] + suffix
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp()
    if resource.generation:
        metadata["generation"] = 1
    _validate_name(resource, metadata.get("name", ""))


def _validate_name(resource: Resource, name: str) -> None:
    if not name:
        cause = ("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
        raise invalid(resource.group, resource.kind, "", cause)
    if "rbac" in resource.group:
        return
    if len(name) > 253 or not _SUBDOMAIN.match(name):
        cause = ("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {_SUBDOMAIN_RULE}')
        raise invalid(resource.group, resource.kind, name, cause)


def prepare_for_update(resource: Resource, new: Content, old: Content) -> None:
    """Keep what an update cannot change, and refuse what it may not."""
    metadata, before = new["metadata"], old["metadata"]
    metadata["name"] = before["name"]
    for field in _KEPT_FROM_OLD:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    if "deletionTimestamp" in before:
        _refuse_new_finalizers(resource, metadata, before)


def _refuse_new_finalizers(resource: Resource, metadata: dict[str, Any], before: dict[str, Any]) -> None:
    added = [each for each in metadata.get("finalizers", ()) if each not in before.get("finalizers", ())]
    if added:
        listed = ", ".join(f'"{each}"' for each in added)
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}"
        )
        cause = ("FieldValueForbidden", "metadata.finalizers", message)
        raise invalid(resource.group, resource.kind, before["name"], cause)


def check_uid(resource: Resource, name: str, wanted: str | None, found: str) -> None:
    """Refuse a write that names another uid."""
    if wanted and wanted != found:
        raise _other_uid(resource, name, wanted, found)


def _other_uid(resource: Resource, name: str, wanted: str, found: str) -> StatusError:
    cause = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(resource, name, cause)


def same(new: Content, stored: Stored) -> bool:
    """Return whether a write changes nothing."""
    old = stored.content
    new["metadata"]["resourceVersion"] = stored.metadata["resourceVersion"]
    # == takes True for 1, so equal dicts are compared as JSON too
    return new == old and _canonical(new) == _canonical(old)


def _canonical(content: Content) -> bytes:
    return msgspec.json.encode(content, order="deterministic")
