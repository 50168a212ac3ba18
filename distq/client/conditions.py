"""The conditions in an object's status: its states, since when, and why (apimachinery ``api/meta``)."""

import contextlib
import copy
import re
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal

from distq.client.objects import Object, metadata, title
from distq.errors import ConfigError

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""Source: the schema of metav1.Condition."""
_STATUSES = {True: "True", False: "False", None: "Unknown"}


def get_condition(obj: Object, type: str) -> Object | None:  # noqa: A002  the field's name
    """Return the condition of this type in the object's status, None when there is none.

    Source: meta.FindStatusCondition.
    """
    return next((each for each in _conditions(obj) if each.get("type") == type), None)


def set_condition(
    obj: Object,
    type: str,  # noqa: A002  the field's name
    status: bool | Literal["True", "False", "Unknown"] | None,
    *,
    reason: str,
    message: str = "",
    last_transition_time: datetime | None = None,
) -> bool:
    """Set a condition in the object's status, in place; return whether anything changed.

    ``status`` is True, False, None for unknown, or its text; ``reason`` one word in CamelCase. The transition
    time, now unless given, changes with the status alone. ``observedGeneration`` is the object's generation;
    a condition that has none gets it with its next change alone, as some kinds (ReplicaSet, Deployment) keep
    none. ``Client.patch_status`` then compares with the status before. ConfigError for a status or reason
    that Kubernetes refuses. Source: meta.SetStatusCondition.
    """
    text = _STATUSES.get(status, status) if status is None or isinstance(status, bool) else status
    if text not in _STATUSES.values():
        raise ConfigError(f"bad status {status!r:.80} of condition {type}. Give True, False or None.")
    if not isinstance(reason, str) or not _REASON.fullmatch(reason):
        raise ConfigError(f"bad reason {reason!r:.80} of condition {type}. Give a word in CamelCase.")
    wanted: dict[str, Any] = {"type": type, "status": text, "reason": reason, "message": message}
    if metadata(obj).get("generation"):
        wanted["observedGeneration"] = metadata(obj)["generation"]
    conditions = _conditions(obj)
    existing = get_condition(obj, type)
    if existing is not None and _contains(existing, wanted):
        _remember(obj)
        return False
    if existing is None or existing.get("status") != text:
        moment = (last_transition_time or datetime.now(UTC)).astimezone(UTC)
        # as metav1.Time: no fractions
        wanted["lastTransitionTime"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    if existing is None:
        conditions = [*conditions, wanted]
    else:
        conditions = [{**each, **wanted} if each is existing else each for each in conditions]
    _put(obj, conditions)
    return True


def remove_condition(obj: Object, type: str) -> bool:  # noqa: A002  the field's name
    """Remove the condition of this type from the object's status, in place; return whether there was one.

    ``Client.patch_status`` then compares with the status before. Source: meta.RemoveStatusCondition.
    """
    conditions = _conditions(obj)
    kept = [each for each in conditions if each.get("type") != type]
    if kept != conditions:
        _put(obj, kept)
    elif obj.get("status"):  # one that is absent stays so
        _remember(obj)
    return kept != conditions


def _contains(existing: Object, wanted: Object) -> bool:
    """Return whether a condition has all wanted fields, except those that some kinds do not keep."""
    unkept = {"message": "", "observedGeneration": wanted.get("observedGeneration")}
    return {**unkept, **existing}.items() >= wanted.items()


def _remember(obj: Object) -> None:
    """Let the status remember its state as read, so that later changes of it are seen."""
    if not isinstance(obj["status"], ChangedStatus):
        _put(obj)


def _put(obj: Object, conditions: list[Object] | None = None) -> None:
    """Give the object a status that remembers its state as read, with these conditions, if given."""
    _let_yaml_write()
    changed = ChangedStatus(obj.get("status") or {})
    if conditions is not None:
        changed["conditions"] = conditions
    # a deep copy: both would share their inner values, which programs change in place
    changed.as_read = copy.deepcopy(status_as_read(obj))
    obj["status"] = changed


class ChangedStatus(dict[str, Any]):
    """A status that was changed in place, and its state before, which has to live as long as the status.

    json, yaml and comparisons take it as a plain dict.
    """

    as_read: Object


@cache
def _let_yaml_write() -> None:
    """Register the type with yaml, which refuses others."""
    with contextlib.suppress(ImportError):  # it may be missing, or a module of the program with this name
        from yaml.representer import SafeRepresenter

        SafeRepresenter.add_representer(ChangedStatus, SafeRepresenter.represent_dict)


def status_as_read(obj: Object) -> Object:
    """Return the object's status as it was before conditions were set in it."""
    status = obj.get("status") or {}
    return status.as_read if isinstance(status, ChangedStatus) else status


def _conditions(obj: Object) -> list[Object]:
    found = (obj.get("status") or {}).get("conditions") or []
    if not all(isinstance(each, dict) for each in found):
        raise ConfigError(f"bad conditions of {title(obj)}: not a list of objects. Correct its status.")
    return list(found)
