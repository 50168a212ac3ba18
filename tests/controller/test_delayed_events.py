"""Watches(..., after=): events are enqueued that much later, and all events until then are one reconcile."""

from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.controller.watches import For, Owns, Watches
from distq.errors import ConfigError, TerminalError
from distq.inspector import Inspector, ItemInfo
from distq.redisio.checkpoints import MARK
from distq.redisio.stream_store import StreamStore
from distq.testing import Sandbox
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.leading import ON_ALL_SERVERS, QUEUE, Scene
from tests.controller.test_stream import LOW, change, create, delete, put_at
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.workqueue.conftest import ServerTime

HOUR = 3600.0


def late(scene: Scene, after: float = HOUR) -> Watches:
    """Return a watch whose events mean one key."""
    return Watches("v1/ConfigMap", lambda _: [scene.key("all")], namespaces=[scene.namespace], after=after)


def item(scene: Scene, name: str = "all") -> ItemInfo | None:
    """Return the item of a name."""
    return Inspector(scene.connection).item(QUEUE, scene.key(name))


def due(scene: Scene) -> float:
    """Return when the one item is due."""
    found = item(scene)
    assert found is not None
    assert found.state == "delayed"
    assert found.due is not None
    return found.due


@ON_ALL_SERVERS
def test_events_are_collected_from_the_first_one_on(scene: Scene) -> None:
    """Each key is pending ``after`` seconds after its first event; later ones do not postpone it."""
    time = ServerTime(scene.connection)
    begun = scene.connection.server_time / 1e6
    with scene.leading(late(scene)):
        create(scene, "a")
        eventually(lambda: scene.known().keys() == {scene.key("a")})
        assert due(scene) == pytest.approx(begun + HOUR, abs=0.002)
        time.advance(10)
        create(scene, "b")
        delete(scene, "a")
        eventually(lambda: scene.known().keys() == {scene.key("b")})
        assert due(scene) == pytest.approx(begun + HOUR, abs=0.002)
        assert scene.pending() == {}
        queue = Queue(QUEUE, scene.connection)
        assert queue.turn([], 5).requests == []
        time.advance(HOUR - 10)
        (request,) = queue.turn([], 5).requests
        assert (request.key, request.priority) == (scene.key("all"), 0)
        change(scene, "b")
        eventually(lambda: (held := item(scene)) is not None and held.due is not None)
        assert queue.settle(request)
        assert due(scene) == pytest.approx(begun + 2 * HOUR, abs=0.002)
        queue.close()


@ON_ALL_SERVERS
def test_an_event_without_delay_comes_first(scene: Scene) -> None:
    """Of two watches of one queue, the earlier time counts, whichever event came before."""
    prompt = Watches("v1/ConfigMap", lambda _: [scene.key("all")], namespaces=[scene.namespace])
    with scene.leading(late(scene)):
        create(scene, "a")
        eventually(lambda: item(scene) is not None)
        assert scene.pending() == {}
    with scene.leading(prompt, owner="other", epoch="2"):
        change(scene, "a")
        eventually(lambda: scene.pending() == {scene.key("all"): 0})
    with scene.leading(late(scene), epoch="3") as leader:
        create(scene, "b")
        stream = StreamStore(scene.connection, QUEUE, leader.stream.name())
        eventually(lambda: scene.key("b") in dict(stream.known()))
    found = item(scene)
    assert found is not None
    assert found.state == "ready"


@ON_ALL_SERVERS
def test_lists_are_collected_too_and_disturb_no_back_off(scene: Scene) -> None:
    """Objects of a list are late at low priority; items that wait or are dead stay as they are."""
    create(scene, "a", "dead")
    queue = Queue(QUEUE, scene.connection)
    watch = For("v1/ConfigMap", namespaces=[scene.namespace], after=HOUR)
    with scene.leading(watch):
        pass
    items = Inspector(scene.connection).items(QUEUE)
    assert {(each.state, each.priority) for each in items} == {("delayed", LOW)}
    queue.add(scene.key("dead"))
    (request,) = queue.turn([], 5).requests
    queue.settle(request, TerminalError("never"))
    before = item(scene, "a")
    with scene.leading(watch, epoch="2") as leader:
        put_at(scene, MARK, epoch="2")
        eventually(lambda: leader.stream.lists == 1 and leader.stream.synced)
        found = item(scene, "dead")
        assert found is not None
        assert found.state == "dead"
        assert item(scene, "a") == before
        change(scene, "dead")
        eventually(lambda: (found := item(scene, "dead")) is not None and found.state == "delayed")
    queue.close()


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "1", True, None])
@pytest.mark.parametrize("watch", [For, Owns])
def test_a_bad_delay_is_refused(watch: Any, after: Any) -> None:
    """As that of add_after is."""
    with pytest.raises(ConfigError, match=r"bad after of v1/Pod: .*Give seconds, 0 or more\.$"):
        watch("v1/Pod", after=after)


def test_no_test_waits_until_events_are_collected() -> None:
    """run_until_idle hands them over at once, and leaves the controller as it was."""
    with Sandbox() as sandbox:
        seen: list[str] = []

        def reconcile(request: Request) -> None:
            seen.append(request.key)
            assert controller.lister("v1/ConfigMap").get("default/web") is not None

        watch = Watches(
            "v1/ConfigMap", lambda _: ["default/all"], namespaces=["default"], cached=True, after=HOUR
        )
        controller = Controller("late", reconcile, watches=[watch])
        sandbox.client.create(config_map("default", "web"))
        sandbox.run_until_idle(controller)
        assert set(seen) == {"default/all"}
        assert controller.watches == (watch,)
        assert Inspector(sandbox.redis).items("late") == []
