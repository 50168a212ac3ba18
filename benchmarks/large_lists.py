"""How much memory a leader takes to list objects as large as an API server accepts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.children import feeder
from benchmarks.cluster import WRITERS, namespace
from benchmarks.report import Row
from distq.client import Client
from distq.testing.embedded_valkey import EmbeddedValkey

OBJECTS, BYTES = 250, 1_300_000

BAR = 32 * 2**20 / 1e6
"""MB that a list may take above what the leader has when all is at rest."""


def measure(kubeconfig: Path, settle: float) -> Iterator[Row]:
    """Yield how much the list takes, and what the leader has afterwards, both above its start."""
    client = Client(kubeconfig)
    with (
        namespace(client) as name,
        _large_pods(client, name),
        EmbeddedValkey() as valkey,
        feeder("manager", kubeconfig, name, OBJECTS, valkey.url) as leader,
    ):
        leader.begin()
        leader.rest(settle)
        usage = leader.usage()
    what = f"list of {OBJECTS} objects of {BYTES / 1e6:g} MB"
    yield Row(f"{what}: memory, peak above steady", max(0.0, usage.peak - usage.steady), "MB", BAR)
    yield Row(f"{what}: memory, steady", usage.steady, "MB")


@contextmanager
def _large_pods(client: Client, namespace: str) -> Iterator[None]:
    """Create Pods without a scheduler; delete them singly, since a client that deletes all gets each one."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "web", "image": "example.com/web", "args": ["x" * BYTES]}

    def create(number: int) -> None:
        spec = {"schedulerName": "nobody", "containers": [container]}
        client.request("POST", path, body={"metadata": {"name": f"large-{number}"}, "spec": spec})

    def delete(number: int) -> None:
        client.delete("v1/Pod", f"{namespace}/large-{number}", grace_period=0)

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(create, range(OBJECTS)))
        try:
            yield
        finally:
            list(writers.map(delete, range(OBJECTS)))
