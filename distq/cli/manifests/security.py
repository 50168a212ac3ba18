"""Security contexts for the restricted pod security standard."""

from typing import Any


def restricted(user: int, group: int) -> dict[str, Any]:
    """Return the security context of a pod that runs without root."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def confined() -> dict[str, Any]:
    """Return the security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
