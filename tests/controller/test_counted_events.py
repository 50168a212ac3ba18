"""How many functions of distq an event of a watch calls: what it costs the leader, on any machine."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

import distq
from distq.client.client import Client
from distq.client.resources import Resource
from distq.clock import SYSTEM_CLOCK
from distq.controller.stream.batch import hand_over
from distq.controller.stream.committer import Committer
from distq.controller.stream.mapping import mapped_keys
from distq.controller.stream.routing import Router
from distq.controller.watches import For, Owns, ResourceWatch
from distq.informer.wire import decode_event
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from tests.controller.leading import Term

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

PODS = Resource("v1", "Pod", "pods", namespaced=True)

BATCH = 100


class Cluster:
    """A client that knows one resource."""

    def resolve(self, text: str) -> Resource:  # noqa: ARG002 - as a Client
        """Return it."""
        return PODS


def owner(pod: dict[str, Any]) -> list[str]:
    """Return the Pod's owner, as an indexer does."""
    return [pod["metadata"]["ownerReferences"][0]["name"]]


def lines(first: int, events: int) -> list[bytes]:
    """Return changes of so many Pods."""
    return [
        b'{"type":"MODIFIED","object":%s}' % json.dumps(pod(number), separators=(",", ":")).encode()
        for number in range(first, first + events)
    ]


def pod(number: int) -> dict[str, Any]:
    """Return a Pod that a ReplicaSet owns."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"set-{number}", "controller": True}
    metadata = {"name": f"web-{number}", "namespace": "prod", "resourceVersion": str(1000 + number)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, "ownerReferences": [reference]}}


@contextmanager
def counting() -> Iterator[list[str]]:
    """Give what is called meanwhile of distq's functions; comprehensions are none in later Pythons."""
    called: list[str] = []
    folder = str(Path(distq.__file__).parent)

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folder) and not code.co_name.startswith("<"):
            called.append(code.co_qualname)

    sys.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("watch", "calls"),
    [
        (For("v1/Pod"), 12),
        (Owns("v1/Pod"), 23),
        (For("v1/Pod", cached=True), 25),
        (For("v1/Pod", cached=True, indexers={"owner": owner}), 33),
    ],
    ids=["For", "Owns", "cached", "indexed"],
)
def test_an_event_calls_no_more_functions_than_were_counted(
    watch: ResourceWatch, calls: int, connection: Connection
) -> None:
    """From its line to its commit: of a batch, what each event more adds."""
    committer = Committer(
        StreamStore(connection, "foos", "pods"),
        Term(),
        SYSTEM_CLOCK,
        threading.Event(),
        about=dict[str, Any],
        present_version=str,
        committed=lambda _: None,
        span=lambda _: nullcontext(""),
    )
    committer.load()
    keys = mapped_keys(watch, cast("Client", Cluster()), "apps/v1/ReplicaSet")
    router = Router(watch, "foos", keys, "", failed=lambda: None, clock=SYSTEM_CLOCK)
    batch = _batches(router, committer)
    batch(lines(0, BATCH))  # what is done once is done here
    small, large = batch(lines(0, BATCH)), batch(lines(0, 2 * BATCH))
    each = (len(large) - len(small)) / BATCH
    assert each <= calls * 1.03, f"{each} calls: {', '.join(dict.fromkeys(large))}"


def _batches(router: Router, committer: Committer) -> Callable[[Sequence[bytes]], list[str]]:
    def batch(of: Sequence[bytes]) -> list[str]:
        with counting() as called:
            hand_over([decode_event(line, PODS) for line in of], router, committer)
        return called

    return batch
