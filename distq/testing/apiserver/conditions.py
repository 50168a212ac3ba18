"""The conditions in a status, as controllers of Kubernetes write them (apimachinery ``api/meta``)."""

from typing import Any

from distq.testing.apiserver.objects import timestamp
from distq.testing.apiserver.store import Content


def find_condition(status: Content, kind: str) -> dict[str, Any] | None:
    """Return the condition of a type, None where there is none."""
    return next((each for each in status.get("conditions", ()) if each["type"] == kind), None)


def with_condition(status: Content, kind: str, value: str, **fields: Any) -> Content:
    """Return the status with a condition, whose time is that at which its own status changed."""
    before = find_condition(status, kind)
    unchanged = before is not None and before["status"] == value
    since = before["lastTransitionTime"] if before and unchanged else timestamp()
    new = {"type": kind, "status": value, "lastTransitionTime": since, **fields}
    others = status.get("conditions", [])
    if before is None:
        return status | {"conditions": [*others, new]}
    return status | {"conditions": [new if each is before else each for each in others]}
