"""The rules for the metadata of objects of every kind, and for the conditions in their status.

Source: apiserver pkg/registry/rest (BeforeCreate, BeforeUpdate) and apimachinery pkg/api/validation.
"""

import random
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from distq.client.conditions import get_condition
from distq.testing.apiserver import names, typed
from distq.testing.apiserver.causes import (
    Cause,
    forbidden,
    json_text,
    misformed,
    misformed_labels,
    required,
    too_long,
    wrong,
)
from distq.testing.apiserver.names import Form
from distq.testing.apiserver.requests import Target
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.status import bad_request, conflict, invalid, refuse, undecodable
from distq.testing.apiserver.store import Content

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_START = 58
"""So much of ``generateName`` is in a name."""
_MOST_ANNOTATIONS = 256 * 1024
_LENIENT = {"admissionregistration.k8s.io", "coordination.k8s.io", "events.k8s.io", "policy"}
"""The groups of kinds whose finalizers need no domain; those of custom resources need none either."""
_OWNER_RULES = {"apiVersion": "version must not be empty"}
_OWNER_RULES |= dict.fromkeys(("kind", "uid", "name"), "must not be empty")
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_KEPT_FROM_OLD = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def timestamp(seconds: int = 0) -> str:
    """Return the time, or one so many seconds later, as metav1.Time writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def grace_period(pod: Content, asked: int | None) -> int:
    """Return how many seconds a Pod that is deleted has to end, at most what it had before.

    Without a node it has none, and neither has one that ended.
    """
    left = pod["metadata"].get("deletionGracePeriodSeconds")
    ended = pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}
    if left is None and (ended or not pod["spec"].get("nodeName")):
        return 0
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds", 0) if left is None else left
    asked = 1 if asked < 0 else asked
    return asked if left is None else min(left, asked)


def accept(resource: ServedResource, decoded: Any, namespace: str, name: str = "") -> Content:
    """Return a decoded body as content, after checking that it is what the URL says."""
    return placed(typed_content(resource, decoded), namespace, name)


def typed_content(resource: ServedResource, decoded: Any) -> Content:
    """Return a decoded body as content, after checking that it is an object of the resource's kind."""
    unrecognized = f"the object provided is unrecognized (must be of type {resource.kind}): "
    if not isinstance(decoded, dict):
        raise bad_request(f"{unrecognized}couldn't get version/kind; json parse error: no object")
    _check_type(resource, decoded, unrecognized)
    metadata = typed.metadata(resource, decoded.get("metadata") or {})
    for elsewhere in ("managedFields", "selfLink"):
        metadata.pop(elsewhere, None)
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [each for i, each in enumerate(owners) if each not in owners[:i]]
    apart = {"kind", "apiVersion", "metadata"}
    content = {field: value for field, value in decoded.items() if field not in apart}
    return typed.decode(resource, content) | {"metadata": metadata}


def placed(content: Content, namespace: str, name: str) -> Content:
    """Return the content under the namespace and the name (none: a new object's) that the URL names."""
    metadata, called = content["metadata"], "the name of the object"
    if name and "name" not in metadata:
        raise bad_request(f"{called} ({name} based on URL) was undeterminable: name must be provided")
    if name and metadata["name"] != name:
        raise bad_request(f"{called} ({metadata['name']}) does not match the name on the URL ({name})")
    if metadata.get("namespace", namespace) != namespace:
        refusal = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(refusal)
    if namespace:
        metadata["namespace"] = namespace
    return content


def _check_type(resource: ServedResource, decoded: dict[str, Any], unrecognized: str) -> None:
    kind, api_version = decoded.get("kind"), decoded.get("apiVersion")
    if resource.custom and not kind:
        raise bad_request(f"{unrecognized}Object 'Kind' is missing in '{json_text(decoded)}'")
    if resource.custom and kind != resource.kind:
        metadata = decoded.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise invalid(resource, name, wrong("kind", kind, f"must be {resource.kind}"), kind=str(kind))
    if (api_version or resource.custom) and api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version or ''}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind and kind != resource.kind:
        cause = f"converting ({kind}) to ({resource.kind}): unknown conversion"
        raise undecodable(resource, cause, kind=kind)


def prepare_for_create(resource: ServedResource, content: Content) -> None:
    """Fill what the server gives each new object."""
    metadata = content["metadata"]
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(field, None)
    if "name" not in metadata and "generateName" in metadata:
        suffix = "".join(random.choices(_SUFFIX_ALPHABET, k=5))
        metadata["name"] = metadata["generateName"][:_LONGEST_START] + suffix
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp()
    if resource.generation:
        metadata["generation"] = 1
    _validate_name(resource, metadata)
    refuse(resource, metadata["name"], _violations(resource, metadata))


