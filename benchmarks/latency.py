"""How long after a write its key can be claimed, and how long the API server itself needs to report it."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import Child, feeder, follower
from benchmarks.cluster import WRITERS, Pods, namespace
from distq.client import Client
from distq.errors import DistqError
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey

RATE = 50
"""Writes a second."""

OBJECTS = 100
TIMEOUT = 10.0
"""Seconds for the last keys to come."""


@dataclass(frozen=True)
class Latencies:
    """Seconds from just before each write, sorted; and those of a Redis command at the same pace."""

    claimable: Sequence[float]
    watched: Sequence[float]
    commands: Sequence[float]


def measure(kubeconfig: Path, writes: int) -> Latencies:
    """Change Pods at a steady rate, while a Manager feeds a queue that another process takes from."""
    with ExitStack() as stack:
        client = Client(kubeconfig)
        pods = Pods(client, stack.enter_context(namespace(client)))
        pods.create(OBJECTS)
        valkey = stack.enter_context(EmbeddedValkey())
        arguments = kubeconfig, pods.namespace
        manager = stack.enter_context(feeder("manager", *arguments, OBJECTS, valkey.url))
        consumer = stack.enter_context(feeder("consumer", valkey.url))
        watch = stack.enter_context(follower("raw_watch", *arguments, pods.version))
        for child in (manager, consumer, watch):
            child.begin()
        _until_received(consumer, OBJECTS)  # those of the first list
        _write(pods, 2 * RATE)  # a second or two to warm up
        received = _until_received(consumer, OBJECTS + 2 * RATE), _until_received(watch, 2 * RATE)
        written = _write(pods, writes)
        claimable, watched = (
            _since(child, before, written) for child, before in zip((consumer, watch), received, strict=True)
        )
        return Latencies(claimable, watched, _commands(Connection(valkey.url)))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of sorted values is."""
    return values[min(int(share * len(values)), len(values) - 1)]


def _write(pods: Pods, writes: int) -> Mapping[str, list[float]]:
    """Return when each Pod was changed, on the monotonic clock."""
    written: dict[str, list[float]] = {}
    lock = threading.Lock()

    def write(name: str) -> None:
        now = time.monotonic()
        with lock:
            written.setdefault(f"{pods.namespace}/{name}", []).append(now)
        pods.change_one(name)

    began = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as writers:
        futures = []
        for number in range(writes):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            futures.append(writers.submit(write, pods.names[number % len(pods.names)]))
        for future in futures:
            future.result()
    return written


def _commands(connection: Connection) -> Sequence[float]:
    """Return how long Redis commands took; on an idle machine mostly to wake a process up."""
    took = []
    for _ in range(4 * RATE):
        time.sleep(1 / RATE)
        began = time.monotonic()
        connection.execute("PING")
        took.append(time.monotonic() - began)
    return sorted(took)


def _since(child: Child, before: int, written: Mapping[str, list[float]]) -> list[float]:
    """Return for each write how long it took until a child received the Pod, sorted."""
    left = {key: list(times) for key, times in written.items()}
    count = sum(map(len, left.values()))
    deadline = time.monotonic() + TIMEOUT
    while len(child.received()) < before + count and time.monotonic() < deadline:
        time.sleep(0.01)
    latencies = []
    for key, at in child.received()[before:]:
        for written_at in list(left.get(key, ())):
            if written_at <= at:  # several writes may have made one key
                latencies.append(at - written_at)
                left[key].remove(written_at)
    if lost := sum(map(len, left.values())):
        raise DistqError(f"{lost} of {count} writes never reached the child")
    return sorted(latencies)


def _until_received(child: Child, number: int) -> int:
    deadline = time.monotonic() + TIMEOUT
    while len(child.received()) < number:
        if time.monotonic() > deadline:
            break  # several writes may have made one key
        time.sleep(0.01)
    return len(child.received())
