"""An API server that gives every request the same answer, so that what asks it is measured.

``python -m benchmarks.canned_api_server CERTIFICATE KEY`` prints "ready PORT", and serves TLS until its
standard input ends. The answers and their headers are as kube-apiserver gives them.
"""

import asyncio
import json
import ssl
import sys
from typing import Any

OBJECT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "6f0c2c5e-7a53-4b0e-9d31-0a8f3f1c9d10",
        "resourceVersion": "12345",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web"},
    },
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]
            },
        },
    },
    "status": {
        "replicas": 3,
        "readyReplicas": 3,
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.",
            }
        ],
    },
}
_KIND = {"kind": "Deployment", "namespaced": True, "singularName": "", "verbs": ["get", "patch"]}
DISCOVERY = {
    "kind": "APIResourceList",
    "groupVersion": "apps/v1",
    "resources": [{**_KIND, "name": "deployments"}, {**_KIND, "name": "deployments/status"}],
}
_HEAD = """HTTP/1.1 200 OK
Audit-Id: 2f0b8c6e-6b1d-4c57-9f52-0b8b0a0c7a11
Cache-Control: no-cache, private
Content-Type: application/json
X-Kubernetes-Pf-Flowschema-Uid: 4f5c6d60-3d3f-4b1a-8a39-53b3a1c9f0c2
X-Kubernetes-Pf-Prioritylevel-Uid: b2b0f0b4-40c8-44f9-9bd3-0d8a4b4f7a7e
Date: Thu, 01 Jan 2026 00:00:00 GMT
"""


def _answer(content: Any) -> bytes:
    body = json.dumps(content, separators=(",", ":"))
    return f"{_HEAD}Content-Length: {len(body)}\n\n".replace("\n", "\r\n").encode() + body.encode()


_OBJECT, _DISCOVERY = _answer(OBJECT), _answer(DISCOVERY)


class _Connection(asyncio.Protocol):
    """Answers each request as soon as its body is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (end := self._unread.find(b"\r\n\r\n")) >= 0:
            head = self._unread[:end].lower()
            _, _, length = head.partition(b"content-length:")
            size = end + 4 + int(length.split(b"\r\n")[0] or 0)
            if len(self._unread) < size:
                return
            self._unread = self._unread[size:]
            self._transport.write(_DISCOVERY if head.startswith(b"get /apis/apps/v1 ") else _OBJECT)


async def _serve(certificate: str, key: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, ssl=tls)
    print(f"ready {server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
