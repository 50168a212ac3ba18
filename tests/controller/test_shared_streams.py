"""Streams of one process that watch alike ask the API server once, and are streams of their own otherwise."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from distq.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.leading import Candidate
from distq.controller.watches import For, ResourceWatch, Watches
from distq.informer import read_ahead, shared_watch
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests import ROOT
from tests.controller.leading import ON_ALL_SERVERS, Scene
from tests.controller.two_controllers import QUEUES, NotingClient, controllers
from tests.informer.sharing import shared_watch_threads
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy

pytestmark = ON_ALL_SERVERS


@contextmanager
def leading(scene: Scene, those: Sequence[Controller]) -> Iterator[list[str]]:
    """Lead with these controllers; give what is asked for. It ends as on SIGTERM, and leaves no thread."""
    asked: list[str] = []
    failures: list[BaseException] = []
    candidate = Candidate(
        those,
        client=NotingClient(scene.kubeconfig, asked.append),
        lease=(scene.namespace, "two"),
        settings=Settings(),
        on_failure=failures.append,
    )
    candidate.start()
    try:
        yield asked
    finally:
        candidate.stop()
        candidate.join()
        assert not failures
        eventually(lambda: not shared_watch_threads(), "the watch is closed")


def alike(scene: Scene) -> list[Controller]:
    """Return two controllers of all ConfigMaps of the namespace."""
    watch = For("v1/ConfigMap", namespaces=[scene.namespace])
    return controllers([watch, watch], dict.fromkeys(QUEUES, scene.connection))


def have(scene: Scene, *names: str, queues: Sequence[str] = QUEUES) -> bool:
    """Return whether exactly these objects' keys are ready in each queue."""
    return all(scene.pending(queue).keys() == {scene.key(name) for name in names} for queue in queues)


def taken(scene: Scene, *names: str, queues: Sequence[str] = QUEUES) -> None:
    """Wait until exactly these objects' keys are ready in each queue, and take them."""
    eventually(
        lambda: have(scene, *names, queues=queues),
        lambda: f"{names} in {[scene.pending(queue) for queue in queues]}",
    )
    for queue in queues:
        scene.take(queue)


def count(asked: Sequence[str]) -> tuple[int, int]:
    """Return how many pages of lists and how many watches were asked for, version checks apart."""
    return asked.count("list"), asked.count("watch")


def test_equal_watches_of_two_controllers_are_listed_and_watched_once(scene: Scene) -> None:
    """Each queue gets every key, of old, new and deleted objects; a new term lists nothing."""
    client = Client(scene.kubeconfig)
    for name in "a", "b":
        client.create(config_map(scene.namespace, name))
    with leading(scene, alike(scene)) as asked:
        taken(scene, "a", "b")
        client.create(config_map(scene.namespace, "c"))
        taken(scene, "c")
        client.delete("v1/ConfigMap", scene.key("a"))
        taken(scene, "a")
        assert count(asked) == (1, 1)
    client.delete("v1/ConfigMap", scene.key("b"))
    with leading(scene, alike(scene)) as asked:
        taken(scene, "b")
        client.create(config_map(scene.namespace, "d"))
        taken(scene, "d")
        lists, watches = count(asked)
        assert lists == 0
        assert watches <= 2, "one more where the stream that stood later came first"


def test_two_watches_of_one_controller_that_are_alike_are_one(scene: Scene) -> None:
    """For and Watches of the same objects: each maps them in its own way."""
    both: list[ResourceWatch] = [
        For("v1/ConfigMap", namespaces=[scene.namespace]),
        Watches("v1/ConfigMap", keys=lambda obj: [obj["data"]["to"]], namespaces=[scene.namespace]),
    ]
    Client(scene.kubeconfig).create(config_map(scene.namespace, "a", to="somebody"))
    controller = Controller(Queue("foos", scene.connection), print, watches=both)
    with leading(scene, [controller]) as asked:
        eventually(lambda: scene.pending().keys() == {scene.key("a"), "somebody"})
        eventually(lambda: "watch" in asked)
        assert count(asked) == (1, 1)


def test_watches_that_are_not_alike_are_not_shared(scene: Scene) -> None:
    """Another selector is another list; such a list feeds its stream directly."""
    client = Client(scene.kubeconfig)
    client.create(config_map(scene.namespace, "a"))
    namespaces = [scene.namespace]
    whole = For("v1/ConfigMap", namespaces=namespaces)
    some = For("v1/ConfigMap", namespaces=namespaces, label_selector="color=red")
    with leading(scene, controllers([whole, some], dict.fromkeys(QUEUES, scene.connection))) as asked:
        taken(scene, "a", queues=["foos"])
        eventually(lambda: count(asked) == (2, 2))
        assert not shared_watch_threads()
        assert have(scene, queues=["bars"])


def test_a_stream_that_hangs_harms_none_that_shares_its_watch(
    scene: Scene, redis_server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others' events come, and none of them twice; it gets all of its own when it goes on."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 5)
    monkeypatch.setattr(read_ahead, "READ_AHEAD_LINES", 5)
    client, watch = Client(scene.kubeconfig), For("v1/ConfigMap", namespaces=[scene.namespace])
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        port = f"127.0.0.1:{redis_server.port}"
        assert port in redis_server.url
        cut_off = Connection(redis_server.url.replace(port, f"127.0.0.1:{proxy.port}"))
        connections: Mapping[str, Connection] = {"foos": scene.connection, "bars": cut_off}
        with leading(scene, controllers([watch, watch], connections)) as asked:
            client.create(config_map(scene.namespace, "a"))
            taken(scene, "a")
            proxy.mode = "hang"
            names = [f"b-{number}" for number in range(30)]
            for name in names:
                client.create(config_map(scene.namespace, name))
                taken(scene, name, queues=["foos"])  # who is as quick as the network never falls behind
            watched = asked.count("watch")
            proxy.mode = "pass"
            taken(scene, *names, queues=["bars"])
            client.delete("v1/ConfigMap", scene.key("a"))
            taken(scene, "a")
            assert asked.count("list") == 1
            assert watched == 1
            assert asked.count("watch") <= 3


def test_another_process_goes_on_for_both_where_the_leader_was_killed(
    scene: Scene, redis_server: EmbeddedValkey, tmp_path: Path
) -> None:
    """It lists nothing, and objects that were deleted meanwhile reach both queues."""
    client = Client(scene.kubeconfig)
    client.create(config_map(scene.namespace, "a"))
    journals = [tmp_path / name for name in ("first", "second")]
    with program(scene, redis_server, journals[0]) as first:
        taken(scene, "a")
        client.create(config_map(scene.namespace, "b"))
        taken(scene, "b")
        assert count(journals[0].read_text().split()) == (1, 1)
        with program(scene, redis_server, journals[1]):
            first.send_signal(signal.SIGKILL)
            client.delete("v1/ConfigMap", scene.key("a"))
            client.create(config_map(scene.namespace, "c"))
            taken(scene, "a", "c")
            lists, watches = count(journals[1].read_text().split())
    assert lists == 0
    assert watches <= 2, "one more where the stream that stood later came first"


@contextmanager
def program(scene: Scene, server: EmbeddedValkey, journal: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the two controllers in a process of their own."""
    arguments = map(str, (scene.kubeconfig, server.url, scene.namespace, journal))
    command = [sys.executable, "-m", "tests.controller.two_controllers", *arguments]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()
