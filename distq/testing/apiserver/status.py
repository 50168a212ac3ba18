"""Answers other than success: metav1.Status, worded as the real server words them.

Source: apimachinery pkg/api/errors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from distq.testing.apiserver.causes import Cause, json_text
from distq.testing.apiserver.resources import ServedResource, built_in


@dataclass(eq=False)
class StatusError(Exception):
    """An answer of the API other than success; ``reason`` is by default that of the code, if it has one."""

    code: int
    message: str
    _: KW_ONLY
    reason: str = ""
    details: Mapping[str, Any] | None = None
    continue_token: str = ""

    def __str__(self) -> str:
        return self.message

    def as_object(self) -> dict[str, Any]:
        """Return the Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason or built_in()["reasons"].get(str(self.code)),
            "details": self.details,
            "code": self.code,
        }
        return {name: value for name, value in status.items() if value is not None}


def success() -> dict[str, Any]:
    """Return the Status object of a request that succeeded and has no object to answer."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def deleted(resource: ServedResource, name: str, uid: str) -> dict[str, Any]:
    """Return the Status object that answers a finished delete."""
    return success() | {"details": _details(resource, name) | {"uid": uid}}


def not_found(resource: ServedResource, name: str) -> StatusError:
    """Return the answer for an object that does not exist."""
    message = f'{resource.qualified} "{name}" not found'
    return StatusError(404, message, details=_details(resource, name))


def no_such_resource() -> StatusError:
    """Return the answer for a resource that a served group does not have."""
    return StatusError(404, "the server could not find the requested resource", details={})


def already_exists(resource: ServedResource, name: str, *, deleting: bool) -> StatusError:
    """Return the answer for a create of what exists, perhaps held by finalizers."""
    message = f'{resource.qualified} "{name}" already exists'
    message = f"object is being deleted: {message}" if deleting else message
    return StatusError(409, message, reason="AlreadyExists", details=_details(resource, name))


def conflict(resource: ServedResource, name: str, cause: str) -> StatusError:
    """Return the answer for a write that is based on an old version or another object."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {cause}'
    return StatusError(409, message, details=_details(resource, name))


def apply_conflicts(conflicts: Sequence[tuple[str, Sequence[str]]]) -> StatusError:
    """Return the answer for an apply of fields that others manage, with the managers and the fields."""
    reason = "FieldManagerConflict"
    causes = [(reason, field, f"conflict with {who}") for who, fields in conflicts for field in fields]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0][2]}: {causes[0][1]}"
    else:
        listed = ["\n- ".join([f"conflicts with {who}:", *fields]) for who, fields in conflicts]
        text = "\n".join([f"Apply failed with {len(causes)} conflicts: {listed[0]}", *listed[1:]])
    return StatusError(409, text, details={"causes": _listed(causes)})


def forbidden(resource: ServedResource, name: str, rule: str, *causes: Cause) -> StatusError:
    """Return the answer for what is not allowed."""
    message = f'{resource.qualified} "{name}" is forbidden: {rule}'
    details = _details(resource, name) | ({"causes": _listed(causes)} if causes else {})
    return StatusError(403, message, details=details)


def disruption(message: str, *, retry_after: int = 0) -> StatusError:
    """Return the answer for an eviction that a PodDisruptionBudget does not allow, and why."""
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    details |= {"retryAfterSeconds": retry_after} if retry_after else {}
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return StatusError(429, text, details=details)


def refuse(resource: ServedResource, name: str, causes: Iterable[Cause]) -> None:
    """Raise the answer for an object that breaks rules, where there are causes."""
    if found := list(causes):
        raise invalid(resource, name, *found)


def invalid(resource: ServedResource, name: str, *causes: Cause, kind: str = "") -> StatusError:
    """Return the answer for an object that breaks rules; another ``kind`` may be named."""
    return _invalid(resource.group, kind or resource.kind, name, causes)


def invalid_options(kind: str, *causes: Cause) -> StatusError:
    """Return the answer for parameters, of this kind of options, that contradict each other."""
    return _invalid("meta.k8s.io", kind, "", causes)


def _invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    listed = [f"{field}: {message}" for _, field, message in causes]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    shown = {"name": name, "group": group, "kind": kind}
    details = {field: text for field, text in shown.items() if text} | {"causes": _listed(causes)}
    qualified = f"{kind}.{group}" if group else kind
    return StatusError(422, f'{qualified} "{name}" is invalid: {text}', details=details)


def _listed(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"reason": reason, "message": message, "field": field} for reason, field, message in causes]


def bad_request(message: str) -> StatusError:
    """Return the answer for a request that makes no sense."""
    return StatusError(400, message)


def method_not_allowed() -> StatusError:
    """Return the answer for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, message, details={})


def undecodable(resource: ServedResource, cause: str, *, kind: str = "") -> StatusError:
    """Return the answer for a body that is no object of the kind; another ``kind`` may be named."""
    given = f'{kind or resource.kind} in version "{resource.version}"'
    return bad_request(f"{given} cannot be handled as a {resource.kind}: {cause}")


def not_patched(patched: Mapping[str, Any], cause: str) -> StatusError:
    """Return the answer for a patch that leaves no object of the resource's kind."""
    found = json_text(json_text(patched))
    message = f"Invalid value: {found}: {cause}"
    causes = _listed([("FieldValueInvalid", "patch", message)])
    return StatusError(422, f' "" is invalid: patch: {message}', details={"causes": causes})


def unsupported_media_type(*accepted: str) -> StatusError:
    """Return the answer for a body of a kind that is not understood."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, message + ", ".join(accepted))


def _details(resource: ServedResource, name: str) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural}
