"""Fields at random, of those that a kind's published schema has."""

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from distq.testing.apiserver.resources import NAME, Schema

Object = dict[str, Any]

_NOT_DRAWN = {"apiVersion", "kind", "metadata", "status"}
_OF_A_GATE = {"core.v1.PodSpec": {"schedulingGroup"}, "core.v1.Lifecycle": {"stopSignal"}}
"""Fields that the real server drops while a feature is off."""
_OF_A_DRIVER = {"core.v1.PersistentVolumeClaimSpec": {"dataSource", "dataSourceRef"}}
"""Fields that the real server drops where no driver is known that can fill the volume from that kind."""
_DEEPEST = 4
_OF_FORM: Mapping[str, list[Any]] = {
    "api.resource.Quantity": ["0", "1", "500m"],
    "meta.v1.MicroTime": ["2026-01-01T00:00:00.000000Z"],
    "meta.v1.Time": ["2026-01-01T00:00:00Z"],
    "util.intstr.IntOrString": [1, "50%", "web"],
}
_OF_TYPE: Mapping[str, list[Any]] = {
    "boolean": [False, True],
    "integer": [0, 1, 2, -1],
    "string": ["web", "", "a.b/c"],
}


def with_a_field(schema: Schema, content: Object, chance: random.Random) -> Object:
    """Return the object with another field of its kind, or of what it has within, set to something."""
    content = deepcopy(content)
    struct, fields = chance.choice(list(_structs(schema, content)))
    known = _known(struct)
    if known:
        field = chance.choice(sorted(known))
        fields[field] = _drawn(known[field], chance, 0)
    return content


def _known(struct: Schema) -> Mapping[str, Schema]:
    name = struct.get(NAME, "")
    apart = _NOT_DRAWN | _OF_A_GATE.get(name, set()) | _OF_A_DRIVER.get(name, set())
    return {field: schema for field, schema in struct["properties"].items() if field not in apart}


def _structs(schema: Schema, value: Any) -> Iterator[tuple[Schema, Object]]:
    if isinstance(value, list):
        for each in value:
            yield from _structs(schema.get("items") or {}, each)
    elif isinstance(value, dict) and "properties" in schema:
        yield schema, value
        for field in value.keys() - _NOT_DRAWN:
            yield from _structs(schema["properties"].get(field) or {}, value[field])


def _drawn(schema: Schema, chance: random.Random, depth: int) -> Any:
    named = _OF_FORM.get(schema.get(NAME, ""))
    if choices := named or schema.get("enum") or _OF_TYPE.get(schema.get("type", "")):
        return chance.choice(choices)
    is_list = schema.get("type") == "array"
    if depth == _DEEPEST:
        return [] if is_list else {}
    if is_list:
        return [_drawn(schema["items"], chance, depth + 1) for _ in range(chance.choice([0, 1, 1, 2]))]
    if "properties" in schema:
        needed = schema.get("required", ())
        return {
            field: _drawn(inner, chance, depth + 1)
            for field, inner in _known(schema).items()
            if field in needed or chance.random() < 0.3
        }
    values = schema.get("additionalProperties")
    return {"a": _drawn(values, chance, depth + 1)} if isinstance(values, dict) else {}
