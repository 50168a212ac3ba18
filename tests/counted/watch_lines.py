"""The lines of a watch on their way into a queue: decoded, routed and committed, but not received."""

import json
from types import SimpleNamespace
from typing import Any, cast

from distq.client.resources import Resource
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, identities
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from tests.controller.leading import Term
from tests.counted.paths import Calls, apart

LINES, TOGETHER = 2000, 100
PODS = Resource("v1", "Pod", "pods", namespaced=True)


def calls_of_line(connection: Connection, *, cached: bool) -> float:
    """Return the calls of functions for one line, of an object that changed."""
    connection.execute("FLUSHALL")
    calls = Calls()

    def work() -> None:
        source = _source(connection, cached=cached)
        lines = [_line(number) for number in range(LINES + 1)]
        source.events([source.list_watch.decode(lines.pop())], 0.0)  # what comes once is not counted
        with calls.counted():
            for first in range(0, LINES, TOGETHER):
                events = [source.list_watch.decode(line) for line in lines[first : first + TOGETHER]]
                source.events(events, 0.0)

    apart(work)
    return calls.count / LINES


def _source(connection: Connection, *, cached: bool) -> StreamSource:
    client = cast("Any", SimpleNamespace(cluster_id=lambda: "counted", resolve=lambda _: PODS))
    config = SourceConfig(
        queue="counted", connection=connection, client=client, leadership=Term(), resync_period=0
    )
    watch = For("v1/Pod", cached=cached)
    source = StreamSource(watch, config, identity=identities([watch])[0])
    about = {"cached": source._caching.kept} if source._caching else {}
    StreamStore(connection, "counted", source.name()).commit(
        Commit(epoch="1", after="", new="1", batch="counted", about=about)
    )
    source.position()
    return source


def _line(number: int) -> bytes:
    metadata = {"name": f"pod-{number % 500}", "namespace": "default", "resourceVersion": str(1000 + number)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}
    return json.dumps({"type": "MODIFIED", "object": pod}, separators=(",", ":")).encode()
