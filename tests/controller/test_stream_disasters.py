"""A stream whose API server is restarted, compacted or restored, and whose leaders are killed or frozen.

The cluster is a real one, and the module's own.
"""

import gc
import signal
import threading
from collections.abc import Iterator

import pytest

from distq.client import Client
from distq.controller.watches import For
from distq.informer.objects import is_older
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.controller.leader_process import compete, struck_down, watch_of
from tests.controller.leading import Leader, Scene
from tests.support.api_servers import RealApiServer, real_api_server_assets
from tests.support.eventually import eventually
from tests.support.recording import DEFINITIONS, change_schema, create_when_served
from tests.support.samples import config_map, custom_resource, wait_until_served

pytestmark = [
    pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True),
    pytest.mark.timeout(300),
    # CPython's ssl forgets to close a socket that was reset before its handshake.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
    ),
]

CONFIG_MAPS = "v1/ConfigMap"
LOW = -100
TIMEOUT = 60.0


@pytest.fixture(scope="module", params=["real"])
def api_server() -> Iterator[RealApiServer]:
    """Give a cluster that tests may stop, and put back in time; open watches hold up its end for 10 s."""
    with RealApiServer(real_api_server_assets(), flags=["--request-timeout=10s"]) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Let no later test find what the killed servers' sockets left."""
    yield
    gc.collect()


@pytest.fixture
def widgets(api_server: RealApiServer, namespace: str) -> Iterator[str]:
    """Give the text of a custom resource of the test's own."""
    client, group = api_server.client(), f"{namespace}.example.com"
    client.create(custom_resource(group))
    wait_until_served(client, f"{group}/v1/Widget")
    yield f"{group}/v1/Widget"
    client.delete(DEFINITIONS, f"widgets.{group}")


def obj(scene: Scene, resource: str, name: str, **data: str) -> dict[str, object]:
    """Return an object to be written."""
    api_version, _, kind = resource.rpartition("/")
    return {**config_map(scene.namespace, name, **data), "apiVersion": api_version, "kind": kind}


def change(client: Client, resource: str, key: str, color: str = "green") -> None:
    """Change an object."""
    client.patch(resource, key, {"data": {"color": color}})


