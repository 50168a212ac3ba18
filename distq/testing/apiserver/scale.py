"""The scale subresource: an object's replicas as a Scale, and the object with the replicas of a Scale.

Source: kubernetes pkg/registry/apps/*/storage, apiextensions-apiserver pkg/registry/customresource.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from distq.testing.apiserver.causes import GO_TYPES, Cause, go_text, wrong
from distq.testing.apiserver.resources import SCALES, ServedResource
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.status import conflict, invalid
from distq.testing.apiserver.store import Content, Stored, value_at

_MOST = 2**31 - 1
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: ServedResource, stored: Stored) -> Stored:
    """Return an object as its Scale."""
    return Stored(stored.key, _scale(resource, stored.content), stored.revision)


def scaling(
    resource: ServedResource, change: Callable[[Content], Content]
) -> Callable[[Content | None], Content]:
    """Return the change of an object that a change of its Scale means."""

    def scaled(existing: Content | None) -> Content:
        existing = existing or {}
        scale = change(_scale(resource, existing))
        if not resource.custom:
            _require(resource, existing["metadata"], scale)
        metadata = dict(existing["metadata"])
        version = scale["metadata"].get("resourceVersion", "")
        if version or not resource.custom:
            metadata["resourceVersion"] = version
        whole = existing | {"metadata": metadata}
        return _with(whole, resource.scale.replicas, scale["spec"].get("replicas", 0))

    return scaled


def violations_of_scale(resource: ServedResource, content: Content) -> Iterator[Cause]:
    """Yield what keeps a custom resource from having a Scale."""
    for path in filter(None, (resource.scale.replicas, resource.scale.status_replicas)):
        value, problem = value_at(content, path), _mistyped(content, path)
        if problem:
            value = 0
        elif value is not None and value < 0:
            problem = "should be a non-negative integer"
        elif value is not None and value > _MOST:
            problem = f"should be less than or equal to {_MOST}"
        if problem:
            yield wrong(f".{'.'.join(path)}", value, problem)


def _scale(resource: ServedResource, content: Content) -> Content:
    metadata, paths = content["metadata"], resource.scale
    selector: Any = value_at(content, paths.selector) if paths.selector else ""
    text = selector if resource.custom else text_of_label_selector(selector or {})
    replicas = value_at(content, paths.replicas)
    status = {"replicas": value_at(content, paths.status_replicas) or 0}
    return {
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status | ({"selector": text} if text else {}),
    }


def _require(resource: ServedResource, metadata: Content, scale: Content) -> None:
    """Refuse a Scale that no object of a built-in kind can have."""
    name, replicas = metadata["name"], scale["spec"].get("replicas", 0)
    if replicas < 0:
        raise invalid(SCALES, name, wrong("spec.replicas", replicas, "must be greater than or equal to 0"))
    uid = scale["metadata"].get("uid", metadata["uid"])
    if uid != metadata["uid"]:
        cause = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        raise conflict(replace(resource, plural=f"{resource.plural}/scale"), name, cause)


def _mistyped(content: Content, path: Sequence[str]) -> str:
    """Return what on a path is no map, or at its end no whole number; empty where all is right, or absent."""
    value: Any = content
    for depth, step in enumerate(path, start=1):
        if not isinstance(value, dict):
            return _wrong(path[:depth], value, "map[string]interface{}")
        if step not in value:
            return ""
        value = value[step]
    return "" if type(value) is int else _wrong(path, value, "int64")


def _wrong(path: Sequence[str], value: Any, wanted: str) -> str:
    found = f"{go_text(value)} is of the type {GO_TYPES[type(value)]}"
    return f".{'.'.join(path)} accessor error: {found}, expected {wanted}"


def _with(content: Content, path: Sequence[str], value: Any) -> Content:
    first, *rest = path
    return content | {first: _with(content.get(first) or {}, rest, value) if rest else value}
