"""The patch formats: JSON merge patch, JSON patch, and strategic merge patch; not apply, which has its own.

All are pure: they return a new object and share what did not change.
Strategic merge knows the merge keys of the lists that controllers meet
(containers, env, ports, volumes, conditions...), not the whole schema.
Sources: RFC 7386, RFC 6902, apimachinery pkg/util/strategicpatch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from distq.testing.apiserver.status import StatusError, bad_request

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MERGE_KEYS: Mapping[str, Sequence[str]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "secrets": ("name",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_SET_LISTS = {"finalizers"}
"""Lists of which each item counts on its own."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def strategic_merge_patch(target: Any, patch: Any) -> Any:
    """Apply a strategic merge patch."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        _merge_field(merged, name, value)
    return merged


def _merge_field(merged: dict[str, Any], name: str, value: Any) -> None:
    if name.startswith("$"):
        _follow_directive(merged, name, value)
    elif value is None:
        merged.pop(name, None)
    elif isinstance(value, list):
        merged[name] = _merge_list(name, merged.get(name) or [], value)
    else:
        merged[name] = strategic_merge_patch(merged.get(name), value)


def _follow_directive(merged: dict[str, Any], name: str, value: Any) -> None:
    directive, _, field = name.partition("/")
    if directive == "$retainKeys":
        for absent in [each for each in merged if each not in value]:
            del merged[absent]
    elif directive == "$deleteFromPrimitiveList":
        merged[field] = [each for each in merged.get(field) or [] if each not in value]
    # $setElementOrder only orders: the merge keeps the order that it finds


def _merge_list(name: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if name in _SET_LISTS:
        return _merge_set(target, patch)
    key = _merge_key(name, patch)
    if key is None:
        return patch
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if each.get("$patch") != "replace"]
    merged = {each.get(key): each for each in target}
    for each in patch:
        if each.get("$patch") == "delete":
            merged.pop(each.get(key), None)
        else:
            merged[each.get(key)] = strategic_merge_patch(merged.get(each.get(key)), each)
    return list(merged.values())


def _merge_set(target: list[Any], patch: list[Any]) -> list[Any]:
    """Return both, each item once: in the patch's order; the others stay beside their neighbours."""
    merged = list(patch)
    for index, each in enumerate(target):
        if each not in merged:
            after = next(
                (merged.index(other) for other in target[index + 1 :] if other in merged), len(merged)
            )
            merged.insert(after, each)
    return merged


def _merge_key(name: str, patch: list[Any]) -> str | None:
    """Return the field that identifies the items of a list, or None where the list is one value."""
    candidates = _MERGE_KEYS.get(name, ())
    if not all(isinstance(each, dict) for each in patch):
        return None
    return next((key for key in candidates if all(key in each or "$patch" in each for each in patch)), None)


def json_patch(document: Any, operations: Any) -> Any:
    """Apply a JSON patch; a failed operation is an Invalid answer and changes nothing."""
    if not isinstance(operations, list | None):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    for operation in operations or ():
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:
    kind = operation.get("op")
    path = _steps(operation.get("path"))
    if kind == "test":
        place = _lookup(document, path[:-1])
        if _lookup(place, path[-1:], default=None) != operation.get("value"):
            raise _rejected()
        return document
    if kind in {"add", "replace"}:  # the real one lets replace add to a map, too
        return _set(document, path, operation.get("value"), insert=kind == "add")
    if kind == "remove":
        return _remove(document, path)
    if kind in {"move", "copy"}:
        source = _steps(operation.get("from", ""))
        place = _lookup(document, source[:-1])
        value = _lookup(place, source[-1:], default=_REQUIRED if kind == "move" else None)
        rest = _remove(document, source) if kind == "move" else document
        return _set(rest, path, value, insert=True)
    raise _rejected()


def _rejected() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, details={})


def _steps(path: Any) -> list[str]:
    if not isinstance(path, str) or path[:1] not in {"", "/"}:
        raise _rejected()
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


_REQUIRED = object()


def _lookup(document: Any, path: Sequence[str], default: Any = _REQUIRED) -> Any:
    value = document
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif default is _REQUIRED:
            raise _rejected()
        else:
            return default
    return value


def _set(document: Any, path: Sequence[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        index = (
            len(document) if step == "-" and not rest else _index(step, document, past=insert and not rest)
        )
        if rest:
            return [
                *document[:index],
                _set(document[index], rest, value, insert=insert),
                *document[index + 1 :],
            ]
        return [*document[:index], value, *document[index if insert else index + 1 :]]
    if not isinstance(document, dict) or (rest and step not in document):
        raise _rejected()
    return document | {step: _set(document.get(step), rest, value, insert=insert)}


def _remove(document: Any, path: Sequence[str]) -> Any:
    _lookup(document, path)
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        index = _index(step, document)
        kept = [_remove(document[index], rest)] if rest else []
        return [*document[:index], *kept, *document[index + 1 :]]
    if rest:
        return document | {step: _remove(document[step], rest)}
    return {name: value for name, value in document.items() if name != step}


def _index(step: str, array: list[Any], *, past: bool = False) -> int:
    if not step.isdecimal() or int(step) >= len(array) + past:
        raise _rejected()
    return int(step)
