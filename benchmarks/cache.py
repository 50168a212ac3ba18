"""What cached objects cost Redis, and how fast they are read: ``python -m benchmarks.cache [--json]``.

It starts a server of its own, or with ``--server all`` one of each kind that is installed. Exit code 1 where
a bar is missed.
"""

import json
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import click

from benchmarks import cached_reads, servers
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.object_cache import CachedObject, ObjectCache
from distq.redisio.stream_store import Committed, StreamStore

COMMIT = 0.5
"""The least throughput of commits with objects, as a multiple of a script that only moves their bytes."""

FIRST_READ = 50.0
"""ms: the most that a new worker's first read may take."""

SIBLINGS = 10
"""How many objects an owner has."""

BATCH = 300
"""Objects of a commit, each with its key, its line in the known set, and its record."""

READS = 1000


@click.command()
@click.option("--objects", type=click.IntRange(1000), default=50_000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option(
    "--server", type=click.Choice([*servers.KINDS, "all"]), default=servers.KINDS[0], show_default=True
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Of reads and commits.")
def main(objects: int, as_json: bool, server: str, rounds: int) -> None:
    """Measure the cache of a stream."""
    rows, versions = servers.measure(server, lambda running: _rows(running, objects, rounds))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions, "objects": objects}))


def _rows(server: Server, objects: int, rounds: int) -> Iterator[Row]:
    server.connection.execute("FLUSHALL")
    pods = [_pod(number, version=1) for number in range(objects)]
    yield from _commits(server, pods, rounds)
    yield from _memory(server, pods)
    yield from _reads(server, pods, rounds)
    yield from cached_reads.rows(server, objects)


def _pod(number: int, version: int) -> CachedObject:
    """Return a Pod of some 1.6 KB; ten in a row have one owner."""
    owner = f"set-{number // SIBLINGS}"
    container = {
        "name": "web",
        "image": f"registry.example.com/team/web:{number % 97}",
        "ports": [{"containerPort": 80}],
    }
    environment = [
        {"name": f"SETTING_{each}", "value": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{number} {each}"))}
        for each in range(16)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-{number:06}",
            "namespace": f"team-{number % 50}",
            "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, str(number))),
            "resourceVersion": str(version),
            "labels": {"app": "web", "owner": owner},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "controller": True}
            ],
        },
        "spec": {"containers": [container | {"env": environment}], "nodeName": f"node-{number % 500}"},
        "status": {"phase": "Running", "podIP": f"10.0.{number // 250 % 250}.{number % 250}"},
    }
    data = json.dumps(pod, separators=(",", ":")).encode()
    return CachedObject(f"team-{number % 50}/web-{number:06}", str(version), data, {"owner": [owner]})


# Commits


class _Leader:
    """Commits batches to a stream of its own, with objects or without."""

    def __init__(self, connection: Connection, stream: str, *, caches: bool) -> None:
        self._store = StreamStore(connection, "foos", stream)
        self._caches = caches
        self._batch = ""

    def commit(self, pods: Sequence[CachedObject], version: int) -> None:
        """Hand objects over as of a version, ``BATCH`` at a time."""
        for first in range(0, len(pods), BATCH):
            part = pods[first : first + BATCH]
            batch = f"{version}-{first}"
            told = self._store.commit(
                Commit(
                    epoch="1",
                    after=self._batch,
                    new=str(version),
                    batch=batch,
                    keys=[pod.name.encode() for pod in part],
                    known=dict.fromkeys([pod.name for pod in part], str(version)),
                    objects=part if self._caches else (),
                    about={"cached": ["owner"]},
                )
            )
            assert isinstance(told, Committed)
            self._batch = batch


