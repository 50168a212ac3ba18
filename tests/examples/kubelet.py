"""What the kubelet, the scheduler and the garbage collector would do with pods: the tests do it."""

from datetime import UTC, datetime
from typing import Any

from distq import Client, key_of

POD = "v1/Pod"

Object = dict[str, Any]


def new_pod(namespace: str, name: str, labels: dict[str, str], **spec: Any) -> Object:
    """Return a pod of one container."""
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    containers = [{"name": "web", "image": "nginx"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def run(client: Client, pod: Object, *, ready: bool = True, since: float | None = None, ip: str = "") -> None:
    """Let a pod run, ready since a moment or now."""
    moment = datetime.now(UTC) if since is None else datetime.fromtimestamp(since, UTC)
    condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
    }
    addresses = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
    status = {"phase": "Running", "conditions": [condition], **addresses}
    client.patch(POD, key_of(pod), {"status": status}, status=True)


def end(client: Client, pod: Object, phase: str = "Failed") -> None:
    """Let a pod end, and stay there with what it left."""
    client.patch(POD, key_of(pod), {"status": {"phase": phase}}, status=True)


def delete(client: Client, pod: Object) -> None:
    """Delete a pod at once."""
    client.delete(POD, key_of(pod), grace_period=0)
