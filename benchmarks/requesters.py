"""What asks an API server, each in a process of its own: distq's client, and what it could be built on.

``python -m benchmarks.requesters SUBJECT KUBECONFIG`` prints "ready"; for each line "ACT TIMES" it then asks
so often, and prints the µs of CPU that one took in this process, all threads together.
"""

import asyncio
import http.client
import json
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

RESOURCE, KEY = "apps/v1/Deployment", "default/web"
PATH = "/apis/apps/v1/namespaces/default/deployments/web"
CHANGE = {"metadata": {"labels": {"app": "web", "tier": "front"}}}
STATUS = {"status": {"replicas": 3, "readyReplicas": 3, "observedGeneration": 3}}
AT_ONCE = 32
"""Requests under way of the act ``gather``."""

Act = Callable[[int], Any]


def distq(kubeconfig: str) -> Mapping[str, Act]:
    """Ask by distq's Client, which returns the objects decoded, as all do here."""
    from distq.client import Client

    client = Client(kubeconfig)

    async def awaited(times: int) -> None:
        for _ in range(times):
            await client.aio.get(RESOURCE, KEY)

    async def gathered(times: int) -> None:
        for _ in range(0, times, AT_ONCE):
            await asyncio.gather(*(client.aio.get(RESOURCE, KEY) for _ in range(AT_ONCE)))

    return {
        "get": _repeated(lambda: client.get(RESOURCE, KEY)),
        "patch": _repeated(lambda: client.patch(RESOURCE, KEY, CHANGE)),
        "status patch": _repeated(lambda: client.patch(RESOURCE, KEY, STATUS, status=True)),
        "await get": lambda times: asyncio.run(awaited(times)),
        "gather": lambda times: asyncio.run(gathered(times)),
    }


def http_client(kubeconfig: str) -> Mapping[str, Act]:
    """Ask by one connection of the standard library."""
    server, trust, headers = _access(kubeconfig)
    address = urlsplit(server)
    tls = ssl.create_default_context(cafile=trust)
    connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=tls)

    def ask(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        connection.request(method, path, body=body, headers=headers)
        return connection.getresponse().read()

    return _acts(ask, headers)


def urllib3(kubeconfig: str) -> Mapping[str, Act]:
    """Ask by urllib3 as most programs do."""
    import urllib3 as library

    server, trust, headers = _access(kubeconfig)
    pools = library.PoolManager(ca_certs=trust, retries=False)

    def ask(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        return pools.request(method, f"{server}{path}", body=body, headers=headers).data

    return _acts(ask, headers)


def _acts(
    ask: Callable[[str, str, bytes | None, Mapping[str, str]], bytes], headers: Mapping[str, str]
) -> Mapping[str, Act]:
    patching = {**headers, "Content-Type": "application/merge-patch+json"}

    def patch(path: str, content: Any) -> Any:
        return json.loads(ask("PATCH", path, json.dumps(content).encode(), patching))

    return {
        "get": _repeated(lambda: json.loads(ask("GET", PATH, None, headers))),
        "patch": _repeated(lambda: patch(f"{PATH}?fieldManager=distq", CHANGE)),
        "status patch": _repeated(lambda: patch(f"{PATH}/status?fieldManager=distq", STATUS)),
    }


def _access(kubeconfig: str) -> tuple[str, str, Mapping[str, str]]:
    """Return server, authority and headers of a kubeconfig that is JSON."""
    config = json.loads(Path(kubeconfig).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    headers = {"Accept": "application/json", "Authorization": f"Bearer {user['token']}"}
    return cluster["server"], cluster["certificate-authority"], headers


def _repeated(once: Callable[[], object]) -> Act:
    def act(times: int) -> None:
        for _ in range(times):
            once()

    return act


SUBJECTS = {"distq": distq, "http.client": http_client, "urllib3": urllib3}

if __name__ == "__main__":
    acts = SUBJECTS[sys.argv[1]](sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        name, _, times = line.strip().rpartition(" ")
        began = time.process_time()
        acts[name](int(times))
        print((time.process_time() - began) / int(times) * 1e6, flush=True)