def _commits(server: Server, pods: Sequence[CachedObject], rounds: int) -> Iterator[Row]:
    """Compare commits with objects and without, which alternate; the first round fills the cache."""
    leaders = {how: _Leader(server.connection, how, caches=how == "with") for how in ("with", "without")}
    took: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for turn in range(rounds + 1):
        again = pods if turn == 0 else [pod._replace(version=str(turn + 1)) for pod in pods[: 10 * BATCH]]
        for how, leader in leaders.items():
            cpu, begin = server.cpu(), time.perf_counter()
            leader.commit(again, turn + 1)
            a_second = len(again) / (time.perf_counter() - begin)
            what = "first" if turn == 0 else "changed"
            took.setdefault((what, how), []).append((a_second, (server.cpu() - cpu) / len(again)))
    moved, moved_cost = _transfer(server, pods[: 10 * BATCH], rounds)
    for what in ("first", "changed"):
        (fast, cost), (plain_fast, plain_cost) = (
            tuple(map(median, zip(*took[what, how], strict=True))) for how in leaders
        )
        name = f"{server.kind}: commit of {what} objects"
        yield Row(f"{name}, a second", fast, "objects", reference=plain_fast)
        yield Row(f"{name}: Redis' CPU each", cost, "µs", reference=plain_cost)
        yield Row(
            f"{name}, against moving them alone", fast, "objects", COMMIT, reference=moved, at_least=True
        )
    yield Row(f"{server.kind}: moving the objects alone, a second", moved, "objects", reference=plain_fast)
    yield Row(f"{server.kind}: moving the objects alone: Redis' CPU each", moved_cost, "µs")


def _transfer(server: Server, pods: Sequence[CachedObject], rounds: int) -> tuple[float, float]:
    """Send the same bytes to a script that does nothing with them: no commit can be faster.

    Returns how many objects a second, and Redis' CPU each, µs.
    """
    sha = server.connection.execute("SCRIPT", "LOAD", "return 0")
    took = []
    for _ in range(rounds):
        cpu, begin = server.cpu(), time.perf_counter()
        for first in range(0, len(pods), BATCH):
            words = [word for pod in pods[first : first + BATCH] for word in (pod.name, pod.data)]
            server.connection.execute("EVALSHA", sha, 0, *words)
        a_second = len(pods) / (time.perf_counter() - begin)
        took.append((a_second, (server.cpu() - cpu) / len(pods)))
    fast, cost = map(median, zip(*took, strict=True))
    return fast, cost


# What is there, and how it is read


def _memory(server: Server, pods: Sequence[CachedObject]) -> Iterator[Row]:
    size = sum(len(pod.data) for pod in pods) / len(pods)
    keys = [f"distq:{{foos}}:{each}:with" for each in ("cache", "terms", "index")]
    used = [server.connection.execute("MEMORY", "USAGE", key, "SAMPLES", 0) / len(pods) for key in keys]
    yield Row(f"{server.kind}: bytes of an object", sum(used), "bytes", reference=size)
    yield Row(f"{server.kind}: of these what finds it", sum(used[1:]), "bytes")


class _Counting(Connection):
    """A Connection that counts how often it waits for the server."""

    round_trips = 0

    def evaluate_and(self, *call: Any, **more: Any) -> list[Any]:
        """Count one."""
        self.round_trips += 1
        return super().evaluate_and(*call, **more)

    def pipeline(self, commands: Sequence[Sequence[Any]], *, keep_refusals: bool = False) -> list[Any]:
        """Count one."""
        self.round_trips += 1
        return super().pipeline(commands, keep_refusals=keep_refusals)


def _reads(server: Server, pods: Sequence[CachedObject], rounds: int) -> Iterator[Row]:
    url = f"redis://{server.connection.address}/0"
    first_reads = []
    for turn in range(rounds):
        connection = Connection(url)  # as in a process that has just started
        begin = time.perf_counter()
        assert ObjectCache(connection, "foos", "with").get(pods[turn].name) is not None
        first_reads.append(1000 * (time.perf_counter() - begin))
        connection.close()
    yield Row(f"{server.kind}: a new worker's first read", median(first_reads), "ms", FIRST_READ)
    connection = _Counting(url)
    cache = ObjectCache(connection, "foos", "with")
    step = len(pods) // READS
    gets = [pod.name for pod in pods[::step]]
    owners = [f"set-{number // SIBLINGS}" for number in range(0, len(pods), step)]
    for name, calls in (
        ("get", [lambda name=name: [cache.get(name)] for name in gets]),
        (f"by_index of {SIBLINGS}", [lambda owner=owner: cache.by_index("owner", owner) for owner in owners]),
    ):
        calls[0]()
        connection.round_trips = 0
        took = []
        for call in calls:
            begin = time.perf_counter()
            found = call()
            took.append(1e6 * (time.perf_counter() - begin))
            assert all(found)
        what = f"{server.kind}: {name} among {len(pods)}"
        yield Row(f"{what}, p50", median(took), "µs")
        yield Row(f"{what}, round trips", connection.round_trips / len(calls), "", 1.0)
    connection.close()


if __name__ == "__main__":
    main()
