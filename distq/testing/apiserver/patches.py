"""The patch formats JSON merge patch and JSON patch, and the names of all; the others have own modules.

All are pure: they return a new object and share what did not change.
Sources: RFC 7386, RFC 6902.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from distq.testing.apiserver.status import StatusError, bad_request

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


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
