"""What the restricted pod security standard asks of pods and their containers."""

from typing import Any


def restricted(user: int, group: int) -> dict[str, Any]:
    """Return the security context of a pod that runs as nobody special."""
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
