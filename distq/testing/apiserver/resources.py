"""What the server serves: one ServedResource per group, version and plural name."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distq.testing.apiserver.built_in_schemas import Schema, schema_of

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

    @property
    def identity(self) -> tuple[str, str]:
        """Return what all versions of the resource share."""
        return self.group, self.plural


def _resource(
    api_version: str, kind: str, plural: str = "", short: str = "", **rules: object
) -> ServedResource:
    group, _, version = api_version.rpartition("/")
    return ServedResource(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{kind.lower()}s",
        singular=kind.lower(),
        list_kind=f"{kind}List",
        short_names=tuple(short.split()),
        schema=schema_of(api_version, kind),
        **rules,  # type: ignore[arg-type]  # the rules of the table below, checked there by eye and by tests
    )


_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_REGARDING_FIELDS = tuple(f"regarding.{name}" for name in _REFERENCE_FIELDS)
_EVENT_FIELDS = (
    *(f"involvedObject.{name}" for name in _REFERENCE_FIELDS),
    "reason",
    "reportingComponent",
    "source",
    "type",
)

NAMESPACES = _resource(
    "v1",
    "Namespace",
    short="ns",
    namespaced=False,
    status=True,
    returns_deleted=True,
    verbs=tuple(each for each in ALL_VERBS if each != "deletecollection"),
    fields=(*ANY_FIELD, "status.phase"),
)
LEASES = _resource("coordination.k8s.io/v1", "Lease", create_on_update=True, unconditional_update=False)
DEFINITIONS = _resource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    short="crd crds",
    namespaced=False,
    categories=("api-extensions",),
    status=True,
    generation=True,
    unconditional_update=False,
)
PODS = _resource(
    "v1",
    "Pod",
    short="po",
    categories=("all",),
    status=True,
    generation=True,
    graceful=True,
    returns_deleted=True,
    fields=(*ANY_FIELD, *_POD_FIELDS),
)
EVENTS = _resource("v1", "Event", short="ev", create_on_update=True, fields=(*ANY_FIELD, *_EVENT_FIELDS))
_WORKLOAD: dict[str, Any] = {"status": True, "generation": True, "categories": ("all",)}
_SCALED = _WORKLOAD | {
    "scale": ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
}
DEPLOYMENTS = _resource("apps/v1", "Deployment", short="deploy", **_SCALED)
BUDGETS = _resource(
    "policy/v1", "PodDisruptionBudget", short="pdb", status=True, generation=True, unconditional_update=False
)
ACCESS_REVIEWS = _resource(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", namespaced=False, verbs=("create",)
)

BUILT_IN: tuple[ServedResource, ...] = (
    NAMESPACES,
    PODS,
    _resource(
        "v1",
        "Service",
        short="svc",
        categories=("all",),
        status=True,
        create_on_update=True,
        returns_deleted=True,
        fields=(*ANY_FIELD, "spec.clusterIP", "spec.type"),
    ),
    _resource("v1", "ConfigMap", short="cm"),
    _resource("v1", "Secret", fields=(*ANY_FIELD, "type")),
    EVENTS,
    _resource("v1", "ServiceAccount", short="sa", returns_deleted=True),
    _resource(
        "v1", "Node", short="no", namespaced=False, status=True, fields=(*ANY_FIELD, "spec.unschedulable")
    ),
    _resource("v1", "Endpoints", "endpoints", short="ep", create_on_update=True),
    DEPLOYMENTS,
    _resource("apps/v1", "ReplicaSet", short="rs", **_SCALED),
    _resource("apps/v1", "StatefulSet", short="sts", **_SCALED),
    _resource("apps/v1", "DaemonSet", short="ds", **_WORKLOAD),
    _resource("batch/v1", "Job", orphans=True, fields=(*ANY_FIELD, "status.successful"), **_WORKLOAD),
    _resource("batch/v1", "CronJob", short="cj", **_WORKLOAD),
    LEASES,
    _resource("v1", "LimitRange", short="limits", create_on_update=True),
    _resource("v1", "PersistentVolume", short="pv", namespaced=False, status=True, returns_deleted=True),
    _resource("v1", "PersistentVolumeClaim", short="pvc", status=True, returns_deleted=True),
    _resource("v1", "ResourceQuota", short="quota", status=True, returns_deleted=True),
    _resource(
        "storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False, returns_deleted=True
    ),
    _resource("networking.k8s.io/v1", "Ingress", "ingresses", "ing", status=True, generation=True),
    _resource("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False, generation=True),
    _resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", generation=True),
    _resource("autoscaling/v2", "HorizontalPodAutoscaler", short="hpa", status=True, categories=("all",)),
    BUDGETS,
    _resource("discovery.k8s.io/v1", "EndpointSlice", generation=True),
    _resource(
        "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", namespaced=False, generation=True
    ),
    *(
        _resource(
            "admissionregistration.k8s.io/v1",
            f"{act}WebhookConfiguration",
            categories=("api-extensions",),
            namespaced=False,
            generation=True,
            unconditional_update=False,
        )
        for act in ("Mutating", "Validating")
    ),
    _resource(
        "events.k8s.io/v1",
        "Event",
        short="ev",
        create_on_update=True,
        fields=(*ANY_FIELD, *_REGARDING_FIELDS, "reason", "reportingController", "type"),
    ),
    _resource("rbac.authorization.k8s.io/v1", "Role", create_on_update=True),
    _resource("rbac.authorization.k8s.io/v1", "RoleBinding", create_on_update=True),
    _resource("rbac.authorization.k8s.io/v1", "ClusterRole", create_on_update=True, namespaced=False),
    _resource("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", create_on_update=True, namespaced=False),
    DEFINITIONS,
    ACCESS_REVIEWS,
)
SCALES = _resource("autoscaling/v1", "Scale")
EVICTIONS = _resource("policy/v1", "Eviction")
OF_SUBRESOURCES: dict[str, ServedResource] = {"eviction": EVICTIONS, "scale": SCALES}
"""What subresources take and answer, where that is no object of the resource itself."""


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
