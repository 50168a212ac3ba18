"""Which paths of the API server serve a kind, learnt from discovery.

Programs name a resource by its kind (``apps/v1/Deployment``), paths need its plural and whether it is
namespaced; only the server knows both, for custom resources above all.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

from distq.errors import ApiError, ConfigError, NotFound
from distq.mistakes import closest, did_you_mean

APPLY_ITS_CRD = "Apply its CRD first."

_ALIKE = 0.8
"""How alike two kinds must be for one to be meant by the other; see ``distq.mistakes.closest``."""

_PLAIN_NAME = re.compile("[a-z0-9][a-z0-9.-]*")
"""Names that are the same in a path, as nearly all are."""

_MOST_QUESTIONS = 60
"""API versions that are asked for a kind that is not where it was expected; a new cluster has about 25."""


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

    def is_called(self, name: str) -> bool:
        """Return whether a name in small letters is its kind or its plural."""
        return name in {self.kind.lower(), self.plural}

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL path of the collection, or of the object called ``name``.

        Without a namespace the collection of a namespaced resource is that of all namespaces.
        """
        if namespace and not self.namespaced:
            raise ConfigError(f'bad namespace "{namespace}": {self} is not namespaced. Leave it out.')
        if name and self.namespaced and not namespace:
            raise ConfigError(f'no namespace of {self} "{name}": it is namespaced. Give namespace/name.')
        # the core group alone has no name, and a root of its own
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
    """The resources of one API server, asked for once per group and version. Safe for threads and forks.

    It has no lock, which might stay held in the child of a fork: the calls of a dict are atomic. Source of
    the documents: the API server's ``/api/v1`` and ``/apis/<group>/<version>``.
    """

    def __init__(self, fetch: Callable[[str], Any]) -> None:
        self._fetch = fetch
        self._known: dict[str, Resource] = {}
        self._remedies: dict[str, str] = {}
        """By the texts that are not served: a suggestion takes many requests, and a leader asks often."""

    def resolve(self, text: str) -> Resource:
        """Return the resource called e.g. ``apps/v1/Deployment``; raise NotFound if it is not served."""
        known = self._known.get(text)
        if known is not None:
            return known
        api_version, kind = parse_resource(text)
        try:
            served = self._served(api_version, text)
        except NotFound:
            raise UnknownResource(text, remedy=self._remedy(text, ())) from None
        self._known.update({str(resource): resource for resource in served})
        for resource in served:
            if resource.kind == kind:
                return resource
        raise UnknownResource(text, remedy=self._remedy(text, served))

    def forget(self, resource: Resource) -> None:
        """Ask again at the next use; its paths were answered as unknown."""
        self._known.pop(str(resource), None)

    def _remedy(self, text: str, served: Sequence[Resource]) -> str:
        """Return the remedy for a text that is not served; ``served`` are resources of its API version."""
        kind = parse_resource(text)[1].lower()
        if meant := [one for one in served if one.is_called(kind)]:
            return f"Give its kind: {meant[0]}."
        remedy = self._remedies.get(text)
        if remedy is None:
            remedy = self._remedies[text] = self._suggestion(text, served)
        return remedy

    def _suggestion(self, text: str, served: Sequence[Resource]) -> str:
        """Suggest a similar kind of this API version, or the same or a similar kind of another."""
        kind = parse_resource(text)[1]
        meant = _similar(kind, served)
        if not meant:
            others = list(self._served_elsewhere(text))
            meant = [one for one in others if one.is_called(kind.lower())] or _similar(kind, others)
        if not meant:
            return APPLY_ITS_CRD
        return f"{did_you_mean(text, map(str, meant), alike=0)} If not, apply its CRD first."

    def _served_elsewhere(self, text: str) -> Iterator[Resource]:
        """Yield the resources of the other API versions, as far as the API server answers."""
        api_version, _ = parse_resource(text)
        with suppress(ApiError, AttributeError, KeyError, TypeError):
            for other in islice(_api_versions(self._fetch("/apis"), api_version), _MOST_QUESTIONS):
                yield from self._served(other, text)

    def _served(self, api_version: str, text: str) -> list[Resource]:
        root = "api" if "/" not in api_version else "apis"
        document = self._fetch(f"/{root}/{quote(api_version)}")
        try:
            return list(_resources(api_version, document))
        except (AttributeError, KeyError, TypeError):
            raise ApiError(
                f"no resource {text}: the API server's answer about {api_version} is no APIResourceList. "
                "Check the proxies before it."
            ) from None


def _resources(api_version: str, document: Any) -> Iterator[Resource]:
    entries = document.get("resources") or ()
    names = {entry["name"] for entry in entries}
    for entry in entries:
        kind, plural, namespaced = entry["kind"], entry["name"], entry["namespaced"]
        if not (isinstance(kind, str) and isinstance(plural, str) and isinstance(namespaced, bool)):
            raise TypeError(f"{entry!r:.80}")
        if "/" not in plural:  # else a subresource
            yield Resource(api_version, kind, plural, namespaced, f"{plural}/status" in names)


def _similar(kind: str, served: Sequence[Resource]) -> list[Resource]:
    name = closest(kind, [one.kind for one in served], _ALIKE)
    return [one for one in served if one.kind == name]


def _api_versions(document: Any, wanted: str) -> Iterator[str]:
    """Yield the API versions of an APIGroupList but the wanted one: those of its group come first."""
    group = wanted.rpartition("/")[0]
    own = [each for each in document["groups"] if each["name"] == group]
    others = [each for each in document["groups"] if each["name"] != group]
    versions = [version["groupVersion"] for each in own for version in each["versions"]]
    versions += ["v1", *(each["preferredVersion"]["groupVersion"] for each in others)]
    return (version for version in versions if version != wanted)


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
    if _PLAIN_NAME.fullmatch(name):
        return name
    if name in {".", ".."} or "/" in name:
        raise ConfigError(f'bad name "{name}": it cannot be part of a path. Correct it.')
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise ConfigError(f"bad name {name!r:.80}: not valid Unicode. Correct it.") from None
