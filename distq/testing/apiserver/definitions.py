"""CustomResourceDefinitions: each serves its resource from its creation to its deletion.

Source: apiextensions-apiserver pkg/apiserver, pkg/apiserver/schema/validation.go,
pkg/apis/apiextensions/validation and pkg/controller/{establish,finalizer}.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, TypeVar

from distq.testing.apiserver.causes import Cause, Fields, forbidden, required, unsupported, wrong
from distq.testing.apiserver.objects import with_condition
from distq.testing.apiserver.resources import (
    ANY_FIELD,
    DEFINITIONS,
    INT_OR_STRING,
    PRESERVES,
    Catalogue,
    ScalePaths,
    Schema,
    ServedResource,
)
from distq.testing.apiserver.status import undecodable
from distq.testing.apiserver.store import Collection, Content, Store, StoreEvent
from distq.testing.apiserver.typed import json_word

_log = logging.getLogger(__name__)
_REBUILD_SECONDS = 0.3
_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_OF_FIELD = "must not be empty for specified object fields"
_OF_ITEM = "must not be empty for specified array items"

Value = TypeVar("Value", str, list[Any], dict[str, Any])


def with_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a definition with what may be left out."""
    names = spec["names"]
    defaults = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"}
    return {"conversion": {"strategy": "None"}} | spec | {"names": defaults | names}


def established(content: Content) -> dict[str, Any]:
    """Return the status of a definition whose names are accepted and whose resource is served."""
    spec = content["spec"]
    accepted = {"reason": "NoConflicts", "message": "no conflicts found"}
    served = {"reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}
    stored = [each["name"] for each in spec["versions"] if each.get("storage")]
    status = with_condition({}, "NamesAccepted", "True", **accepted)
    status = with_condition(status, "Established", "True", **served)
    return status | {"acceptedNames": spec["names"], "storedVersions": stored}


def follow_definitions(store: Store, catalogue: Catalogue) -> None:
    """Keep the catalogue as the definitions say."""

    def observe(changed: Collection, event: StoreEvent) -> None:
        if changed.identity != DEFINITIONS.identity:
            return
        before, spec = event.before, event.current.content["spec"]
        identity = spec["group"], spec["names"]["plural"]
        collection = store.collection(identity)
        if event.gone:
            collection.restart_watches(store.revision)
            store.drop(identity)
            catalogue.remove(identity)
        elif before is None or before.content["spec"] != spec:
            catalogue.remove(identity)
            for resource in resources_of(event.current.content):
                catalogue.add(resource)
            if before is not None:
                # the real server rebuilds its watch cache: streams end, new watches get 429 for a moment,
                # then 410 for versions from before
                until = asyncio.get_running_loop().time() + _REBUILD_SECONDS
                collection.restart_watches(store.revision, until=until)
            elif _has_rules(spec):
                name = event.current.name
                _log.warning("%s has rules in CEL: the emulated API server does not evaluate them.", name)

    store.observers.append(observe)


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


def _scale(version: dict[str, Any]) -> ScalePaths:
    scale = (version.get("subresources") or {}).get("scale") or {}
    paths = (scale.get(f"{name}Path") or "" for name in ("specReplicas", "statusReplicas", "labelSelector"))
    return ScalePaths(*(tuple(path.lstrip(".").split(".")) if path else () for path in paths))


def _has_rules(value: Any) -> bool:
    """Return whether CEL is anywhere in a definition."""
    if isinstance(value, dict):
        return "x-kubernetes-validations" in value or any(map(_has_rules, value.values()))
    return isinstance(value, list) and any(map(_has_rules, value))


def violations_of_definition(spec: Fields, before: str) -> Iterator[Cause]:
    """Yield what is wrong with the spec of a definition, whose schemas have to be structural."""
    versions, path = spec.get("versions", []), f"{before}versions"
    if len({each.get("name") for each in versions}) < len(versions):
        yield wrong(path, versions, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield wrong(path, versions, "must have exactly one version marked as storage version")
    if scope := spec.get("scope"):
        yield from unsupported(f"{before}scope", scope, ["Cluster", "Namespaced"])
    for index, version in enumerate(versions):
        schema = version.get("schema", {}).get("openAPIV3Schema")
        place = "validation" if len(versions) == 1 else f"versions[{index}].schema"
        if schema is None:
            yield required(f"{path}[{index}].schema.openAPIV3Schema")
        else:
            yield from _of_root(_read(schema, dict), f"{before}{place}.openAPIV3Schema")


def _of_root(schema: Schema, path: str) -> Iterator[Cause]:
    kind = _read(schema.get("type"), str)
    if not kind and not schema.get(PRESERVES):
        yield required(f"{path}.type", "must not be empty at the root")
    elif kind not in {"", "object"}:
        yield wrong(f"{path}.type", kind, "must be object at the root")
    metadata = _read(_read(schema.get("properties"), dict).get("metadata"), dict)
    if _read(metadata.get("properties"), dict).keys() - {"name", "generateName"}:
        rule = "must not specify anything other than name and generateName"
        yield forbidden(f"{path}.properties[metadata]", f"{rule}, but metadata is implicitly specified")
    yield from _within(schema, path)


def _structural(schema: Schema, path: str, rule: str) -> Iterator[Cause]:
    kind = _read(schema.get("type"), str)
    if kind:
        yield from unsupported(f"{path}.type", kind, _TYPES)
    elif not schema.get(PRESERVES) and not schema.get(INT_OR_STRING):
        yield required(f"{path}.type", rule)
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    yield from _within(schema, path)


def _within(schema: Schema, path: str) -> Iterator[Cause]:
    fields, others = _read(schema.get("properties"), dict), schema.get("additionalProperties")
    if fields and others:
        rule = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", rule)
    for name, each in fields.items():
        yield from _structural(_read(each, dict), f"{path}.properties[{name}]", _OF_FIELD)
    if not isinstance(others, bool | None):
        yield from _structural(_read(others, dict), f"{path}.additionalProperties", _OF_FIELD)
    if isinstance(schema.get("items"), dict):
        yield from _structural(schema["items"], f"{path}.items", _OF_ITEM)
    for word in () if schema.get(INT_OR_STRING) else ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(_read(schema.get(word), list)):
            if _read(each, dict).get("type"):
                yield forbidden(f"{path}.{word}[{index}].type", "must be empty to be structural")


def _read(value: Any, kind: type[Value]) -> Value:
    """Return a part of a schema, empty where it is absent; what is of another type cannot be decoded."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        refusal = f"json: cannot unmarshal {json_word(value)} into Go value of type v1.JSONSchemaProps"
        raise undecodable(DEFINITIONS, refusal)
    return value
