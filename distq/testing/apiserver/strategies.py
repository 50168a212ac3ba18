"""What differs from kind to kind when objects are written: defaults, status, generation, validation.

Only what controllers meet; the real server validates far more.
Source: kubernetes pkg/registry/*/*/strategy.go.
"""

import base64
from typing import Any

from distq.testing.apiserver import admission, typed
from distq.testing.apiserver.built_in import names_in
from distq.testing.apiserver.causes import forbidden, wrong
from distq.testing.apiserver.definitions import established, with_defaults
from distq.testing.apiserver.resources import DEFINITIONS, DEPLOYMENTS, LEASES, NAMESPACES, ServedResource
from distq.testing.apiserver.scale import violations_of_scale
from distq.testing.apiserver.schema_validation import violations
from distq.testing.apiserver.status import invalid, refuse
from distq.testing.apiserver.store import Content
from distq.testing.apiserver.validation import built_in_violations, changes_of_immutable, status_violations

_DATA = {("", "configmaps"), ("", "secrets")}
_IMMUTABLE = "field is immutable when `immutable` is set"


def prepare_for_create(resource: ServedResource, content: Content) -> None:
    """Set what the kind's new objects start with."""
    _normalize(resource, content)
    admission.admit(resource, content, None)
    if resource.status and resource.kind != "Node":
        content.pop("status", None)
        if not resource.custom:
            status = {"status": admission.initial_status(resource, content)}
            content["status"] = typed.decode(resource, status)["status"]
    _require_schema(resource, content)
    if resource == DEFINITIONS:
        content["status"] = established(content)
    if resource == NAMESPACES:
        metadata = content["metadata"]
        own_label = {"kubernetes.io/metadata.name": metadata["name"]}
        metadata["labels"] = metadata.get("labels", {}) | own_label
        finalizers = content.get("spec", {}).get("finalizers", [])
        content["spec"] = {
            "finalizers": [each for each in finalizers if each != "kubernetes"] + ["kubernetes"]
        }


def prepare_for_update(
    resource: ServedResource, new: Content, old: Content, *, finalizes: bool = False
) -> None:
    """Keep the status, and count the generation; of a namespace only what ``finalizes`` it sets the spec."""
    _normalize(resource, new)
    admission.admit(resource, new, old)
    _refuse_change_of_immutable(resource, new, old)
    if resource.status:
        _take(new, "status", old)
    if resource == NAMESPACES and not finalizes:
        _take(new, "spec", old)
    _require_schema(resource, new, old)
    if resource == NAMESPACES:
        own_label = {"kubernetes.io/metadata.name": new["metadata"]["name"]}
        new["metadata"]["labels"] = new["metadata"].get("labels", {}) | own_label
    if resource.generation and _intent(resource, new) != _intent(resource, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_for_status_update(resource: ServedResource, new: Content, old: Content) -> Content:
    """Return the old object with the new one's status; of built-in kinds most metadata comes along."""
    metadata = dict(old["metadata"])
    if not resource.custom and resource != DEFINITIONS:
        metadata = dict(new["metadata"])
        for field in names_in(resource.rules, "kept"):
            _take(metadata, field, old["metadata"])
        new = {"status": {}} | new
    updated = old | {"metadata": metadata}
    _take(updated, "status", new)
    if resource == NAMESPACES:
        _require_phase(updated)
    if not resource.custom and resource != DEFINITIONS:
        schema = resource.schema["properties"]["status"]
        causes = status_violations(schema, updated["status"], old.get("status", {}))
        refuse(resource, metadata["name"], causes)
    _require_schema(resource, updated, old)
    return updated


def _require_phase(namespace: Content) -> None:
    deleted = "deletionTimestamp" in namespace["metadata"]
    expected, empty = ("Terminating", "not empty") if deleted else ("Active", "empty")
    phase = namespace["status"].get("phase", "")
    if phase != expected:
        rule = f"may only be '{expected}' if `deletionTimestamp` is {empty}"
        raise invalid(NAMESPACES, namespace["metadata"]["name"], wrong("status.Phase", phase, rule))


def _require_schema(resource: ServedResource, new: Content, old: Content | None = None) -> None:
    """Refuse an object that breaks the rules of its kind, or changes what cannot change.

    A custom resource may go on breaking its schema where the old one did.
    """
    if resource.custom:
        before = None if old is None else resource.with_type(old)
        causes = list(violations(resource.schema, resource.with_type(new), before))
        causes += violations_of_scale(resource, new)
    else:
        causes = list(built_in_violations(resource.schema, new))
        causes += [] if old is None else changes_of_immutable(resource, new, old)
    refuse(resource, new["metadata"]["name"], causes)


def _take(content: Content, field: str, source: Content) -> None:
    if field in source:
        content[field] = source[field]
    else:
        content.pop(field, None)


def _intent(resource: ServedResource, content: Content) -> Any:
    """Return what the generation counts the changes of."""
    apart = {"metadata", "status"} if resource.status else {"metadata"}
    if resource.custom:
        return {field: value for field, value in content.items() if field not in apart}
    annotations = content["metadata"].get("annotations") if resource == DEPLOYMENTS else None
    labels = content["metadata"].get("labels") if resource.kind == "EndpointSlice" else None
    return {field: value for field, value in content.items() if field not in apart}, annotations, labels


def _normalize(resource: ServedResource, content: Content) -> None:
    if resource.identity == LEASES.identity:
        for gated in ("preferredHolder", "strategy"):
            content["spec"].pop(gated, None)
    elif resource.identity == DEFINITIONS.identity:
        _normalize_definition(content)
    elif resource.identity == ("", "secrets"):
        _normalize_secret(content)
    if resource.identity in _DATA:
        for field in [field for field in ("data", "binaryData") if not content.get(field)]:
            content.pop(field, None)


def _refuse_change_of_immutable(resource: ServedResource, new: Content, old: Content) -> None:
    changed = [field for field in ("immutable", "data", "binaryData") if new.get(field) != old.get(field)]
    if resource.identity in _DATA and old.get("immutable") and changed:
        refuse(resource, old["metadata"]["name"], [forbidden(field, _IMMUTABLE) for field in changed])


def _normalize_secret(content: Content) -> None:
    plain = content.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        content["data"] = (content.get("data") or {}) | encoded


def _normalize_definition(content: Content) -> None:
    spec = content.get("spec") or {}
    names = spec.get("names") or {}
    expected = f"{names.get('plural')}.{spec.get('group')}"
    name = content["metadata"]["name"]
    if name != expected:
        cause = wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        raise invalid(DEFINITIONS, name, cause)
    content["spec"] = with_defaults(spec)
