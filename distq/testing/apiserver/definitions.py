"""CustomResourceDefinitions: each serves its resource from its creation to its deletion.

A change of a definition's spec rebuilds that resource's watch cache, as in the
real server: streams end, new watches get 429 for a moment, then 410 for
versions from before.
Source: apiextensions-apiserver pkg/apiserver and pkg/controller/{establish,finalizer}.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from distq.testing.apiserver.objects import timestamp
from distq.testing.apiserver.resources import ANY_FIELD, DEFINITIONS, Catalogue, ScalePaths, ServedResource
from distq.testing.apiserver.store import Collection, Content, Store, StoreEvent

_log = logging.getLogger(__name__)
_REBUILD_SECONDS = 0.3
_RULES = "x-kubernetes-validations"


def with_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a definition with what may be left out."""
    names = spec["names"]
    defaults = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"}
    return {"conversion": {"strategy": "None"}} | spec | {"names": defaults | names}


def established(content: Content) -> dict[str, Any]:
    """Return the status of a definition whose names are accepted and whose resource is served."""
    now = timestamp()
    spec = content["spec"]
    condition = {"status": "True", "lastTransitionTime": now}
    return {
        "conditions": [
            {"type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found", **condition},
            {
                "type": "Established",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
                **condition,
            },
        ],
        "acceptedNames": spec["names"],
        "storedVersions": [each["name"] for each in spec["versions"] if each.get("storage")],
    }


class Definitions:
    """Keeps the catalogue as the definitions say."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        store.observers.append(self._observe)

    def _observe(self, collection: Collection, event: StoreEvent) -> None:
        if collection.identity != DEFINITIONS.identity:
            return
        before, definition = event.before, event.current.content
        if event.gone:
            self._withdraw(_identity(definition))
        elif before is None or before.content["spec"] != definition["spec"]:
            self._serve(definition, changed=before is not None)

    def _serve(self, definition: Content, *, changed: bool) -> None:
        identity = _identity(definition)
        if not changed and _has_rules(definition["spec"]):
            _log.warning(
                "%s.%s has rules in CEL: the emulated API server does not evaluate them.", *identity[::-1]
            )
        self._catalogue.remove(identity)
        for resource in resources_of(definition):
            self._catalogue.add(resource)
        collection = self._store.collection(identity)
        if changed:
            until = asyncio.get_running_loop().time() + _REBUILD_SECONDS
            collection.restart_watches(self._store.revision, until=until)

    def _withdraw(self, identity: tuple[str, str]) -> None:
        collection = self._store.collection(identity)
        for stored in list(collection.scan()):
            self._store.remove(collection, stored)
        collection.restart_watches(self._store.revision)
        self._store.drop(identity)
        self._catalogue.remove(identity)


def _identity(definition: Content) -> tuple[str, str]:
    return definition["spec"]["group"], definition["spec"]["names"]["plural"]


def resources_of(definition: Content) -> Iterator[ServedResource]:
    """Yield the resource of a definition at each version that is served."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        selectable = [each["jsonPath"].lstrip(".") for each in version.get("selectableFields") or ()]
        yield ServedResource(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names["singular"],
            list_kind=names["listKind"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            status="status" in (version.get("subresources") or {}),
            scale=_scale(version),
            generation=True,
            unconditional_update=False,
            custom=True,
            columns=tuple(version.get("additionalPrinterColumns") or ()),
            fields=(*ANY_FIELD, *selectable),
            schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        )


def _scale(version: dict[str, Any]) -> ScalePaths | None:
    scale = (version.get("subresources") or {}).get("scale")
    if not scale:
        return None
    paths = (scale.get(f"{name}Path") or "" for name in ("specReplicas", "statusReplicas", "labelSelector"))
    return ScalePaths(*(tuple(path.lstrip(".").split(".")) if path else () for path in paths))


def _has_rules(value: Any) -> bool:
    """Return whether CEL is anywhere in a definition."""
    if isinstance(value, list):
        return any(map(_has_rules, value))
    return isinstance(value, dict) and (_RULES in value or any(map(_has_rules, value.values())))
