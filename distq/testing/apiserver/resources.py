"""What the server serves: one ServedResource per group, version and plural name."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from distq.testing.apiserver.built_in import Rules, Schema, built_in, names_in, schema_of

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = {
    "eviction": ("create",),
    "finalize": ("update",),
    "scale": ("get", "patch", "update"),
    "status": ("get", "patch", "update"),
}
ANY_FIELD = ("metadata.name", "metadata.namespace")


class ScalePaths(NamedTuple):
    """The fields that the scale subresource shows: wanted replicas, those there are, and how to select them.

    A built-in kind has a label selector as an object, a custom one as a text, or none.
    """

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
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
    scale: ScalePaths | None = None
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
        names = {"status": self.status, "scale": self.scale is not None}
        names |= {"eviction": self == PODS, "finalize": self == NAMESPACES}
        return tuple(sorted((name for name, served in names.items() if served), reverse=self.custom))

    def with_type(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object of the resource with its kind and version."""
        return {"kind": self.kind, "apiVersion": self.api_version, **content}

    @property
    def identity(self) -> tuple[str, str]:
        """Return what all versions of the resource share."""
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
        scale=_SCALE if rules.get("scaled") else None,
        fields=(*ANY_FIELD, *names_in(rules, "fields")),
        schema=schema_of(api_version, kind),
        rules=rules,
        **{flag: rules[flag] for flag in _FLAGS & rules.keys()},
    )


_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
_FLAGS = {each.name for each in fields(ServedResource) if each.type is bool}
_KINDS = {name: _built_in(name, rules) for name, rules in built_in()["kinds"].items()}
BUILT_IN = tuple(_KINDS.values())
NAMESPACES, PODS = _KINDS["v1/Namespace"], _KINDS["v1/Pod"]
BUDGETS, DEPLOYMENTS = _KINDS["policy/v1/PodDisruptionBudget"], _KINDS["apps/v1/Deployment"]
DEFINITIONS = _KINDS["apiextensions.k8s.io/v1/CustomResourceDefinition"]
LEASES = _KINDS["coordination.k8s.io/v1/Lease"]
ACCESS_REVIEWS = _KINDS["authorization.k8s.io/v1/SelfSubjectAccessReview"]
OF_SUBRESOURCES = {name: _built_in(kind, {}) for name, kind in built_in()["subresources"].items()}
"""What subresources take and answer, where that is no object of the resource itself."""
SCALES, EVICTIONS = OF_SUBRESOURCES["scale"], OF_SUBRESOURCES["eviction"]


class Catalogue:
    """The resources served now, found by group, version and plural name."""

    def __init__(self, resources: Iterable[ServedResource] = BUILT_IN) -> None:
        self._resources: dict[tuple[str, str, str], ServedResource] = {}
        for resource in resources:
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
        """Return the resource at any of its versions."""
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
