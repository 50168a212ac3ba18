"""A stream on both API servers: what they do differently from what one would think."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from distq.client.objects import Object
from distq.controller.watches import For, Owns, Watches
from distq.errors import NotFound
from distq.redisio.connection import Connection
from distq.redisio.stream_store import stream_records
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.controller.leading import Leader, Scene
from tests.support.eventually import eventually
from tests.support.recording import DEFINITIONS, RecordingClient, change_schema, create_when_served
from tests.support.samples import config_map, custom_resource, wait_until_served
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

LOW = -100


def widget(resource: str, namespace: str, name: str) -> dict[str, object]:
    """Return a custom object to be written."""
    api_version, _, kind = resource.rpartition("/")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def test_a_new_leader_asks_for_one_version_and_resumes(scene: Scene) -> None:
    """No list but the version check, and every change of the vacancy."""
    client = scene.leader().client
    for name in "abc":
        client.create(config_map(scene.namespace, name))
    with scene.leading():
        assert scene.take() == {scene.key(name): LOW for name in "abc"}
    client.patch("v1/ConfigMap", scene.key("a"), {"data": {"color": "green"}})
    client.delete("v1/ConfigMap", scene.key("b"))
    client.create(config_map(scene.namespace, "d"))
    with scene.leading(epoch="2") as successor:
        eventually(lambda: scene.pending() == {scene.key(name): 0 for name in "abd"})
        assert successor.client.asked == ["version", f"watch {successor.stream.resumed_at}"]


def test_a_changed_definition_costs_a_list_and_no_deletion(scene: Scene) -> None:
    """A CRD's change makes every position too old; objects deleted meanwhile are enqueued nevertheless."""
    client = scene.leader().client
    group = f"{scene.namespace}.example.com"
    resource = f"{group}/v1/Widget"
    client.create(custom_resource(group))
    try:
        wait_until_served(client, resource)
        for name in ("same", "changed", "deleted"):
            client.create(widget(resource, scene.namespace, name))
        with scene.leading(For(resource)):
            scene.take()
        client.patch(resource, scene.key("changed"), {"spec": {"color": "green"}})
        client.delete(resource, scene.key("deleted"))
        change_schema(client, f"widgets.{group}")
        with scene.leading(For(resource), epoch="2") as leader:
            eventually(lambda: scene.pending() == {scene.key("changed"): LOW, scene.key("deleted"): LOW})
            change_schema(client, f"widgets.{group}")  # and now in mid-watch
            create_when_served(client, widget(resource, scene.namespace, "new"))
            eventually(lambda: scene.key("new") in scene.pending())
            assert leader.error is None
        assert set(scene.known()) == {scene.key(name) for name in ("same", "changed", "new")}
    finally:
        client.delete(DEFINITIONS, f"widgets.{group}")


def test_another_revision_enqueues_everything_though_the_watch_could_resume(scene: Scene) -> None:
    """One list, of which all is enqueued at low priority, and only once."""
    client = scene.leader().client
    for name in "ab":
        client.create(config_map(scene.namespace, name))
    with scene.leading():
        scene.take()
    with scene.leading(epoch="2", revision="v2") as leader:
        assert scene.take() == {scene.key("a"): LOW, scene.key("b"): LOW}
        assert leader.stream.lists == 1
    with scene.leading(epoch="3", revision="v2") as leader:
        assert leader.stream.lists == 0
    assert scene.pending() == {}


def test_one_resource_feeds_two_queues_and_one_queue_has_two_streams(scene: Scene) -> None:
    """Each stream has a position and a memory of its own, and resumes by itself."""
    client = scene.leader().client
    for name in "ab":
        client.create(config_map(scene.namespace, name))
    maps, secrets = For("v1/ConfigMap"), Watches("v1/Secret", named)

    @contextmanager
    def leading(epoch: str) -> Iterator[list[Leader]]:
        with (
            scene.leading(maps, epoch=epoch) as one,
            scene.leading(secrets, epoch=epoch) as other,
            scene.leading(maps, epoch=epoch, queue="bars") as elsewhere,
        ):
            yield [one, other, elsewhere]

    with leading("1"):
        for queue in ("foos", "bars"):
            assert scene.take(queue) == {scene.key("a"): LOW, scene.key("b"): LOW}
    with scene.leading(maps, epoch="2", queue="bars"):  # one of them goes ahead
        client.delete("v1/ConfigMap", scene.key("a"))
        eventually(lambda: scene.take("bars") == {scene.key("a"): 0})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": scene.namespace}}
    client.create(secret)
    with leading("3") as leaders:
        eventually(lambda: scene.pending() == {scene.key("a"): 0, "s": 0})
        client.create(config_map(scene.namespace, "c"))
        eventually(lambda: scene.key("c") in scene.pending() and scene.key("c") in scene.pending("bars"))
        assert scene.pending("bars") == {scene.key("c"): 0}
        assert [leader.stream.lists for leader in leaders] == [0, 0, 0]
        assert [leader.error for leader in leaders] == [None] * 3
    assert len(stream_records(scene.connection, "foos")) == 2
    assert len(stream_records(scene.connection, "bars")) == 1


def named(obj: Object) -> list[str]:
    """Return an object's name."""
    return [str(obj["metadata"]["name"])]


def test_an_unknown_resource_ends_the_stream(scene: Scene) -> None:
    """The user gets the line that says what to do."""
    leader = scene.leader(For("example.com/v1/Nothing"))
    leader.start()
    leader.join()
    assert isinstance(leader.error, NotFound)
    assert str(leader.error) == (
        "cannot watch example.com/v1/Nothing: unknown to the API server. Apply its CRD first."
    )


def test_metadata_is_enough_to_follow_owners(scene: Scene) -> None:
    """A metadata-only watch enqueues owners as any other."""
    client = scene.leader().client
    obj = config_map(scene.namespace, "a")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    watch = Owns("v1/ConfigMap", metadata_only=True)
    with scene.leading(watch, owned_by="apps/v1/Deployment"):
        client.create(obj)
        eventually(lambda: scene.pending() == {scene.key("web"): 0})


def test_a_leader_outlives_its_way_to_the_cluster(
    scene: Scene, proxied: RecordingClient, proxy: TcpProxy
) -> None:
    """Broken connections cost neither a list nor an event."""
    client = scene.leader().client
    with scene.leading(client=proxied) as leader:
        for round_ in range(3):
            proxy.mode = "refuse" if round_ else "reset"
            client.create(config_map(scene.namespace, f"map-{round_}"))
            proxy.mode = "pass"
            eventually(partial(scene.has, *(f"map-{number}" for number in range(round_ + 1))))
        assert leader.stream.lists == 1
        eventually(lambda: leader.stream.enqueued == 3)


def test_two_leaders_at_once_hand_over_everything_once(
    scene: Scene, connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """The slower one finds the position moved and does not commit an event again."""
    client = scene.leader().client
    assert connection.address.endswith(str(redis_server.port))
    with scene.leading(epoch="2") as one, scene.leading(epoch="2") as other:
        for number in range(30):
            client.create(config_map(scene.namespace, f"map-{number}"))
        eventually(lambda: len(scene.pending()) == 30)
        eventually(lambda: one.stream.enqueued + other.stream.enqueued >= 30)
        assert one.stream.enqueued + other.stream.enqueued == 30
        assert one.error is None
        assert other.error is None
