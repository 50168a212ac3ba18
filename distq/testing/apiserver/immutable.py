"""Fields of built-in kinds that an update cannot change.

Where the real server quotes a difference, or a value by Go's names, the message
has the JSON instead.
Source: kubernetes pkg/apis/*/validation (ValidateUpdate).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distq.testing.apiserver.causes import Cause, forbidden, wrong
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content

_FIXED: Mapping[str, Sequence[str]] = {
    "DaemonSet": ("spec.selector",),
    "Deployment": ("spec.selector",),
    "EndpointSlice": ("addressType",),
    "IngressClass": ("spec.controller",),
    "Job": ("spec.selector", "spec.completionMode", "spec.template"),
    "ReplicaSet": ("spec.selector",),
    "Secret": ("type",),
    "StorageClass": ("provisioner",),
}
_FORBIDDEN: Mapping[str, Mapping[str, str]] = {
    "PriorityClass": {"value": "may not be changed in an update."},
    "StorageClass": {
        "parameters": "updates to parameters are forbidden.",
        "reclaimPolicy": "updates to reclaimPolicy are forbidden.",
    },
}
_CHANGEABLE: Mapping[str, tuple[Sequence[str], str]] = {
    "PersistentVolumeClaim": (
        ("resources", "volumeAttributesClassName", "volumeName", "storageClassName"),
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
        "claims",
    ),
    "Pod": (
        (
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
            "schedulingGates",
            "nodeName",
        ),
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
        "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
        "previously negative)",
    ),
    "StatefulSet": (
        (
            *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
            *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
        ),
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden",
    ),
}
"""Of the specs of these kinds: what can be changed, and what is said where something else is."""
_ABSENT: Any = None


def changes_of_immutable(resource: ServedResource, new: Content, old: Content) -> Iterator[Cause]:
    """Yield what an update changes that stays as it was created."""
    kind = resource.kind
    for path in _FIXED.get(kind, ()):
        value, before = _at(new, path), _at(old, path)
        if value != before and before is not _ABSENT:
            yield wrong(path, value, "field is immutable")
    for path, message in _FORBIDDEN.get(kind, {}).items():
        if _at(new, path) != _at(old, path):
            yield forbidden(path, message)
    if kind in {"ClusterRoleBinding", "RoleBinding"} and new["roleRef"] != old["roleRef"]:
        yield wrong("roleRef", new["roleRef"], "cannot change roleRef")
    if kind in _CHANGEABLE:
        yield from _other_changes(kind, new["spec"], old["spec"])


def _other_changes(kind: str, new: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    changeable, message = _CHANGEABLE[kind]
    fixed = [
        {name: _without_images(each) for name, each in spec.items() if name not in changeable}
        for spec in (new, old)
    ]
    if fixed[0] != fixed[1]:
        yield forbidden("spec", message)


def _without_images(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        {k: v for k, v in each.items() if k != "image"} if isinstance(each, dict) else each for each in value
    ]


def _at(content: Content, path: str) -> Any:
    value: Any = content
    for step in path.split("."):
        value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
    return value
