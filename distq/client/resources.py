"""Which paths of the API server serve a kind, learnt from discovery.

Programs name a resource by its kind (``apps/v1/Deployment``), paths need its
plural and whether it is namespaced; only the server knows both, for custom
resources above all.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from distq.errors import ApiError, ConfigError, NotFound

APPLY_ITS_CRD = "Apply its CRD first."


@dataclass(frozen=True)
class Resource:
    """One kind that the API server serves."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    has_status: bool = False
    """Whether its status is a subresource, apart from all else."""

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL path of the collection, or of the object called ``name``.

        Without a namespace the collection of a namespaced resource is that of all namespaces.
        """
        if namespace and not self.namespaced:
            raise ConfigError(f'bad namespace "{namespace}": {self} is not namespaced. Leave it out.')
        if name and self.namespaced and not namespace:
            raise ConfigError(f'no namespace of {self} "{name}": it is namespaced. Give namespace/name.')
        parts = ["api" if "/" not in self.api_version else "apis", self.api_version]
        if namespace:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_segment(name))
        return "/" + "/".join(parts)

    def key_path(self, key: str) -> str:
        """Return the URL path of the object ``namespace/name``, or ``name`` where cluster-scoped."""
        namespace, slash, name = key.rpartition("/")
        if (
            not name
            or bool(slash) != self.namespaced
            or bool(namespace) != self.namespaced
            or "/" in namespace
        ):
            shape = "namespace/name" if self.namespaced else "the name alone, it has no namespace"
            raise ConfigError(f'bad key "{key}": no object of {self} has it. Give {shape}.')
        return self.path(namespace or None, name)


class UnknownResource(NotFound):
    """The API server does not serve a resource; ``what`` cannot be done therefore."""

    def __init__(self, text: str, *, what: str = "no resource", remedy: str = APPLY_ITS_CRD) -> None:
        super().__init__(f"{what} {text}: unknown to the API server. {remedy}", status=404, reason="NotFound")
        self.resource = text
        self.remedy = remedy


class Discovery:
    """The resources of one API server, asked for once per group and version.

    Source of the documents: the API server's ``/api/v1`` and ``/apis/<group>/<version>``.
    """

    def __init__(self, fetch: Callable[[str], Any]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._known: dict[str, Resource] = {}

    def resolve(self, text: str) -> Resource:
        """Return the resource called e.g. ``apps/v1/Deployment``; raise NotFound if it is not served."""
        with self._lock:
            known = self._known.get(text)
        if known is not None:
            return known
        api_version, kind = parse_resource(text)
        served = self._served(api_version, text)
        with self._lock:
            self._known.update({str(resource): resource for resource in served})
        for resource in served:
            if resource.kind == kind:
                return resource
        meant = [one for one in served if kind.lower() in {one.kind.lower(), one.plural}]
        raise UnknownResource(text, remedy=f"Give its kind: {meant[0]}." if meant else APPLY_ITS_CRD)

    def forget(self, resource: Resource) -> None:
        """Ask again at the next use; its paths were answered as unknown."""
        with self._lock:
            self._known.pop(str(resource), None)

    def _served(self, api_version: str, text: str) -> list[Resource]:
        root = "api" if "/" not in api_version else "apis"
        try:
            document = self._fetch(f"/{root}/{quote(api_version)}")
        except NotFound:
            raise UnknownResource(text) from None
        try:
            return list(_resources(api_version, document))
        except (AttributeError, KeyError, TypeError):
            raise ApiError(
                f"no resource {text}: the API server's answer about {api_version} is no APIResourceList. "
                "Check the proxies before it."
            ) from None


def _resources(api_version: str, document: Any) -> Iterator[Resource]:
    """Read an APIResourceList."""
    entries = document.get("resources") or ()
    names = {entry["name"] for entry in entries}
    for entry in entries:
        kind, plural, namespaced = entry["kind"], entry["name"], entry["namespaced"]
        if not (isinstance(kind, str) and isinstance(plural, str) and isinstance(namespaced, bool)):
            raise TypeError(f"{entry!r:.80}")
        if "/" not in plural:  # else a subresource
            yield Resource(api_version, kind, plural, namespaced, f"{plural}/status" in names)


def parse_resource(text: str) -> tuple[str, str]:
    """Return API version and kind of ``apps/v1/Deployment``; raise ConfigError for text that has not both."""
    api_version, _, kind = str(text).rpartition("/")
    parts = api_version.split("/")
    if not kind or len(parts) > 2 or not all(parts):
        raise ConfigError(
            f'bad resource "{text!s:.80}": no version or kind. Give e.g. apps/v1/Deployment or v1/Pod.'
        )
    return api_version, kind


def _segment(name: str) -> str:
    if name in {".", ".."} or "/" in name:
        raise ConfigError(f'bad name "{name}": it cannot be part of a path. Correct it.')
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise ConfigError(f"bad name {name!r:.80}: not valid Unicode. Correct it.") from None
