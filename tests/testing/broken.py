"""Ways to break an object: each field of it left out, emptied, doubled, or given what it cannot be."""

import random
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

Object = dict[str, Any]
Step = str | int
Change = Callable[[Any, Step], None]

_ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 70000, 2**31),
    *("", "x", "1", "-x", "a.b", "a/b", "a/b/c", "Not_A Name", "1Gi", "x" * 64, "x" * 254, "é"),
    *([], [""], {}, {"a": "b"}),
]
_NAMING = {"apiVersion", "kind", "metadata"}
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "one"}
_METADATA: list[Object] = [
    *(
        {field: {key: "x"}}
        for field in ("labels", "annotations")
        for key in ("", "A b", "a/b", "a/b/c", "/b")
    ),
    *({"labels": {"a": value}} for value in ("", "x y", "x" * 64, "-", 1, None)),
    *({"finalizers": [each]} for each in ("x", "orphan", "a.b/c", "a b/c", "", "A.b/c")),
    {"finalizers": ["a.b/c", "a.b/c"]},
    *({"generateName": start} for start in ("a-", "A_", "a.", "-")),
    *({"ownerReferences": [_OWNER | change]} for change in ({}, {"uid": ""}, {"name": ""}, {"kind": ""})),
    *({"ownerReferences": [_OWNER | {"apiVersion": version}]} for version in ("", "v1", "a/b/c")),
    {"ownerReferences": [_OWNER | {"apiVersion": "v1", "kind": "Event"}]},
    {"ownerReferences": [_OWNER, _OWNER]},
    {"ownerReferences": [_OWNER | {"controller": False, "blockOwnerDeletion": False}]},
    {"ownerReferences": [_OWNER | {"controller": True}, _OWNER | {"controller": True, "uid": "two"}]},
]


def wrong_types(content: Object) -> Iterator[tuple[str, Object]]:
    """Yield a place within the content, and the object that has a value of another type there."""
    for path, value in _places(content):
        other = {str: 1, int: "x", bool: "x", list: "x", dict: "x"}.get(type(value))
        if other is not None and path[0] not in _NAMING:
            yield ".".join(map(str, path)), _changed(content, path, _setter(other))


def with_value(content: Object, path: str, value: Any) -> Object:
    """Return the object with a value at a path such as ``spec/containers/0/env``."""
    steps = [int(each) if each.isdigit() else each for each in path.split("/")]
    return _changed(content, tuple(steps), _setter(value))


def broken_at_random(content: Object, chance: random.Random) -> Object:
    """Return an object that is broken in a place or two of it or of its metadata, or in none."""
    for _ in range(chance.choice([0, 1, 1, 1, 2])):
        places = [each for each in _places(content) if each[0][0] not in _NAMING]
        if not places or chance.random() < 0.2:
            metadata = content["metadata"] | chance.choice(_METADATA)
            content = {**content, "metadata": metadata}
        else:
            path, value = chance.choice(places)
            content = _changed(content, path, chance.choice(_changes(value)))
    return content


def _changed(content: Object, path: tuple[Step, ...], change: Change) -> Object:
    changed = deepcopy(content)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    change(holder, path[-1])
    return changed


def _places(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], Any]]:
    if path:
        yield path, value
    inner: Iterable[tuple[Step, Any]] = ()
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    for step, each in inner:
        yield from _places(each, (*path, step))


def _changes(value: Any) -> list[Change]:
    changes: list[Change] = [lambda holder, step: holder.pop(step)]
    changes += [_setter(each) for each in _ODD if (type(each), each) != (type(value), value)]
    if isinstance(value, list) and value:
        changes.append(_setter([*value, value[0]]))
    return changes


def _setter(value: Any) -> Change:
    def change(holder: Any, step: Step) -> None:
        holder[step] = deepcopy(value)

    return change
