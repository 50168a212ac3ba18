"""Rights of a role: verbs on resources, by namespace."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from distq.cli.init.names import plural_of
from distq.cli.manifests.installation import Object
from distq.client.resources import parse_resource
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