def epoch_of(client: Client, namespace: str) -> str:
    """Return the epoch of a term that began now: the version of a write to a Lease."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"generateName": "term-", "namespace": namespace},
    }
    return str(client.create(lease)["metadata"]["resourceVersion"])


def history(scene: Scene, leader: Leader, server: RealApiServer) -> None:
    """Let a backup be made, and much happen after it, all of which the leader hands over."""
    client = scene.leader().client
    for name in ("kept", "deleted", "changed"):
        client.create(config_map(scene.namespace, name))
    eventually(lambda: scene.has("kept", "deleted", "changed"), timeout=TIMEOUT)
    server.back_up()
    scene.take()
    client.delete(CONFIG_MAPS, scene.key("deleted"))
    for number in range(300):  # more than the restarts of a cluster write
        change(client, CONFIG_MAPS, scene.key("changed"), str(number))
    client.create(config_map(scene.namespace, "born"))
    eventually(
        lambda: scene.known().keys() == {scene.key(name) for name in ("kept", "changed", "born")},
        timeout=TIMEOUT,
    )
    assert leader.error is None
    scene.take()


RESTORED = ("kept", "deleted", "changed", "born")


@pytest.mark.slow
def test_a_leader_notices_that_its_cluster_was_restored(scene: Scene, api_server: RealApiServer) -> None:
    """The versions went back, and no watch reports that: all objects are enqueued, also vanished ones."""
    with scene.leading() as leader:
        history(scene, leader, api_server)
        lists = leader.stream.lists
        api_server.restore()
        eventually(lambda: leader.stream.lists == lists + 1 and leader.stream.synced, timeout=TIMEOUT)
        assert scene.take() == {scene.key(name): LOW for name in RESTORED}
        assert scene.known().keys() == {scene.key(name) for name in ("kept", "deleted", "changed")}
        client = scene.leader().client
        client.create(config_map(scene.namespace, "new"))
        client.delete(CONFIG_MAPS, scene.key("deleted"))
        eventually(lambda: scene.pending() == {scene.key("new"): 0, scene.key("deleted"): 0})
        assert leader.error is None


@pytest.mark.slow
@pytest.mark.conformance("RD-18")
def test_a_leader_of_a_restored_cluster_replaces_an_epoch_of_the_future(
    scene: Scene, api_server: RealApiServer
) -> None:
    """Its own is lower than what Redis holds, which would refuse it for ever."""
    client = scene.leader().client
    with scene.leading(epoch=epoch_of(client, scene.namespace)) as leader:
        history(scene, leader, api_server)
    with scene.leading(epoch=epoch_of(client, scene.namespace)):
        pass
    before = scene.record()
    assert before is not None
    api_server.restore()
    epoch = epoch_of(client, scene.namespace)
    assert is_older(epoch, before.epoch)
    with scene.leading(epoch=epoch) as leader:
        assert leader.stream.lists == 1
        assert scene.take() == {scene.key(name): LOW for name in RESTORED}
        record = scene.record()
        assert record is not None
        assert record.epoch == epoch
        client.create(config_map(scene.namespace, "new"))
        eventually(lambda: scene.pending() == {scene.key("new"): 0})
    assert scene.known().keys() == {scene.key(name) for name in ("kept", "deleted", "changed", "new")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resource", "graceful"),
    [(CONFIG_MAPS, False), ("widgets", False), (CONFIG_MAPS, True)],
    ids=["maps-killed", "widgets-killed", "maps-terminated"],
)
def test_a_restarted_api_server_costs_no_event_and_no_change_twice(
    scene: Scene, api_server: RealApiServer, widgets: str, resource: str, graceful: bool
) -> None:
    """Neither where a leader lives through it, nor where no process led meanwhile; deletions included."""
    resource = widgets if resource == "widgets" else resource
    client = scene.leader().client
    for name in ("same", "changed", "deleted"):
        client.create(obj(scene, resource, name))
    with scene.leading(For(resource)) as leader:
        scene.take()
        api_server.restart_api_server(graceful=graceful)
        create_when_served(client, obj(scene, resource, "new"))
        change(client, resource, scene.key("changed"))
        # a server that has no history yet is listed, which never shows objects that lived only meanwhile
        eventually(lambda: scene.has("new", "changed"), timeout=TIMEOUT)
        client.delete(resource, scene.key("new"))
        eventually(lambda: scene.key("new") not in scene.known(), timeout=TIMEOUT)
        eventually(lambda: leader.stream.synced, timeout=TIMEOUT)
        assert leader.error is None
    assert scene.take().keys() == {scene.key("new"), scene.key("changed")}
    client.delete(resource, scene.key("deleted"))
    change(client, resource, scene.key("changed"), "red")
    api_server.restart_api_server(graceful=graceful)
    create_when_served(client, obj(scene, resource, "born"))
    with scene.leading(For(resource), epoch="2"):
        eventually(lambda: scene.has("deleted", "changed", "born"), timeout=TIMEOUT)
    assert scene.known().keys() == {scene.key(name) for name in ("same", "changed", "born")}


@pytest.mark.slow
def test_one_list_makes_up_for_the_events_that_etcd_compacted(connection: Connection) -> None:
    """An API server without caches of its own refuses what etcd forgot; only the differences are enqueued."""
    with RealApiServer(real_api_server_assets(), flags=["--watch-cache=false"]) as server:
        client = server.client()
        scene = Scene(server.kubeconfig, connection, "default", server)
        for name in ("same", "changed", "deleted"):
            client.create(config_map("default", name))
        with scene.leading():
            scene.take()
        change(client, CONFIG_MAPS, scene.key("changed"))
        client.delete(CONFIG_MAPS, scene.key("deleted"))
        server.compact(client.create(config_map("default", "new"))["metadata"]["resourceVersion"])
        with scene.leading(epoch="2") as leader:
            eventually(lambda: leader.stream.lists == 1 and leader.stream.synced, timeout=TIMEOUT)
            assert scene.take() == {scene.key(name): LOW for name in ("changed", "deleted", "new")}
            assert leader.client.lists() == 1
            client.delete(CONFIG_MAPS, scene.key("new"))
            eventually(lambda: scene.pending() == {scene.key("new"): 0})
        assert scene.known().keys() == {scene.key(name) for name in ("same", "changed")}


def test_a_leader_killed_between_pages_of_a_relist_loses_nothing(
    scene: Scene, widgets: str, redis_server: EmbeddedValkey
) -> None:
    """The next one finds the chain where it broke off, and compares everything anew."""
    client = scene.leader().client
    for name in "abcdef":
        client.create(obj(scene, widgets, name))
    with scene.leading(For(widgets)):
        scene.take()
    checkpoint = position(scene)
    for name in "abcd":
        change(client, widgets, scene.key(name))
    client.delete(widgets, scene.key("f"))
    change_schema(client, f"widgets.{scene.namespace}.example.com")
    with struck_down(scene, redis_server.url, widgets, signal.SIGKILL, at=2) as process:
        assert process.wait(TIMEOUT) == -signal.SIGKILL
    assert position(scene).startswith(f"{checkpoint}~")
    assert scene.pending() == {scene.key("a"): LOW, scene.key("b"): LOW}
    with scene.leading(For(widgets), epoch=epoch_of(client, scene.namespace)) as leader:
        eventually(lambda: scene.has(*"abcdf"), timeout=TIMEOUT)
        eventually(lambda: leader.stream.synced and leader.stream.lists == 1, timeout=TIMEOUT)
    assert set(scene.pending().values()) == {LOW}
    assert scene.known().keys() == {scene.key(name) for name in "abcde"}


def test_a_leader_killed_in_the_middle_of_an_event_hands_it_over_again(
    scene: Scene, redis_server: EmbeddedValkey
) -> None:
    """An event with more keys than a commit takes is whole only with its last."""
    client, watch = scene.leader().client, watch_of(CONFIG_MAPS)
    with scene.leading(watch):
        pass
    checkpoint = position(scene)
    client.create(config_map(scene.namespace, "a", count="2500"))
    with struck_down(scene, redis_server.url, CONFIG_MAPS, signal.SIGKILL, at=2) as process:
        assert process.wait(TIMEOUT) == -signal.SIGKILL
    assert len(scene.pending()) == 1000
    assert position(scene).startswith(f"{checkpoint}~")
    with scene.leading(watch, epoch=epoch_of(client, scene.namespace)) as leader:
        eventually(lambda: len(scene.pending()) == 2500, timeout=TIMEOUT)
        assert leader.stream.lists == 0
        eventually(lambda: scene.known().keys() == {scene.key("a")})


@pytest.mark.conformance("RD-18")
def test_a_leader_that_was_frozen_past_its_lease_is_fenced(
    scene: Scene, redis_server: EmbeddedValkey
) -> None:
    """It had asked everything before it froze; its commit comes when another leads, and does nothing."""
    client, stop = scene.leader().client, threading.Event()
    client.create(config_map(scene.namespace, "a", count="1"))
    with struck_down(scene, redis_server.url, CONFIG_MAPS, signal.SIGSTOP, at=2) as frozen:
        eventually(lambda: scene.pending() == {"key-0": LOW}, timeout=TIMEOUT)
        client.create(config_map(scene.namespace, "b", count="2"))
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "now\n"
        before = scene.record()
        assert before is not None
        successor = threading.Thread(target=compete, args=(scene, watch_of(CONFIG_MAPS), stop), daemon=True)
        successor.start()
        try:
            eventually(lambda: scene.pending() == {"key-0": 0, "key-1": 0}, timeout=TIMEOUT)
            scene.take()
            frozen.send_signal(signal.SIGCONT)
            assert frozen.stdout.readline() == "Fenced\n"
            frozen.wait(TIMEOUT)
            client.create(config_map(scene.namespace, "c", count="1"))
            eventually(lambda: scene.pending() == {"key-0": 0}, timeout=TIMEOUT)
        finally:
            stop.set()
            successor.join(TIMEOUT)
    record = scene.record()
    assert record is not None
    assert is_older(before.epoch, record.epoch)
    assert record.about["lists"] == 0, "the successor did not resume"


def position(scene: Scene) -> str:
    """Return the stream's position."""
    record = scene.record()
    assert record is not None
    return record.position
