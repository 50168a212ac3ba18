"""The patch formats: JSON merge patch, JSON patch, strategic merge patch; apply has a module of its own.

All are pure: they return a new object. A strategic merge patch merges lists as the schemas of Kubernetes' own
kinds say.
Sources: RFC 7386, RFC 6902, apimachinery pkg/util/strategicpatch.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from distq.testing.apiserver.field_sets import FREE
from distq.testing.apiserver.resources import Schema
from distq.testing.apiserver.status import StatusError, bad_request
from distq.testing.apiserver.structural import field_schema
from distq.testing.apiserver.typed import json_word

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_OPERATION = "handlers.jsonPatchOp"
"""The type of an operation, as the server names it."""
_STRATEGY, _MERGE_KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"
_DIRECTIVE, _RETAINED = "$patch", "$retainKeys"
_ORDER, _DELETED = "$setElementOrder/", "$deleteFromPrimitiveList/"

Identity = Callable[[Any], Hashable]
"""From an item of a list to what distinguishes it from the others."""


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
        raise _undecodable(operations, f"value of type []{_OPERATION}")
    for operation in operations or ():
        if not isinstance(operation, dict | None):
            raise _undecodable(operation, f"value of type {_OPERATION}")
        for field in ("op", "from", "path"):
            if operation and not isinstance(operation.get(field), str | None):
                raise _undecodable(operation[field], f"struct field jsonPatchOp.{field} of type string")
    root = {"": deepcopy(document)}  # so that the steps of a path begin with an empty one
    for operation in operations or ():
        _operate(root, operation or {})
    return root[""]


def _undecodable(value: Any, wanted: str) -> StatusError:
    return bad_request(f"error decoding patch: json: cannot unmarshal {json_word(value)} into Go {wanted}")


def _operate(root: dict[str, Any], operation: Mapping[str, Any]) -> None:
    kind, path = operation.get("op"), _steps(operation.get("path"))
    if kind == "test":
        if _lookup(root, path, may_be_absent=True) != operation.get("value"):
            raise _rejected()
    elif kind in {"add", "replace"}:  # the real one lets replace add to a map, too
        _put(root, path, operation.get("value"), insert=kind == "add")
    elif kind == "remove":
        _remove(root, path)
    elif kind == "move":
        source = _steps(operation.get("from"))
        value = _lookup(root, source)
        _remove(root, source)
        _put(root, path, value, insert=True)
    elif kind == "copy" and (source := _steps(operation.get("from"))) != [""]:
        _put(root, path, _lookup(root, source, may_be_absent=True), insert=True)
    else:
        raise _rejected()


def _rejected() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, message, details={})


def _steps(path: Any) -> list[str]:
    if not isinstance(path, str) or path[:1] not in {"", "/"}:
        raise _rejected()
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]


def _lookup(document: Any, path: Sequence[str], *, may_be_absent: bool = False) -> Any:
    """Return the value at a path, None where only the last step of it leads nowhere and that may be."""
    value = document
    for depth, step in enumerate(path, start=1):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif depth == len(path) and may_be_absent:
            return None
        else:
            raise _rejected()
    return value


def _put(root: dict[str, Any], path: Sequence[str], value: Any, *, insert: bool) -> None:
    place, step = _lookup(root, path[:-1]), path[-1]
    if place is root and not isinstance(value, dict | list):
        raise _rejected()
    value = deepcopy(value)  # a later operation may change it here alone
    if isinstance(place, dict):
        place[step] = value
    elif not isinstance(place, list):
        raise _rejected()
    elif step == "-":
        place.append(value)
    elif insert:
        place.insert(_index(step, place, past=True), value)
    else:
        place[_index(step, place)] = value


def _remove(root: dict[str, Any], path: Sequence[str]) -> None:
    _lookup(root, path)
    place, step = _lookup(root, path[:-1]), path[-1]
    if place is root:
        raise _rejected()
    del place[_index(step, place) if isinstance(place, list) else step]


def _index(step: str, array: list[Any], *, past: bool = False) -> int:
    if not step.isdecimal() or int(step) >= len(array) + past:
        raise _rejected()
    return int(step)


def strategic_merge_patch(schema: Schema, target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a patch merged into it; raise StatusError for a patch that cannot be."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive is not None:
        raise StatusError(500, f"unknown patch type: {directive} in map: {patch}")
    kept = patch.get(_RETAINED, list(target))
    if not isinstance(kept, list):
        raise bad_request("invalid patch format of retainKeys")
    merged = {name: value for name, value in target.items() if name in kept}
    for name, value in patch.items():
        if name.startswith(_DELETED):
            field = name.removeprefix(_DELETED)
            if isinstance(before := merged.get(field), list):
                _require_list(value)
                merged[field] = [each for each in before if each not in value]
        elif not name.startswith("$"):
            _merge_field(field_schema(schema, name) or FREE, merged, name, value)
    for name, order in patch.items():
        field = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and field in merged:
            identity = _identity(field_schema(schema, field) or FREE)
            _require_list(order)
            _require_list(merged[field])
            items, left = patch.get(field) or [], iter(map(identity, order))
            if not all(identity(each) in left for each in items if not _is_directive(each)):
                lists = f"patch list:\n{items}\n doesn't match $setElementOrder list:\n{order}\n"
                raise StatusError(500, f"the order in {lists}")
            merged[field] = _in_order(merged[field], order, target.get(field) or [], identity)
    return merged


def _require_list(value: Any) -> None:
    if not isinstance(value, list):
        raise StatusError(500, f"expected a []interface {{}}, but received a {json_word(value)}")


def _merge_field(schema: Schema, merged: dict[str, Any], name: str, value: Any) -> None:
    before, strategies = merged.get(name), str(schema.get(_STRATEGY, "")).split(",")
    if value is None:
        merged.pop(name, None)
    elif name not in merged:
        if not _is_directive(value):
            merged[name] = _without_directives(value)
    elif isinstance(value, dict) and isinstance(before, dict) and "replace" not in strategies:
        merged[name] = strategic_merge_patch(schema, before, value)
    elif isinstance(value, list) and isinstance(before, list) and "merge" in strategies:
        merged[name] = _merged_list(schema, before, value)
    else:
        merged[name] = value


def _merged_list(schema: Schema, target: Sequence[Any], patch: Sequence[Any]) -> list[Any]:
    """Return the items of both, each once: those of the patch in its order, the others at their places."""
    identity = _identity(schema)
    directives = [each for each in patch if _is_directive(each)]
    items = [each for each in patch if not _is_directive(each)]
    if any(each[_DIRECTIVE] == "replace" for each in directives):
        return items
    deleted = {identity(each) for each in directives}
    merged = {identity(each): each for each in target if identity(each) not in deleted}
    for each in items:
        place = identity(each)
        if place in merged and isinstance(each, dict):
            merged[place] = strategic_merge_patch(schema.get("items") or FREE, merged[place], each)
        else:
            merged[place] = _without_directives(each)
    return _in_order(list(merged.values()), items, target, identity)


def _in_order(
    merged: Sequence[Any], wanted: Sequence[Any], before: Sequence[Any], identity: Identity
) -> list[Any]:
    """Return items in the wanted order; those without one come before the first that was behind them."""
    current = {identity(each): each for each in merged}
    places = {identity(each): place for place, each in enumerate(before)}
    order = [each for each in dict.fromkeys(map(identity, wanted)) if each in current]
    others = [each for each in places if each in current and each not in order]
    result: list[Any] = []
    for each in order:
        while others and places[others[0]] < places.get(each, -1):
            result.append(others.pop(0))
        result.append(each)
    return [current[each] for each in [*result, *others]]


def _identity(schema: Schema) -> Identity:
    """Return what distinguishes the items of a list: their merge key, or their values."""
    key = schema.get(_MERGE_KEY)
    if key is None:
        return _hashable

    def of_item(each: Any) -> Hashable:
        if not isinstance(each, dict) or key not in each:
            raise StatusError(500, f"map: {each} does not contain declared merge key: {key}")
        return _hashable(each[key])

    return of_item


def _hashable(value: Any) -> Hashable:
    return str(value) if isinstance(value, dict | list) else value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _without_directives(value: Any) -> Any:
    """Return what a patch has for what was not there: nothing in it is to be removed."""
    if isinstance(value, dict):
        return {
            name: _without_directives(each)
            for name, each in value.items()
            if each is not None and not name.startswith("$") and not _is_directive(each)
        }
    if isinstance(value, list):
        return [_without_directives(each) for each in value if not _is_directive(each)]
    return value
