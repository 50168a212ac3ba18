"""What cached reads spare the API server: a part of ``python -m benchmarks.cache``."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from benchmarks.servers import Server
from distq.client.client import Client
from distq.config import Settings
from distq.controller.cached.caches import Caches
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, identities
from distq.testing import EmulatedApiServer
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.leading import Term

CONFIG_MAPS, QUEUE = "v1/ConfigMap", "cached-reads"
RECONCILES = 100
SIBLINGS = 10
"""How many objects an owner has."""
PATIENCE = 600.0

Object = dict[str, Any]


class CountingClient(Client):
    """A Client that counts its requests, and which of them are pages of lists."""

    requests = pages = 0

    def request(self, method: str, path: str, **rest: Any) -> bytes:
        """Count one."""
        self.requests += 1
        limit = (rest.get("query") or {}).get("limit")
        self.pages += limit is not None and int(limit) > 1
        return super().request(method, path, **rest)


def by_owner(obj: Object) -> list[str]:
    """Return whose an object is."""
    return [obj["data"]["owner"]]


WATCH = For(CONFIG_MAPS, cached=True, indexers={"owner": by_owner})


def rows(server: Server, objects: int) -> Iterator[Row]:
    """Cache so many objects of an emulated cluster, change leaders, and reconcile by an index."""
    server.connection.execute("FLUSHALL")
    with EmulatedApiServer() as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.load(*map(_object, range(objects)))
        kubeconfig = cluster.kubeconfig(Path(folder) / "kubeconfig")
        with _leading(server, CountingClient(kubeconfig), "1"):
            pass
        client, begin = CountingClient(kubeconfig), time.perf_counter()
        with _leading(server, client, "2"):
            took = time.perf_counter() - begin
        caches = Caches([WATCH], Queue(QUEUE, server.connection), timeout=PATIENCE)
        whole = len(caches.lister(CONFIG_MAPS).list()) == objects
        what = f"{server.kind}: failover with {objects} cached objects"
        yield Row(
            f"{what}: pages listed", client.pages, "", 0.0, missing="" if whole else "not all are cached"
        )
        yield Row(f"{what}: time to synced", took, "s")
        requests = _reconcile(server, CountingClient(kubeconfig))
        name = f"{server.kind}: requests of {RECONCILES} reconciles that list by index"
        yield Row(name, requests, "", 0.0)


def _object(number: int) -> Object:
    metadata = {"name": f"object-{number:06}", "namespace": "default"}
    data = {"owner": f"owner-{number // SIBLINGS}", "text": "x" * 800}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@contextmanager
def _leading(server: Server, client: Client, epoch: str) -> Iterator[None]:
    """Lead from the start until the stream is synced, and in the block."""
    config = SourceConfig(
        queue=QUEUE, connection=server.connection, client=client, leadership=Term(epoch), owner="benchmark"
    )
    stream = StreamSource(WATCH, config, identity=identities([WATCH])[0])
    stop = threading.Event()
    thread = threading.Thread(target=stream.run, args=[stop])
    thread.start()
    try:
        _wait_until(lambda: stream.synced)
        yield
    finally:
        stop.set()
        thread.join()


def _reconcile(server: Server, client: CountingClient) -> int:
    """Let a worker reconcile many items, each by what an index finds; return the requests of that.

    Before the first item it learns which cluster it is in, which is not counted.
    """
    requests = dict[str, int]()

    def reconcile(request: Request) -> None:
        owner = f"owner-{int(request.key[-6:]) // SIBLINGS}"
        assert len(controller.lister(CONFIG_MAPS).by_index("owner", owner)) == SIBLINGS
        requests[request.key] = client.requests

    queue = Queue(QUEUE, server.connection)
    controller = Controller(queue, reconcile, watches=[WATCH], concurrency=1)
    manager = Manager([controller], redis=server.connection, client=client, settings=Settings())
    thread = threading.Thread(target=manager.run, kwargs={"informer": False})
    thread.start()
    try:
        _wait_until(lambda: len(requests) > RECONCILES)
    finally:
        manager.stop()
        thread.join()
    first, *_, last = requests.values()
    return last - first


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:g} s")
        time.sleep(0.002)
