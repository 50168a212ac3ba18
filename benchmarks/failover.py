"""What a change of leaders costs the API server and the queue: python -m benchmarks.failover.

A leader lists custom objects and goes; without a leader, some are changed, deleted and added. The next
one resumes the watch, or finds it refused, because the definition of the resource changed. Its requests to
the API server are counted, and the keys that it enqueues are compared with the changes. Then takeovers are
timed, see ``benchmarks.takeover``.
"""

import json
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import click

from benchmarks import takeover
from benchmarks.cluster import cluster, namespace
from benchmarks.report import Row, publish
from benchmarks.servers import programs, started
from distq.client import Client
from distq.client.raw import WatchResponse
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, identities
from distq.errors import ApiError, ConfigError, TooManyRequests
from distq.redisio.connection import Connection
from distq.redisio.limits import PAGE_SIZE
from distq.redisio.queue_store import QueueStore
from tests.controller.leading import Term
from tests.support.recording import DEFINITIONS, change_schema
from tests.support.samples import custom_resource, wait_until_served

QUEUE = "failover"
WRITERS = 6
TIMEOUT = 600.0
MISSED = 0.01
"""The part of the objects that changes without a leader; of that, a fifth is deleted and a fifth added."""


class CountingClient(Client):
    """A Client that counts what lists and watches it asks for."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig)
        self.asked: Counter[str] = Counter()

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **rest: Any
    ) -> bytes:
        """Count a page of a list, or a question for the version."""
        if method == "GET" and query is not None:
            self.asked["version" if query == {"limit": "1"} else "page"] += 1
        return super().request(method, path, query=query, **rest)

    def stream(self, path: str, *, query: Mapping[str, str], **rest: Any) -> WatchResponse:
        """Count a watch."""
        self.asked["watch"] += 1
        return super().stream(path, query=query, **rest)


@dataclass(frozen=True)
class Missed:
    """The names of the objects that changed without a leader."""

    changed: set[str]
    deleted: set[str]
    added: set[str]

    @property
    def all(self) -> set[str]:
        """Return all of them."""
        return self.changed | self.deleted | self.added


class Widgets:
    """Custom objects of some hundred bytes in one namespace, and what happens to them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.namespace = namespace
        group = f"{namespace}.example.com"
        self.resource = f"{group}/v1/Widget"
        self.alive: list[str] = []
        self._changes = count(1)
        self._definition = f"widgets.{group}"
        self._path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
        self._client = client
        client.create(custom_resource(group))
        wait_until_served(client, self.resource)

    def create(self, number: int) -> list[str]:
        """Create that many more; return their names."""
        first = int(self.alive[-1].rpartition("-")[2]) + 1 if self.alive else 0
        names = [f"widget-{index:06}" for index in range(first, first + number)]
        self._each(names, self._create)
        self.alive += names
        return names

    def miss(self, events: int) -> Missed:
        """Let so much happen, each to another object, far apart."""
        some = self.alive[:: max(1, len(self.alive) // events)][: events - events // 5]
        deleted, changed = some[: events // 5], some[events // 5 :]
        self._each(changed, self._change)
        self._each(deleted, lambda name: self._client.request("DELETE", f"{self._path}/{name}"))
        gone = set(deleted)
        self.alive = [name for name in self.alive if name not in gone]
        return Missed(set(changed), gone, set(self.create(events // 5)))

    def forget_versions(self) -> None:
        """Change the definition, so that no watch can resume; return when that has happened."""
        answer = self._client.request("GET", self._path, query={"limit": "1"})
        version = json.loads(answer)["metadata"]["resourceVersion"]
        change_schema(self._client, self._definition)
        until(lambda: self._is_too_old(version), "watches are refused")

    def remove(self) -> None:
        """Remove all of it."""
        self._client.delete(DEFINITIONS, self._definition)

    def _is_too_old(self, version: str) -> bool:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
        try:
            with self._client.stream(self._path, query=query, read_timeout=10) as lines:
                return b'"code":410' in next(iter(lines), b"")
        except TooManyRequests:
            return False

    def _create(self, name: str) -> bytes:
        api_version, _, kind = self.resource.rpartition("/")
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"color": "blue"}}
        return self._client.request("POST", self._path, body=body)

    def _change(self, name: str) -> bytes:
        body = {"spec": {"color": f"green {next(self._changes)}"}}  # the same again would be no change
        kind = "application/merge-patch+json"
        return self._client.request("PATCH", f"{self._path}/{name}", body=body, content_type=kind)

    def _each(self, names: Iterable[str], write: Callable[[str], bytes]) -> None:
        with ThreadPoolExecutor(WRITERS) as writers:
            for _ in writers.map(write, names):
                pass


class Leader:
    """A new leader and what it asks for; a context manager."""

    def __init__(self, kubeconfig: Path, connection: Connection, widgets: Widgets, term: int) -> None:
        self.client = CountingClient(kubeconfig)
        self.began = time.monotonic()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        watch = For(widgets.resource)
        config = SourceConfig(
            queue=QUEUE,
            connection=connection,
            client=self.client,
            leadership=Term(str(term), f"leader-{term}"),
        )
        (identity,) = identities([watch])
        self.stream = StreamSource(watch, config, identity=identity, namespace=widgets.namespace)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def is_synced(self) -> bool:
        """Return whether it is; raise what ended it."""
        if self._failure is not None:
            raise self._failure
        return self.stream.synced

    def __enter__(self) -> "Leader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.stream.run(self._stop)
        except BaseException as error:  # noqa: BLE001 - is_synced raises it
            self._failure = error


@dataclass
class Handover:
    """What one change of leaders did."""

    missed: Missed
    asked: Counter[str]
    lists: int
    seconds: float
    enqueued: set[str]
    number: int


class Bench:
    """A cluster full of objects, a Redis, and leaders that follow each other."""

    def __init__(self, kubeconfig: Path, connection: Connection, widgets: Widgets) -> None:
        self._kubeconfig = kubeconfig
        self._store = QueueStore(connection, QUEUE)
        self._connection = connection
        self._widgets = widgets
        self._term = 0

    def first(self) -> tuple[float, int]:
        """Let the first leader list everything; return seconds and keys enqueued."""
        with self._leader() as leader:
            until(leader.is_synced, "the first leader is synced")
            seconds, enqueued = time.monotonic() - leader.began, leader.stream.enqueued
        self._work()
        return seconds, enqueued

    def hand_over(self, events: int, *, resumable: bool) -> Handover:
        """Make changes without a leader, and then start one."""
        missed = self._widgets.miss(events)
        if not resumable:
            self._widgets.forget_versions()
        with self._leader() as leader:
            until(lambda: leader.is_synced() and missed.all <= self._pending(), "it is up to date")
            seconds = time.monotonic() - leader.began
            (last,) = self._widgets.create(1)  # events come in order: with this one all others came
            until(lambda: last in self._pending(), "it goes on")
            enqueued, number = self._pending() - {last}, leader.stream.enqueued - 1
        self._work()
        return Handover(missed, leader.client.asked, leader.stream.lists, seconds, enqueued, number)

    def _leader(self) -> Leader:
        self._term += 1
        return Leader(self._kubeconfig, self._connection, self._widgets, self._term)

    def _pending(self) -> set[str]:
        (keys,) = self._store.read(("ZRANGE", "ready", 0, -1))
        return {key.decode().partition("/")[2] for key in keys}

    def _work(self) -> None:
        self._connection.execute("DEL", self._store.key("ready"))


def until(condition: Callable[[], bool], what: str) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise ApiError(f"not within {TIMEOUT:g} s: {what}")
        time.sleep(0.02)


FIRST_PAGES = (50, 200)
"""Objects of the pages before those of PAGE_SIZE."""


def measure(bench: Bench, objects: int, events: int) -> list[Row]:
    """Return what the first leader did, and what the next ones, with their bars."""
    seconds, number = bench.first()
    resumed = bench.hand_over(events, resumable=True)
    listed = bench.hand_over(events, resumable=False)
    left = objects + 1 - sum(FIRST_PAGES)  # as many were added as deleted, and one each time
    pages = len(FIRST_PAGES) + math.ceil(max(0, left) / PAGE_SIZE)
    return [
        Row("the first leader: list and enqueue", seconds, "s"),
        Row("the first leader: keys enqueued", number, "keys", 1, objects),
        Row("the watch resumes: pages listed", resumed.asked["page"], "requests", 0),
        Row("the watch resumes: version checks", resumed.asked["version"], "requests", 1),
        Row("the watch resumes: watches", resumed.asked["watch"], "requests", 1),
        *_exactness("the watch resumes", resumed, "missed events"),
        Row("the watch is refused: lists", listed.lists, "lists", 1),
        Row("the watch is refused: pages listed", listed.asked["page"], "requests", 1, pages),
        *_exactness("the watch is refused", listed, "differences"),
    ]


def _exactness(name: str, handover: Handover, what: str) -> list[Row]:
    missed = handover.missed
    return [
        Row(f"{name}: keys enqueued, for {what}", handover.number, "keys", 1, len(missed.all)),
        Row(f"{name}: {what} not enqueued", len(missed.all - handover.enqueued), "keys", 0),
        Row(f"{name}: deletions not enqueued", len(missed.deleted - handover.enqueued), "keys", 0),
        Row(f"{name}: up to date after", handover.seconds, "s"),
    ]


@contextmanager
def scene(kubeconfig: Path, objects: int) -> Iterator[Bench]:
    """Fill a namespace with objects, and start a Redis."""
    client = Client(kubeconfig)
    with namespace(client) as own, started(next(iter(programs()))) as redis:
        widgets = Widgets(client, own)
        try:
            widgets.create(objects)
            yield Bench(kubeconfig, redis.connection, widgets)
        finally:
            widgets.remove()


@click.command()
@click.option("--objects", type=click.IntRange(min=10), help="How many objects are watched; 50000.")
@click.option("--quick", is_flag=True, help="2000 objects, unless told, and fewer takeovers.")
@click.option("--takeovers/--no-takeovers", default=True, help="Whether to time takeovers too; about 40 s.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(objects: int | None, quick: bool, takeovers: bool, as_json: bool) -> None:
    """Measure changes of leaders on the cluster of KUBECONFIG, or on an API server of its own."""
    objects = objects or (2_000 if quick else 50_000)
    try:
        with cluster() as kubeconfig:
            with scene(kubeconfig, objects) as bench:
                rows = measure(bench, objects, max(5, int(objects * MISSED)))
            if takeovers:
                with namespace(Client(kubeconfig)) as own:
                    rows += takeover.measure(kubeconfig, own, 3 if quick else 8)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(publish(rows, as_json=as_json, facts={"objects": objects}))


if __name__ == "__main__":
    main()
