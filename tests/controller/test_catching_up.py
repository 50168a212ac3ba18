"""Workers wait, when a term begins, until the cached watches of a controller are in step."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from distq.client.client import Client
from distq.client.objects import Object
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.stream.catching_up import CatchingUp, CaughtUp
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, Watches
from distq.informer.wire import WatchEvent
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.testing import FakeClock
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.caching import CONFIG_MAPS
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_manager import managing
from tests.support.eventually import eventually
from tests.support.samples import config_map

SETS, PODS = "v1/Secret", CONFIG_MAPS
TWO_SERVERS = pytest.mark.parametrize(
    ("api_server", "redis_server"), [("emulator", "redis7"), ("real", "valkey9")], indirect=True
)
ONE_SERVER = pytest.mark.parametrize(("api_server", "redis_server"), [("emulator", "valkey9")], indirect=True)


def by_set(obj: Object) -> list[str]:
    """Return which set an object belongs to."""
    return [name] if (name := obj.get("data", {}).get("set")) else []


class Sets:
    """A controller that counts the children of each set in its cache, as a ReplicaSet's does."""

    def __init__(self, scene: Scene, *, cache_sync_timeout: float = 120.0) -> None:
        self.scene = scene
        self.client = Client(scene.kubeconfig)
        self.counted: list[int] = []
        self._timeout = cache_sync_timeout

    def create(self, name: str) -> None:
        """Create a set."""
        metadata = {"name": name, "namespace": self.scene.namespace}
        self.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

    def touch(self, name: str) -> None:
        """Change a set."""
        self.client.patch(SETS, self.scene.key(name), {"metadata": {"annotations": {"touched": "yes"}}})

    def add_child(self, name: str, of: str) -> None:
        """Create a child of a set."""
        self.client.create(config_map(self.scene.namespace, name, set=of))

    @contextmanager
    def running(self) -> Iterator[Manager]:
        """Run a process with leader and worker."""
        scene, client = self.scene, self.client
        here = [scene.namespace]
        watches: list[For | Watches] = [
            For(SETS, cached=True, namespaces=here),
            Watches(PODS, lambda _: [], cached=True, indexers={"set": by_set}, namespaces=here),
        ]

        def reconcile(request: Request) -> None:
            name = request.key.rpartition("/")[2]
            self.counted.append(len(controller.lister(PODS).by_index("set", name)))

        queue = Queue(QUEUE, scene.connection)
        controller = Controller(queue, reconcile, watches=watches, cache_sync_timeout=self._timeout)
        settings = Settings(lease_name="distq-test", lease_namespace=scene.namespace)
        manager = Manager([controller], redis=scene.connection, client=client, settings=settings)
        with managing(manager):
            yield manager

    def is_held_back(self) -> bool:
        """Return whether workers wait though a set's key is ready."""
        (queue,) = Inspector(self.scene.connection).queues(QUEUE)
        return queue.ready > 0 and queue.catching_up_until is not None

    def rest(self) -> None:
        """Let a first term see a set, and end."""
        self.create("web")
        with self.running():
            eventually(lambda: self.counted == [0])
        self.counted.clear()


@contextmanager
def late(monkeypatch: pytest.MonkeyPatch, resource: str) -> Iterator[threading.Event]:
    """Let the watch of a resource hand over nothing until the event is set."""
    gate, events = threading.Event(), StreamSource.events

    def wait_and_hand_over(stream: StreamSource, news: Sequence[WatchEvent], since: float) -> None:
        while stream.resource == resource and not gate.wait(0.05):
            stream.tick()
        events(stream, news, since)

    monkeypatch.setattr(StreamSource, "events", wait_and_hand_over)
    try:
        yield gate
    finally:
        gate.set()


@TWO_SERVERS
def test_a_set_is_reconciled_by_all_children_that_there_were_when_the_term_began(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two orphans were created while nothing led; the watch that hands them over is the later one."""
    sets = Sets(scene)
    sets.rest()
    sets.add_child("one", of="web")
    sets.add_child("other", of="web")
    sets.touch("web")
    with late(monkeypatch, PODS) as gate, sets.running():
        eventually(lambda: sets.counted or sets.is_held_back())
        gate.set()
        eventually(lambda: sets.counted)
    assert set(sets.counted) == {2}


@TWO_SERVERS
def test_a_term_in_which_nothing_was_missed_waits_for_a_bookmark_alone(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """A brief watch brings it within two seconds or so, and then all is as before."""
    sets = Sets(scene)
    sets.rest()
    caplog.set_level(logging.INFO)
    with sets.running():
        eventually(lambda: "its watches have caught up after" in caplog.text)
        Queue(QUEUE, scene.connection).add(scene.key("web"))
        eventually(lambda: sets.counted == [0])
        (queue,) = Inspector(scene.connection).queues(QUEUE)
        assert queue.catching_up_until is None
        eventually(lambda: not any(each.behind for each in Inspector(scene.connection).streams(QUEUE)))


@ONE_SERVER
def test_workers_go_on_where_a_watch_does_not_catch_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After ``cache_sync_timeout``; a warning names the watch and how far it is to come."""
    sets = Sets(scene, cache_sync_timeout=3.0)
    sets.rest()
    sets.add_child("one", of="web")
    sets.touch("web")
    caplog.set_level(logging.WARNING)
    with late(monkeypatch, PODS), sets.running():
        eventually(lambda: sets.counted == [0])
        eventually(lambda: "have not caught up within" in caplog.text)
    assert f"{QUEUE}: workers go on, though these watches have not caught up" in caplog.text
    assert f"{PODS} (version " in caplog.text
    assert SETS not in caplog.text.partition("have not caught up")[2]


def test_a_check_before_the_begin_ends_nothing(connection: Connection) -> None:
    """While another program has the queue, a leader checks its sources, also on a machine just started."""
    clock, store = FakeClock(), QueueStore(connection, QUEUE)
    stream = CaughtUp(PODS, clock)
    catching_up = CatchingUp([stream], store, epoch="1", timeout=120.0, clock=clock)
    catching_up.check()
    catching_up.begin()
    assert stream.is_awaited
    assert store.read(("HEXISTS", "meta", "catching_up")) == [1]
    stream.reached()
    assert store.read(("HEXISTS", "meta", "catching_up")) == [0]


def test_a_wait_of_more_than_a_day_stops_no_claims(connection: Connection) -> None:
    """No leader wrote it: the server's clock was wrong then, or a user did."""
    queue, store = Queue(QUEUE, connection), QueueStore(connection, QUEUE)
    queue.add("default/web", "default/api")
    far = "HSET", store.key("meta"), "catching_up", "7 9999999999999999"
    connection.execute(*far)
    assert queue.get(0).key == "default/web"
    connection.execute(*far)
    CatchingUp([CaughtUp(PODS, FakeClock())], store, epoch="1", timeout=1e9, clock=FakeClock()).begin()
    assert queue.turn([], 1).requests == []
    assert store.read(("HGET", "meta", "catching_up"))[0].startswith(b"1 ")
    queue.close()
