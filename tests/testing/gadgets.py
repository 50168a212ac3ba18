"""Gadgets: a custom kind whose schema asks for something of everything that schemas can."""

from typing import Any

Object = dict[str, Any]

GROUP = "gadgets.example.com"
_TEXT = {"type": "string"}
_PAIR = {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}}
_EITHER = [{"required": ["a"]}, {"required": ["b"]}]
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
FORMATS = (
    *("byte", "cidr", "date", "date-time", "duration", "email"),
    *("hostname", "ipv4", "ipv6", "mac", "uri", "uuid"),
)
_FIELDS: Object = {
    "replicas": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
    "between": {
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": True,
    },
    "small": {"type": "integer", "format": "int32"},
    "ratio": {"type": "number", "minimum": 0.5},
    "color": {"type": "string", "enum": ["red", "blue"]},
    "title": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
    "enabled": {"type": "boolean"},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": _TEXT},
    "set": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
    "map": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key"],
            "properties": {"key": _TEXT, "value": {"type": "integer"}},
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
    },
    "dictionary": {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "minProperties": 1,
        "maxProperties": 2,
    },
    "port": {"x-kubernetes-int-or-string": True},
    "nullable": {"type": "string", "nullable": True},
    "plain": _TEXT,
    "given": {"type": "string", "default": "by the schema"},
    "nested": {"type": "object", "default": {}, "properties": {"given": {"type": "string", "default": "x"}}},
    "free": _FREE,
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "whole": {**_PAIR, "x-kubernetes-map-type": "atomic"},
    "embedded": {**_FREE, "x-kubernetes-embedded-resource": True},
    "formats": {
        "type": "object",
        "properties": {name: {"type": "string", "format": name} for name in FORMATS},
    },
    "one": {**_PAIR, "oneOf": _EITHER},
    "any": {**_PAIR, "anyOf": _EITHER},
    "all": {**_PAIR, "allOf": _EITHER},
    "none": {**_PAIR, "not": {"required": ["a"]}},
}
SCHEMA: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {"type": "object", "required": ["replicas"], "properties": _FIELDS},
        "status": {
            "type": "object",
            "properties": {
                "ready": {"type": "integer"},
                "phase": {"type": "string", "enum": ["Pending", "Ready"]},
                "selector": _TEXT,
            },
        },
    },
}
_EMBEDDED = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "unknown": 1}, "anything": 1}

_BAD_REPLICAS: tuple[Any, ...] = (0, 3, 11, "2", None, 2.5, True, [])

SPECS: tuple[Any, ...] = (
    {},
    *({"replicas": value} for value in _BAD_REPLICAS),
    *({"between": value} for value in (1, 5, 9)),
    *({"small": value} for value in (2**31 - 1, 2**31)),
    *({"ratio": value} for value in (0.1, 1, 1.5, "x")),
    *({"color": value} for value in ("red", "green", 1)),
    *({"title": value} for value in ("a", "good", "too long", "A1")),
    *({"enabled": value} for value in (True, "true", 1)),
    *({"list": value} for value in ([], ["a"], ["a", "b", "c"], ["a", 1], "x", [None])),
    *({"set": value} for value in (["a", "b"], ["a", "a"])),
    {"map": [{"key": "a", "value": 1, "unknown": 1}]},
    {"map": [{"key": "a"}, {"key": "a"}]},
    {"map": [{"value": 1}]},
    {"map": [{"key": "a", "value": "x"}]},
    *({"dictionary": value} for value in ({}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": "x"})),
    *({"port": value} for value in (80, "http", True, 1.5)),
    *({name: None} for name in ("nullable", "plain", "given")),
    {"free": {"any": {"thing": [1]}}},
    *({"anything": value} for value in ([1, {"any": [{"thing": 1}]}], {"things": [{"any": 1}]}, 1)),
    {"whole": {"a": "1", "unknown": 1}},
    *({"embedded": value} for value in ({}, {"kind": "Pod"}, _EMBEDDED)),
    {"nested": {"unknown": 1}},
    {"formats": {"date": "2020-02-30", "date-time": "2020-01-01T00:00:00Z", "duration": "1h"}},
    {"formats": {"byte": "YQ==", "cidr": "10.0.0.0/8", "email": "a@example.com", "uri": "https://x.io"}},
    {"formats": {"ipv4": "10.0.0.1", "ipv6": "::1", "mac": "00:00:5e:00:53:01", "hostname": "a.example"}},
    {"formats": {"uuid": "123e4567-e89b-12d3-a456-426614174000", "date": "2020-02-29"}},
    *({"formats": {name: "!x y"}} for name in FORMATS),
    *(
        {"formats": {"mac": address}}
        for address in (
            *("5e", "00", "00-00-5e-00-53-01", "00:00-5e:00:53:01"),
            *("0000.5e00.5301", "0000.5e00.5301.0001", "02:00:5e:10:00:00:00:01", "0000.5e00"),
            *(":".join(["fe"] * 20), ".".join(["fe80"] * 10), ":".join(["fe"] * 7), "02:00:5e:10:00:00:00:"),
        )
    ),
    *(
        {name: value}
        for name in ("one", "any", "all", "none")
        for value in ({}, {"a": "1"}, {"a": "1", "b": "2"})
    ),
    {"unknown": 1, "replicas": 0, "color": "green"},
)
"""What to ask a Gadget for beside its two replicas."""


def definition() -> Object:
    """Return the definition of Gadgets."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.ready",
                "labelSelectorPath": ".status.selector",
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def gadget(name: str = "web", spec: Any = None, **fields: Any) -> Object:
    """Return a Gadget of two replicas, or of the spec that is given."""
    whole = {"replicas": 2, **spec} if isinstance(spec, dict) else {"replicas": 2} if spec is None else spec
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": metadata, "spec": whole, **fields}