def _violations(resource: ServedResource, metadata: dict[str, Any]) -> Iterator[Cause]:
    yield from misformed_labels("metadata.labels", metadata.get("labels", {}))
    annotations = metadata.get("annotations", {})
    for key in annotations:  # in any case of letters (ValidateAnnotations)
        yield from misformed("metadata.annotations", key, lambda text: names.qualified(text.lower()))
    if len("".join([*annotations, *annotations.values()]).encode()) > _MOST_ANNOTATIONS:
        yield too_long("metadata.annotations", _MOST_ANNOTATIONS)
    form = names.qualified if resource.custom or resource.group in _LENIENT else names.finalizer
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        yield from misformed(f"metadata.finalizers[{index}]", finalizer, form)
    yield from _violations_of_owners(metadata.get("ownerReferences", ()))


def _violations_of_owners(owners: Sequence[dict[str, Any]]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        for field, rule in _OWNER_RULES.items():
            value = owner.get(field, "")
            if not value or (field == "apiVersion" and value.count("/") > 1):
                yield wrong(f"{path}.{field}", value, rule)
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            rule = "/v1, Kind=Event is disallowed from being an owner"
            yield "FieldValueInvalid", path, f"Invalid value: {_shown_owner(owner)}: {rule}"
    controllers = [f"{each['kind']}/{each['name']}" for each in owners if each.get("controller")]
    for other in controllers[1:]:
        shown = ",".join(map(_shown_owner, owners))
        rule = 'Only one reference can have Controller set to true. Found "true" in references for'
        message = f"Invalid value: [{shown}]: {rule} {controllers[0]} and {other}"
        yield "FieldValueInvalid", path, message


def _shown_owner(owner: dict[str, Any]) -> str:
    return json_text({field: owner[field] for field in _OWNER_FIELDS if field in owner})


def _validate_name(resource: ServedResource, metadata: dict[str, Any]) -> None:
    name, start = metadata.get("name", ""), metadata.get("generateName", "")
    if not name:
        raise invalid(resource, "", required("metadata.name", "name or generateName is required"))
    wrongs: Form = getattr(names, resource.rules.get("name", "subdomain"))
    # the letters that follow a dash at the end make it right
    completed = re.sub(".-$", "a", start)
    causes = [wrong("metadata.generateName", start, rule) for rule in wrongs(completed)] if start else []
    refuse(resource, name, [*causes, *misformed("metadata.name", name, wrongs)])


def prepare_for_update(resource: ServedResource, new: Content, old: Content) -> None:
    """Keep what an update cannot change, and refuse what it may not."""
    metadata, before = new["metadata"], old["metadata"]
    metadata["name"] = before["name"]
    causes = []
    if (mark := metadata.get("deletionTimestamp")) and "deletionTimestamp" not in before:
        causes.append(wrong("metadata.deletionTimestamp", mark, "field is immutable"))
    for field in _KEPT_FROM_OLD:
        take(metadata, field, before)
    refuse(resource, metadata["name"], [*causes, *_violations(resource, metadata)])
    added = [each for each in metadata.get("finalizers", ()) if each not in before.get("finalizers", ())]
    if added and "deletionTimestamp" in before:
        listed = ", ".join(f'"{each}"' for each in added)
        rule = "no new finalizers can be added if the object is being deleted, found new finalizers []string"
        cause = forbidden("metadata.finalizers", f"{rule}{{{listed}}}")
        raise invalid(resource, before["name"], cause)


def take(content: Content, field: str, source: Content) -> None:
    """Make a field what it is in another object, or absent as there."""
    if field in source:
        content[field] = source[field]
    else:
        content.pop(field, None)


def check_uid(target: Target, wanted: str | None, found: str = "") -> None:
    """Refuse a write that names another uid than the one found (none: the object is absent)."""
    if not wanted or wanted == found:
        return
    resource = target.resource
    place = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    cause = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{target.key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    raise conflict(resource, target.name, cause)


def is_true(content: Content, condition: str) -> bool:
    """Return whether a condition in an object's status is there, and True."""
    return (get_condition(content, condition) or {}).get("status") == "True"


def with_condition(status: Content, kind: str, value: str, **fields: Any) -> Content:
    """Return the status with a condition, whose time is that at which its own status changed."""
    before = get_condition({"status": status}, kind)
    since = before["lastTransitionTime"] if before and before["status"] == value else timestamp()
    new = {"type": kind, "status": value, "lastTransitionTime": since, **fields}
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    return status | {"conditions": list((conditions | {kind: new}).values())}
