"""What the server serves: one ServedResource per group, version and plural name.

What differs from kind to kind of the built-in ones is in two files beside this: their schemas, as the real
server publishes them, without prose; and all else. Definitions of schemas that refer to each other by name
there hold the objects themselves here.
Source: /openapi/v3 of kube-apiserver 1.36, and for pointers types.go of k8s.io/api.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Rules = Mapping[str, Any]
"""What ``built_in_kinds.yaml`` has of a kind, or of a type."""
Schema = Mapping[str, Any]

_RULES = Path(__file__).with_name("built_in_kinds.yaml")
SCHEMAS = Path(__file__).with_name("built_in_schemas.json")
PRESERVES = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
NAME = "x-distq-name"
"""In a schema: the name of the definition that it is, such as ``core.v1.PodSpec``."""
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
ANY_FIELD = ("metadata.name", "metadata.namespace")


@cache
def built_in() -> Mapping[str, Any]:
    """Return what differs from kind to kind and from type to type, and other words of the server."""
    content: Mapping[str, Any] = msgspec.yaml.decode(_RULES.read_bytes())
    return content


def rules_of(name: str) -> Rules:
    """Return the rules of a type, by its name in the schemas, empty where it has none."""
    rules: Rules = built_in()["types"].get(name, {})
    return rules


def names_in(rules: Rules, key: str) -> list[str]:
    """Return the names that rules list under a key."""
    return str(rules.get(key, "")).split()


def definition(name: str) -> Schema:
    """Return the schema of a type, such as ``core.v1.PodSpec``, with its references resolved."""
    return _definitions()[name]


def pointers(name: str) -> Sequence[str]:
    """Return the optional scalars of a definition that keep a zero: Go has pointers to them."""
    found: Sequence[str] = published()["pointers"].get(name, ())
    return found


@cache
def published() -> dict[str, Any]:
    """Return the content of ``built_in_schemas.json``: schemas, and the one of each kind."""
    content: dict[str, Any] = msgspec.json.decode(SCHEMAS.read_bytes())
    return content


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    """Return the definitions with what they refer to in place; some contain themselves."""
    definitions = {name: _named(name, schema) for name, schema in published()["definitions"].items()}

    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        whole = {**definitions[schema["$ref"]], **schema} if "$ref" in schema else dict(schema)
        for inner in ("items", "additionalProperties"):
            if isinstance(schema.get(inner), dict):
                whole[inner] = resolved(schema[inner])
        return whole

    for each in definitions.values():
        for name, schema in each.get("properties", {}).items():
            each["properties"][name] = resolved(schema)
    return definitions


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a definition that knows its name; one of no fields is of any."""
    if "properties" in schema:
        return {**schema, NAME: name, "properties": dict(schema["properties"])}
    return {**schema, NAME: name, PRESERVES: True}


class ScalePaths(NamedTuple):
    """The fields that the scale subresource shows: wanted replicas, those there are, and how to select them.

    A built-in kind has a label selector as an object, a custom one as a text, or none. Without the
    subresource all are empty.
    """

    replicas: tuple[str, ...] = ()
    status_replicas: tuple[str, ...] = ()
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedResource:
    """A served resource, and the rules of its kind that differ from kind to kind."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    """Whether it has the status subresource."""
    generation: bool = False
    """Whether ``metadata.generation`` counts the changes of its spec."""
    create_on_update: bool = False
    """Whether PUT creates what is absent (registry AllowCreateOnUpdate)."""
    unconditional_update: bool = True
    """Whether PUT needs no resourceVersion (registry AllowUnconditionalUpdate)."""
    returns_deleted: bool = False
    """Whether DELETE answers the object instead of a Status (registry ReturnDeletedObject)."""
    graceful: bool = False
    """Whether DELETE marks the object before it removes it; one with a node has its grace period."""
    orphans: bool = False
    """Whether DELETE leaves dependents where it does not say what becomes of them."""
    custom: bool = False
    """Whether a CustomResourceDefinition made it."""
    verbs: tuple[str, ...] = ALL_VERBS
    """What can be asked of it."""
    scale: ScalePaths = ScalePaths()
    """Where its replicas are, if it has the scale subresource."""
    columns: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """What tables show of a custom resource behind its name (additionalPrinterColumns)."""
    fields: tuple[str, ...] = ANY_FIELD
    """What field selectors may name."""
    schema: Schema = field(default_factory=dict, compare=False)
    """What its objects look like."""
    rules: Rules = field(default_factory=dict, compare=False)
    """What else differs from kind to kind of the built-in ones, see ``built_in_kinds.yaml``."""

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return the name that messages use, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def subresources(self) -> tuple[str, ...]:
        """Return the names of its subresources."""
        names = {"status": self.status, "scale": bool(self.scale.replicas)}
        names |= {"eviction": self == PODS, "finalize": self == NAMESPACES}
        # in the order of the real server's discovery
        return tuple(sorted((name for name, served in names.items() if served), reverse=self.custom))

    def with_type(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object of the resource with its kind and version."""
        return {"kind": self.kind, "apiVersion": self.api_version, **content}

    @property
    def identity(self) -> tuple[str, str]:
        """Return group and plural, which all versions of the resource share."""
        return self.group, self.plural


