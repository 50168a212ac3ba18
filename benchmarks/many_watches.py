"""What many watches cost one leader, on the emulated API server; a part of ``benchmarks.size``."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.checkouts import python
from benchmarks.children import feeder
from benchmarks.report import Row
from benchmarks.servers import Server
from distq.client import Client

IDLE = 10.0
"""Seconds for which the leader has nothing to do."""


def rows(server: Server, watches: int, objects: int) -> Iterator[Row]:
    """Compare a leader with one watch to a leader with many, of as many objects in all."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distq-benchmark-")))
        kubeconfig = folder / "kubeconfig"
        serve = ["-m", "distq.testing.apiserver", "--port", "0", "--kubeconfig", str(kubeconfig)]
        api_server = stack.enter_context(python(serve))
        assert api_server.stdout is not None
        api_server.stdout.readline()
        client = Client(str(kubeconfig))
        for number in range(watches):
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}})
        measured = {}
        for count in (1, watches):
            _create(client, count, objects)
            measured[count] = _led(server, kubeconfig, count, objects)
            _delete(client, count, objects)
    names = ("CPU until all is enqueued", "s"), ("memory", "MB"), ("idle: CPU a second", "ms")
    for (name, unit), many, one in zip(names, measured[watches], measured[1], strict=True):
        what = f"{server.kind}: {watches} watches of {objects:,} objects: {name}"
        yield Row(what, many, unit, reference=one)


def _led(server: Server, kubeconfig: Path, watches: int, objects: int) -> tuple[float, float, float]:
    """Return CPU time until all is enqueued, memory, and CPU time a second when there is nothing to do."""
    server.connection.execute("FLUSHALL")
    url = f"redis://{server.connection.address}/0"
    with feeder("many_watches", kubeconfig, watches, objects, url) as child:
        child.begin()
        usage, cpu = child.usage(), child.cpu()
        child.rest(IDLE)
        return usage.cpu, usage.steady, 1e3 * (child.cpu() - cpu) / IDLE


def _create(client: Client, namespaces: int, objects: int) -> None:
    for number in range(objects):
        about = {"namespace": f"team-{number % namespaces}", "name": f"object-{number:06}"}
        configured = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about}
        client.create({**configured, "data": {"text": "x" * 200}})


def _delete(client: Client, namespaces: int, objects: int) -> None:
    for number in range(objects):
        client.delete("v1/ConfigMap", f"team-{number % namespaces}/object-{number:06}")
