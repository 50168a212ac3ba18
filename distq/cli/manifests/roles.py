"""The least rights of an informer and of a worker by namespace, derived from the target's watches."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from distq.cli.init import plural_of
from distq.cli.manifests.installation import Installation, Object
from distq.client.resources import parse_resource
from distq.controller.watches import Every, ResourceWatch, Watches, group_kind
from distq.errors import ConfigError

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
SPECIAL_VERBS = ("approve", "attest", "bind", "escalate", "impersonate", "sign", "use")
READS, WRITES = ("get",), ("get", "create", "update", "patch", "delete")

_ACCESS = re.compile(
    r"(?P<resource>(?:[a-z0-9.-]+/){1,2}[A-Z][A-Za-z0-9]*)"
    r"(?P<subresource>/[a-z][A-Za-z]*)?(?::(?P<verbs>[a-z,]+))?"
)
"""A kind begins with a capital: so it is no plural, and no subresource."""

Plural = Callable[[str], str]
"""Returns the plural of a resource such as "apps/v1/Deployment", by which RBAC knows it."""

_CHANGES = {"create", "update", "patch", "delete"}


@dataclass(frozen=True)
class Access:
    """Verbs on one resource, or on its subresource."""

    resource: str
    subresource: str
    verbs: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, default: Sequence[str]) -> "Access":
        """Read ``apps/v1/Deployment``, ``example.com/v1/Foo/status:update``; raise ConfigError."""
        match = _ACCESS.fullmatch(text)
        if match is None:
            raise ConfigError(f'bad access "{text:.80}". Give e.g. apps/v1/Deployment:create,patch.')
        verbs = match["verbs"].split(",") if match["verbs"] else list(default)
        for verb in verbs:
            if verb not in (*VERBS, *SPECIAL_VERBS):
                raise ConfigError(f'bad access "{text:.80}": no verb "{verb:.40}". Use {", ".join(VERBS)}.')
        return cls(match["resource"], match["subresource"] or "", tuple(dict.fromkeys(verbs)))


def guess_plural(resource: str) -> str:
    """Return the plural that English has for the kind: that of every built-in one, and of most others."""
    _, kind = parse_resource(resource)
    return "endpoints" if kind == "Endpoints" else plural_of(kind.lower())


class Rights:
    """The rights of a role in each namespace; None is all of them and cluster-wide objects."""

    def __init__(self) -> None:
        self._rules: dict[str | None, dict[tuple[str, str, str], set[str]]] = {}

    @property
    def namespaces(self) -> list[str | None]:
        """Return the namespaces in which it has rights, None for all of them first."""
        return sorted(self._rules, key=lambda namespace: namespace or "")

    def allow(
        self, namespaces: Iterable[str | None], group: str, resource: str, *verbs: str, name: str = ""
    ) -> None:
        """Add verbs on a resource, or on its object of that name."""
        for namespace in namespaces:
            self._rules.setdefault(namespace, defaultdict(set))[group, resource, name].update(verbs)

    def rules(self, namespace: str | None) -> Iterator[Object]:
        """Yield the rules of a namespace: one a resource, sorted."""
        for (group, resource, name), verbs in sorted(self._rules[namespace].items()):
            rule: Object = {"apiGroups": [group], "resources": [resource]}
            if name:
                rule["resourceNames"] = [name]
            rule["verbs"] = [verb for verb in (*VERBS, *SPECIAL_VERBS) if verb in verbs]
            yield rule


def informer_rights(installation: Installation, plural: Plural) -> Rights:
    """Return the rights of an informer: list and watch, and its Lease."""
    rights = Rights()
    namespace, lease = installation.lease
    # no Role can give a name for create: the object is not there yet
    rights.allow([namespace], "coordination.k8s.io", "leases", "create")
    verbs = ("get", "watch", "update", "patch")
    rights.allow([namespace], "coordination.k8s.io", "leases", *verbs, name=lease)
    rights.allow([namespace], "", "events", "create", "patch")
    watches = [watch for each in installation.program.controllers for watch in each.watches]
    # an informer calls functions of the target's for these, which may read caches
    reads_caches = any(isinstance(watch, Every | Watches) or watch.predicates for watch in watches)
    for watch in installation.program.watches:
        group, resource = _served(watch.resource, plural)
        # objects too large for a cache are read by name
        rights.allow(
            _places(watch), group, resource, "list", "watch", *["get"] * (watch.cached and reads_caches)
        )
    if None in rights.namespaces:
        _allow_cluster_id(rights)
    return rights


def worker_rights(installation: Installation, plural: Plural) -> Rights:
    """Return the rights of a worker: read watched objects, write events, and what is asked for beside."""
    rights = Rights()
    accesses, places = installation.accesses, dict[str | None, None]()
    for watch in installation.program.watches:
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
    if None in rights.namespaces and any(watch.cached for watch in installation.program.watches):
        _allow_cluster_id(rights)  # by the name that its informer has for it
    return rights


def _allow_cluster_id(rights: Rights) -> None:
    """Allow reading the uid that identifies a cluster. Without it a hash of the server's address is used."""
    rights.allow([None], "", "namespaces", "get", name="kube-system")


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
