"""Kinds that a sandbox has beside its own, without their CRD."""

import re
from dataclasses import dataclass
from typing import Any

from distq.errors import ConfigError

_RESOURCE = re.compile(r"([a-z0-9][-a-z0-9]*(\.[-a-z0-9]+)*/)?v[a-z0-9]+/(?P<kind>[A-Z][A-Za-z0-9]*)")
_PLURAL = re.compile(r"[a-z][-a-z0-9]*")
_PROTECTED = (".k8s.io", ".kubernetes.io")
"""Groups whose definitions say who approved them."""


@dataclass(frozen=True)
class Kind:
    """A kind without a schema: its objects hold any fields, and have a status.

    ``resource`` is its name, as in "cert-manager.io/v1/Certificate"; the plural is guessed as Kubernetes
    guesses it, unless it is given. Raises ConfigError where a name is none.
    """

    resource: str
    plural: str = ""
    namespaced: bool = True

    def __post_init__(self) -> None:
        match = _RESOURCE.fullmatch(self.resource) if isinstance(self.resource, str) else None
        if match is None:
            example = "cert-manager.io/v1/Certificate"
            raise ConfigError(f"bad kind: {self.resource!r:.80}. Write group/version/Kind, as in {example}.")
        if not self.plural:
            object.__setattr__(self, "plural", _guessed_plural(match["kind"].lower()))
        if not _PLURAL.fullmatch(self.plural):
            raise ConfigError(f"bad plural of {self.resource}: {self.plural!r:.80}. Write it in lower case.")

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or the version alone in the core group."""
        return self.resource.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Return the name of the kind."""
        return self.resource.rpartition("/")[2]

    def definition(self) -> dict[str, Any]:
        """Return a CustomResourceDefinition of it."""
        group, _, version = self.api_version.rpartition("/")
        metadata: dict[str, Any] = {"name": f"{self.plural}.{group}"}
        if f".{group}".endswith(_PROTECTED):
            metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, of a sandbox"}
        served = {
            "name": version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            "subresources": {"status": {}},
        }
        names = {"kind": self.name, "listKind": f"{self.name}List"}
        names |= {"plural": self.plural, "singular": self.name.lower()}
        scope = "Namespaced" if self.namespaced else "Cluster"
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
        }


def _guessed_plural(singular: str) -> str:
    """Return the plural of a kind (meta.UnsafeGuessKindToResource)."""
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
