"""Kubernetes objects as plain dicts, and the few questions the client asks of them."""

from typing import Any, TypeAlias

from distq.errors import ConfigError

Object: TypeAlias = dict[str, Any]
"""An object as the API server's JSON has it."""


def metadata(obj: Object) -> dict[str, Any]:
    """Return the object's metadata, empty where it has none."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def resource_text(obj: Object) -> str:
    """Return what ``resolve`` takes for this object, e.g. ``apps/v1/Deployment``."""
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
