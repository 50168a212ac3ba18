"""Kubernetes objects as plain dicts, and the few questions the client asks of them."""

from typing import Any, TypeAlias

import msgspec

from distq.errors import ConfigError

Object: TypeAlias = dict[str, Any]
"""An object as the API server's JSON has it."""


def metadata(obj: Object) -> dict[str, Any]:
    """Return the object's metadata, empty where it has none."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def key_of(obj: Object) -> str:
    """Return the object's key, ``namespace/name``, or ``name`` where it has no namespace."""
    about = metadata(obj)
    if not about.get("name"):
        raise ConfigError(f"no key of {title(obj)}: no name. Set metadata.name.")
    return f"{about['namespace']}/{about['name']}" if about.get("namespace") else str(about["name"])


def reference(obj: Object) -> Object:
    """Return an ObjectReference, as an event's ``involvedObject`` or a volume's ``claimRef`` holds one.

    With apiVersion, kind, and those of namespace, name, uid and resourceVersion that the object has.
    Source: client-go tools/reference GetReference.
    """
    resource_text(obj), key_of(obj)  # for their errors
    about = {name: metadata(obj).get(name) for name in ("namespace", "name", "uid", "resourceVersion")}
    found = {name: value for name, value in about.items() if value}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **found}


def resource_text(obj: Object) -> str:
    """Return the resource of this object as ``resolve`` takes it, e.g. ``apps/v1/Deployment``."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ConfigError(f"bad object {title(obj)}: no apiVersion or kind. Set both.")
    return f"{api_version}/{kind}"


def title(obj: Object) -> str:
    """Return the object's kind, namespace and name for messages, as far as it has them."""
    about = metadata(obj)
    name = about.get("name") or about.get("generateName") or "without a name"
    place = f"{about['namespace']}/" if about.get("namespace") else ""
    return f"{obj.get('kind') or 'of no kind'} {place}{name}"


def encode(content: Any, *, sort: bool = False) -> bytes:
    """Return the JSON of an object or a part of one; ConfigError for values that JSON does not have.

    ``sort`` orders the fields, so that equal objects have equal texts.
    """
    try:
        return msgspec.json.encode(content, order="deterministic" if sort else None)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"bad object: {error}. Use what JSON has.") from None


def is_same(one: Any, other: Any) -> bool:
    """Return whether the API server would read the same; True is not 1 to it."""
    return encode(one, sort=True) == encode(other, sort=True)
