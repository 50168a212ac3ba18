"""The promise of cached reads, while objects change faster than they are reconciled."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from distq.client.client import Client
from distq.client.objects import Object
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.informer import Lister, ListWatch, SharedInformer
from distq.informer.objects import is_older
from distq.informer.wire import WatchEvent
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import Committed, StreamStore
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.caching import CONFIG_MAPS, EMULATED
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_manager import managing
from tests.support.eventually import eventually
from tests.support.parts import IN_CI
from tests.support.samples import config_map

ON_THREE_SERVERS = pytest.mark.parametrize(
    ("api_server", "redis_server"),
    [("emulator", "redis7"), ("emulator", "redis6"), ("real", "valkey9")],
    indirect=True,
)
OBJECTS, FEW = 200 if IN_CI else 50, 10
ROUNDS = 3
PATIENCE = 120.0
"""Seconds for a round of changes on a busy machine."""


def by_round(obj: Object) -> list[str]:
    """Return in which round an object was changed last, and whether a reconcile saw that."""
    return [f"{obj['data']['round']} {obj['data'].get('seen', '')}"]


class Fleet:
    """A leader and two workers of one queue, and what their reconciles read.

    A reconcile reads its object, notes in it which round it saw, and reads it again.
    """

    def __init__(self, scene: Scene, read: Callable[[Controller, str], Object | None] | None = None) -> None:
        self.scene = scene
        self.handed_over: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.last_read: dict[str, str] = {}
        self.too_old: list[str] = []
        self.reads = 0
        self._read = read or self._read_cached
        self._lock = threading.Lock()

    @contextmanager
    def running(self, monkeypatch: pytest.MonkeyPatch) -> Iterator["Fleet"]:
        """Run the processes until the block ends."""
        self._note_commits(monkeypatch)
        with ExitStack() as stack:
            stack.enter_context(managing(self._manager(), workers=False))
            for _ in range(2):
                stack.enter_context(managing(self._manager(), informer=False))
            yield self

    def controller(self, client: Client, connection: Connection) -> Controller:
        """Return the controller of one process."""
        watch = For(
            CONFIG_MAPS,
            namespaces=[self.scene.namespace],
            label_selector="round",
            cached=True,
            indexers={"round": by_round},
        )

        def reconcile(request: Request) -> None:
            found = self._checked(request.key, controller)
            data = found["data"] if found else {}
            if data and data.get("seen") != data["round"]:
                written = client.patch(CONFIG_MAPS, request.key, {"data": {"seen": data["round"]}})
                self._note(self.written, request.key, written)
                self._checked(request.key, controller)

        controller = Controller(Queue(QUEUE, connection), reconcile, watches=[watch])
        return controller

    def is_idle(self) -> bool:
        """Return whether the newest state of all objects was handed over, and nothing is left to do."""
        newest = self.newest()
        queues = Inspector(self.scene.connection).queues(QUEUE)
        handed_over = all(not is_older(self.handed_over.get(key, "0"), newest[key]) for key in newest)
        return handed_over and bool(queues) and not (queues[0].depth or queues[0].processing)

    def newest(self) -> dict[str, str]:
        """Return the version of each object."""
        objects = self.scene.leader().client.list(CONFIG_MAPS, self.scene.namespace, label_selector="round")
        return {
            self.scene.key(obj["metadata"]["name"]): str(obj["metadata"]["resourceVersion"])
            for obj in objects
        }

    def stale(self) -> set[str]:
        """Return the objects of which the last read was not of the newest state."""
        return {key for key, version in self.newest().items() if self.last_read.get(key) != version}

    def _manager(self) -> Manager:
        connection = self.scene.connection
        client = Client(self.scene.kubeconfig)
        settings = Settings(lease_name="distq-test", lease_namespace=self.scene.namespace)
        return Manager(
            [self.controller(client, connection)], redis=connection, client=client, settings=settings
        )

    def _read_cached(self, controller: Controller, key: str) -> Object | None:
        return controller.lister(CONFIG_MAPS).get(key)

    def _checked(self, key: str, controller: Controller) -> Object | None:
        """Read an object; note where it is older than what was handed over, or written, before."""
        with self._lock:
            floors = [noted[key] for noted in (self.handed_over, self.written) if key in noted]
        found = self._read(controller, key)
        version = str(found["metadata"]["resourceVersion"]) if found else "0"
        with self._lock:
            self.reads += 1
            self.last_read[key] = version
            self.too_old += [f"{key}: {version}, not {floor}" for floor in floors if is_older(version, floor)]
        return found

    def _note(self, noted: dict[str, str], key: str, obj: Object) -> None:
        version = str(obj["metadata"]["resourceVersion"])
        with self._lock:
            if is_older(noted.get(key, "0"), version):
                noted[key] = version

    def _note_commits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        commit = StreamStore.commit

        def noted(store: StreamStore, change: Commit) -> Any:
            answer = commit(store, change)
            if isinstance(answer, Committed):
                with self._lock:
                    self.handed_over |= {obj.name: obj.version for obj in change.objects}
            return answer

        monkeypatch.setattr(StreamStore, "commit", noted)


def change_all(scene: Scene, number: int, *, objects: int = OBJECTS) -> None:
    """Change all objects as another client does, as fast as the API server takes it."""
    client = Client(scene.kubeconfig)
    for index in range(objects):
        client.patch(CONFIG_MAPS, scene.key(f"object-{index}"), {"data": {"round": str(number)}})


def create_all(scene: Scene, *, objects: int = OBJECTS) -> None:
    """Create all objects."""
    client = Client(scene.kubeconfig)
    for index in range(objects):
        obj = config_map(scene.namespace, f"object-{index}", round="0")
        obj["metadata"]["labels"] = {"round": "yes"}
        client.create(obj)


@ON_THREE_SERVERS
def test_a_cached_read_shows_no_less_than_its_event_and_its_fleets_own_writes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of no object the last reconcile reads an old state, and an index finds what was written last."""
    create_all(scene)
    with Fleet(scene).running(monkeypatch) as fleet:
        for number in range(ROUNDS + 1):
            if number:  # the first list is a round, too
                change_all(scene, number)
            eventually(fleet.is_idle, lambda: f"{len(fleet.handed_over)} handed over", timeout=PATIENCE)
            assert fleet.stale() == set()
            reader = fleet.controller(Client(scene.kubeconfig), scene.connection).lister(CONFIG_MAPS)
            assert len(reader.by_index("round", f"{number} {number}")) == OBJECTS
            assert len(reader.list(scene.namespace)) == OBJECTS
    assert fleet.too_old == []
    assert fleet.reads >= 2 * OBJECTS * (ROUNDS + 1)


class LateListWatch(ListWatch):
    """A watch whose events come late: an informer of a busy worker."""

    in_time = threading.Event()

    def decode(self, line: bytes) -> WatchEvent:
        """Wait until the reconciles are over."""
        self.in_time.wait(PATIENCE)
        return super().decode(line)


@EMULATED
def test_an_informer_in_the_worker_shows_old_states(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the experiment above would show them: the last reconcile of an object may read what was before."""
    create_all(scene, objects=FEW)
    late = LateListWatch(Client(scene.kubeconfig), CONFIG_MAPS, scene.namespace, label_selector="round")
    late.in_time.set()
    informer = SharedInformer(late)
    stop = threading.Event()
    thread = threading.Thread(target=informer.run, args=[stop], daemon=True)
    thread.start()
    eventually(informer.has_synced)
    late.in_time.clear()
    lister: Lister = informer.lister
    with Fleet(scene, lambda _, key: lister.get(key)).running(monkeypatch) as fleet:
        change_all(scene, 1, objects=FEW)
        eventually(fleet.is_idle, timeout=PATIENCE)
        assert len(fleet.stale()) == FEW
        assert fleet.too_old
    late.in_time.set()
    stop.set()
    thread.join(30)