def _built_in(name: str, rules: Rules) -> ServedResource:
    api_version, _, kind = name.rpartition("/")
    group, _, version = api_version.rpartition("/")
    return ServedResource(
        group=group,
        version=version,
        kind=kind,
        plural=rules.get("plural", f"{kind.lower()}s"),
        singular=kind.lower(),
        list_kind=f"{kind}List",
        short_names=tuple(names_in(rules, "short")),
        categories=tuple(names_in(rules, "categories")),
        verbs=tuple(names_in(rules, "verbs")) or ALL_VERBS,
        scale=_SCALE if rules.get("scaled") else ScalePaths(),
        fields=(*ANY_FIELD, *names_in(rules, "fields")),
        schema=definition(published()["kinds"][name]),
        rules=rules,
        **{flag: rules[flag] for flag in _FLAGS & rules.keys()},
    )


_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
_FLAGS = {each.name for each in fields(ServedResource) if each.type is bool}
_KINDS = {name: _built_in(name, rules) for name, rules in built_in()["kinds"].items()}
BUILT_IN = tuple(_KINDS.values())
NAMESPACES, PODS = _KINDS["v1/Namespace"], _KINDS["v1/Pod"]
BUDGETS = _KINDS["policy/v1/PodDisruptionBudget"]
DEFINITIONS = _KINDS["apiextensions.k8s.io/v1/CustomResourceDefinition"]
ACCESS_REVIEWS = _KINDS["authorization.k8s.io/v1/SelfSubjectAccessReview"]
SUBRESOURCE_VERBS = {name: names_in(rules, "verbs") for name, rules in built_in()["subresources"].items()}
OF_SUBRESOURCES = {
    name: _built_in(rules["kind"], {})
    for name, rules in built_in()["subresources"].items()
    if "kind" in rules
}
"""What subresources take and answer, where that is no object of the resource itself."""
SCALES, EVICTIONS = OF_SUBRESOURCES["scale"], OF_SUBRESOURCES["eviction"]


class Catalogue:
    """The resources served now, found by group, version and plural name."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], ServedResource] = {}
        for resource in BUILT_IN:
            self.add(resource)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(list(self._resources.values()))

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource, or None where it is not served."""
        return self._resources.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource of a kind, or None where it is not served."""
        return next((each for each in self if (each.api_version, each.kind) == (api_version, kind)), None)

    def of(self, identity: tuple[str, str]) -> ServedResource | None:
        """Return the resource at any of its versions; None where it is not served."""
        return next((each for each in self if each.identity == identity), None)

    def built_in(self, group: str) -> bool:
        """Return whether the group is one of the server's own."""
        return any(each.group == group and not each.custom for each in self)

    def add(self, resource: ServedResource) -> None:
        """Serve the resource from now on."""
        self._resources[(resource.group, resource.version, resource.plural)] = resource

    def remove(self, identity: tuple[str, str]) -> None:
        """Serve no version of the resource any longer."""
        self._resources = {key: each for key, each in self._resources.items() if each.identity != identity}
