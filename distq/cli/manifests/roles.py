"""The least rights of an informer and of a worker, derived from the target's watches."""

from collections.abc import Iterator, Sequence

from distq.cli.manifests.access import Access, Plural, Rights
from distq.cli.manifests.installation import Installation, Manifest, Object
from distq.controller.watches import Every, ResourceWatch, Watch, Watches, group_kind

_GROUP = "rbac.authorization.k8s.io"
_CHANGES = {"create", "update", "patch", "delete"}
_ELSEWHERE = "The namespace {} must exist."


def informer_rights(installation: Installation, plural: Plural) -> Rights:
    """Return the rights of an informer: list and watch, and its Lease."""
    rights = Rights()
    namespace, lease = installation.lease
    # no Role can give a name for create: the object is not there yet
    rights.allow([namespace], "coordination.k8s.io", "leases", "create")
    verbs = ("get", "watch", "update", "patch")
    rights.allow([namespace], "coordination.k8s.io", "leases", *verbs, name=lease)
    rights.allow([namespace], "", "events", "create", "patch")
    reads_caches = any(_calls_functions(watch) for each in installation.controllers for watch in each.watches)
    for watch in installation.watches:
        group, resource = _served(watch.resource, plural)
        # objects too large for a cache are read by name
        rights.allow(
            _places(watch), group, resource, "list", "watch", *["get"] * (watch.cached and reads_caches)
        )
    if None in rights.namespaces:
        _allow_cluster_id(rights)
    return rights


def worker_rights(installation: Installation, plural: Plural, accesses: Sequence[Access]) -> Rights:
    """Return the rights of a worker: read watched objects, write events, and what ``accesses`` adds."""
    rights = Rights()
    places: dict[str | None, None] = {}
    for watch in installation.watches:
        group, resource = _served(watch.resource, plural)
        lists = ["list"] * (watch.cached and any(_may_list(watch, access) for access in accesses))
        rights.allow(_places(watch), group, resource, "get", *lists)
        places |= dict.fromkeys(_places(watch))
    everywhere = None in places or not places
    for access in accesses:
        group, resource = _served(access.resource, plural)
        rights.allow([None] if everywhere else places, group, resource + access.subresource, *access.verbs)
    if rights.namespaces:
        rights.allow([None] if everywhere else places, "", "events", "create", "patch")
    if None in rights.namespaces and any(watch.cached for watch in installation.watches):
        _allow_cluster_id(rights)  # by the name that its informer has for it
    return rights


def role_manifests(installation: Installation, component: str, rights: Rights) -> Iterator[Manifest]:
    """Yield the service account of a component, and for each place a role and its binding."""
    yield Manifest(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": installation.metadata(component)}
    )
    for place in rights.namespaces:
        kind, metadata = _role(installation, component, place)
        rules = list(rights.rules(place))
        comment = _ELSEWHERE.format(place) if place not in {None, installation.namespace} else ""
        yield Manifest(
            {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules}, comment
        )
        binding: Object = {"apiVersion": f"{_GROUP}/v1", "kind": f"{kind}Binding", "metadata": metadata}
        binding["roleRef"] = {"apiGroup": _GROUP, "kind": kind, "name": metadata["name"]}
        account = {"name": installation.of(component), "namespace": installation.namespace}
        binding["subjects"] = [{"kind": "ServiceAccount", **account}]
        yield Manifest(binding)


def _role(installation: Installation, component: str, place: str | None) -> tuple[str, Object]:
    """Return kind and metadata; a ClusterRole is in no namespace, so its name has that of its account."""
    if place is not None:
        return "Role", installation.metadata(component, namespace=place)
    name = f"{installation.namespace}:{installation.of(component)}"
    return "ClusterRole", {"name": name, "labels": installation.labels(component)}


def _allow_cluster_id(rights: Rights) -> None:
    """Allow reading the uid that identifies a cluster. Without it a hash of the server's address is used."""
    rights.allow([None], "", "namespaces", "get", name="kube-system")


def _calls_functions(watch: Watch) -> bool:
    """Return whether an informer calls functions of the target's for it: these may read caches."""
    return isinstance(watch, Every | Watches) or bool(watch.predicates)


def _may_list(watch: ResourceWatch, access: Access) -> bool:
    """Return whether the worker lists the one object after such a write, to update its cached reads.

    The answer to the write is not enough if the object may be gone, as after the last finalizer, if the
    watch has a field selector, or if the write was in another version.
    """
    writes = _CHANGES.intersection(access.verbs)
    if group_kind(access.resource) != group_kind(watch.resource) or not writes:
        return False
    may_end = bool(writes - {"create"}) and not access.subresource
    return may_end or bool(watch.field_selector) or access.resource != watch.resource


def _places(watch: ResourceWatch) -> Sequence[str | None]:
    return watch.namespaces or [None]


def _served(resource: str, plural: Plural) -> tuple[str, str]:
    return group_kind(resource)[0], plural(resource)
