"""An object that a predicate or mapping function fails on: it is dead, found, and tried again."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from distq.client.objects import Object
from distq.controller.event import Event
from distq.controller.predicate import Predicate
from distq.controller.stream import failures
from distq.controller.watches import For, Watches
from distq.errors import CacheNotSynced, ConfigError, RedisUnavailable
from distq.inspector import Inspector
from distq.inspector.info import ItemInfo
from distq.redisio.queue_store import QueueStore
from tests.controller.leading import ON_ALL_SERVERS, QUEUE, Scene
from tests.support.eventually import eventually
from tests.support.samples import config_map

ONCE = pytest.mark.parametrize(
    ("api_server", "redis_server"), [("emulator", "valkey9")], indirect=True, ids=["emulator"]
)
CONFIG_MAPS = "v1/ConfigMap"
UNMAPPED = "ConfigMap tests.controller.test_parked_objects.targets: "


def targets(obj: Object) -> list[str]:
    """Return what a ConfigMap names as its targets; fail where it names none."""
    return str(obj["data"]["targets"]).split()


def has_targets(event: Event) -> bool:
    """Return whether a ConfigMap names targets; fail where it has no data."""
    return "targets" in event.object["data"]


def write(scene: Scene, name: str, **data: str) -> None:
    """Create a ConfigMap, or give it other data."""
    client = scene.leader().client
    if client.get(CONFIG_MAPS, scene.key(name)) is None:
        client.create(config_map(scene.namespace, name, **data))
    else:
        patch: Any = [{"op": "replace", "path": "/data", "value": data}]
        client.patch(CONFIG_MAPS, scene.key(name), patch if data else [{"op": "remove", "path": "/data"}])


def dead(scene: Scene) -> dict[str, ItemInfo]:
    """Return what is dead, by its name."""
    return {item.key: item for item in Inspector(scene.connection).items(QUEUE, state="dead")}


def bare(scene: Scene, name: str) -> None:
    """Create a ConfigMap without data."""
    obj = config_map(scene.namespace, name)
    obj.pop("data", None)
    scene.leader().client.create(obj)


@ON_ALL_SERVERS
def test_an_object_that_a_predicate_fails_on_is_dead_and_stops_no_other(scene: Scene) -> None:
    """It is dead under its own key, with the traceback; later objects are enqueued."""
    with scene.leading(For(CONFIG_MAPS, predicates=has_targets)) as leader:
        bare(scene, "bad")
        write(scene, "good", targets="x")
        eventually(lambda: scene.pending() == {scene.key("good"): 0})
        (item,) = dead(scene).values()
        assert (item.key, item.reason, item.failures) == (scene.key("bad"), "routing", 0)
        assert item.last_error == "For v1/ConfigMap: KeyError: 'data'"
        assert "in has_targets" in (item.traceback or "")
        assert leader.failures == 1


@ON_ALL_SERVERS
def test_a_dead_object_is_tried_again_when_it_changes(scene: Scene) -> None:
    """Where its functions work then, nothing of it is dead any more, also if it is filtered."""
    with scene.leading(For(CONFIG_MAPS, predicates=has_targets)):
        for name in ("passes", "filtered"):
            bare(scene, name)
        eventually(lambda: len(dead(scene)) == 2)
        scene.leader().client.patch(CONFIG_MAPS, scene.key("filtered"), {"data": {"other": "x"}})
        scene.leader().client.patch(CONFIG_MAPS, scene.key("passes"), {"data": {"targets": "x"}})
        eventually(lambda: scene.pending() == {scene.key("passes"): 0})
        assert dead(scene) == {}
        assert QueueStore(scene.connection, QUEUE).read(("HLEN", "failures")) == [0]


@ON_ALL_SERVERS
def test_an_object_that_cannot_be_mapped_is_dead_under_a_name_of_its_own(scene: Scene) -> None:
    """An item of the same key is left alone; a requeue keeps it, and a change that can be mapped ends it."""
    store = QueueStore(scene.connection, QUEUE)
    with scene.leading(Watches(CONFIG_MAPS, targets)):
        store.run("add", priority=0, max_length="", items=[scene.key("bad").encode()])
        bare(scene, "bad")
        eventually(lambda: dead(scene))
        assert dead(scene).keys() == {UNMAPPED + scene.key("bad")}
        assert dead(scene)[UNMAPPED + scene.key("bad")].reason == "unmapped"
        assert scene.take() == {scene.key("bad"): 0}
        assert store.requeue([UNMAPPED + scene.key("bad")]) == 0
        assert dead(scene).keys() == {UNMAPPED + scene.key("bad")}
        scene.leader().client.patch(CONFIG_MAPS, scene.key("bad"), {"data": {"targets": "x y"}})
        eventually(lambda: scene.pending() == {"x": 0, "y": 0})
        assert dead(scene) == {}


@ON_ALL_SERVERS
def test_the_keys_of_an_object_before_it_failed_are_not_forgotten(scene: Scene) -> None:
    """Its former keys are enqueued by the next event that works, and by its deletion though that fails."""
    fails = False

    def keys(obj: Object) -> Iterable[str]:
        if fails:
            raise ValueError("a bug")
        return targets(obj)

    with scene.leading(Watches(CONFIG_MAPS, keys)):
        write(scene, "a", targets="one")
        write(scene, "b", targets="two")
        eventually(lambda: scene.pending().keys() == {"one", "two"})
        scene.take()
        fails = True
        write(scene, "a", targets="three")
        eventually(lambda: len(dead(scene)) == 1)
        scene.leader().client.delete(CONFIG_MAPS, scene.key("b"))
        eventually(lambda: scene.pending() == {"two": 0})
        fails = False
        write(scene, "a", targets="four")
        eventually(lambda: scene.pending() == {"two": 0, "one": 0, "four": 0})


@ON_ALL_SERVERS
@pytest.mark.parametrize("watch", [For(CONFIG_MAPS, predicates=has_targets), Watches(CONFIG_MAPS, targets)])
def test_a_deletion_removes_the_dead_item_though_the_function_fails(
    scene: Scene, watch: For | Watches
) -> None:
    """It is the object's last event: its own key is reconciled, and an object without keys is let go."""
    own = {scene.key("bad"): 0} if isinstance(watch, For) else {}
    with scene.leading(watch) as leader:
        bare(scene, "bad")
        eventually(lambda: len(dead(scene)) == 1)
        scene.leader().client.delete(CONFIG_MAPS, scene.key("bad"))
        eventually(lambda: leader.failures == 2 and scene.pending() == own and not scene.known())
        assert dead(scene) == {}


@ON_ALL_SERVERS
def test_a_resync_removes_dead_objects_that_no_longer_exist(scene: Scene) -> None:
    """An older distq left them behind at their deletion, unknown, so that no event and no list named them."""
    with scene.leading(Watches(CONFIG_MAPS, targets)):
        bare(scene, "there")
        eventually(lambda: len(dead(scene)) == 1)
    left = (UNMAPPED + scene.key("gone")).encode()
    scene.connection.execute("ZADD", f"distq:{{{QUEUE}}}:dead", 1, left)
    scene.connection.execute("HSET", f"distq:{{{QUEUE}}}:failures", left, "0 0 1 unmapped KeyError")
    assert len(dead(scene)) == 2
    with scene.leading(Watches(CONFIG_MAPS, targets), epoch="2"):
        assert len(dead(scene)) == 2
        assert Inspector(scene.connection).resync(QUEUE) == 1
        eventually(lambda: dead(scene).keys() == {UNMAPPED + scene.key("there")})


@ON_ALL_SERVERS
def test_a_pending_object_that_fails_keeps_its_try(scene: Scene) -> None:
    """Its reconcile reads the object as it is: it is neither taken out of the queue nor counted as dead."""
    with scene.leading(For(CONFIG_MAPS, predicates=has_targets)) as leader:
        write(scene, "a", targets="x")
        eventually(lambda: scene.pending() == {scene.key("a"): 0})
        write(scene, "a")
        eventually(lambda: leader.failures == 1)
        assert scene.pending() == {scene.key("a"): 0}
        assert dead(scene) == {}


@ON_ALL_SERVERS
def test_a_list_tries_dead_objects_again(scene: Scene) -> None:
    """They count as not handed over: once the function is fixed, a leader that lists hands them over."""
    bare(scene, "bad")
    with scene.leading(For(CONFIG_MAPS, predicates=has_targets)):
        assert dead(scene).keys() == {scene.key("bad")}
    scene.expire()
    with scene.leading(For(CONFIG_MAPS, predicates=has_targets), epoch="2"):
        assert dead(scene).keys() == {scene.key("bad")}
    write(scene, "later")
    scene.expire()
    with scene.leading(For(CONFIG_MAPS), epoch="3"):
        assert dead(scene) == {}
        assert scene.pending().keys() == {scene.key("bad"), scene.key("later")}


@ONCE
@pytest.mark.parametrize(
    "outage", [RedisUnavailable("gone"), CacheNotSynced("not yet")], ids=["redis", "cache"]
)
def test_an_outage_parks_nothing(scene: Scene, outage: Exception) -> None:
    """What a function asks may be away for a while; that is not the object's fault, and it waits."""
    away = True

    def asks(_: Event) -> bool:
        if away:
            raise outage
        return True

    with scene.leading(For(CONFIG_MAPS, predicates=asks)) as leader:
        write(scene, "a")
        eventually(lambda: leader.failures >= 2)
        assert dead(scene) == {}
        away = False
        eventually(lambda: scene.pending() == {scene.key("a"): 0})


@ONCE
@pytest.mark.parametrize(
    "spec_of", [lambda old: old["data"], lambda old: old.get("data")], ids=["index", "get"]
)
def test_a_predicate_that_reads_more_of_the_old_object_than_is_kept_is_reported(
    scene: Scene, spec_of: Callable[[Object], Any]
) -> None:
    """A field that is always missing would filter nothing, or everything, unseen."""
    differs = Predicate(
        lambda event: None if event.old is None else spec_of(event.old) != event.object["data"], compares=True
    )
    assert differs.compared == "metadata"
    with scene.leading(For(CONFIG_MAPS, predicates=differs)):
        write(scene, "a", targets="x")
        eventually(lambda: scene.take() == {scene.key("a"): 0})
        for value in ("y", "z"):
            write(scene, "a", targets=value)
        eventually(lambda: dead(scene))
        (item,) = dead(scene).values()
        assert "event.old has no data: its metadata alone is kept" in (item.last_error or "")
        assert scene.pending() == {}


@ONCE
def test_a_thousand_bad_objects_are_one_line_of_the_log(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """All are dead and counted; one is logged in full, the others in number, a minute later at least."""
    caplog.set_level(logging.ERROR, failures.__name__)
    client = scene.leader().client
    for number in range(1000):
        client.create(config_map(scene.namespace, f"bad-{number}", other="x"))
    with scene.leading(Watches(CONFIG_MAPS, targets)) as leader:
        assert leader.failures == 1000
    assert Inspector(scene.connection).count(QUEUE, state="dead") == 1000
    logged = [record for record in caplog.records if record.name == failures.__name__]
    assert len(logged) == 1
    assert logged[0].exc_info is not None
    assert f'See "distq items {QUEUE} --state dead".' in logged[0].getMessage()


@pytest.mark.parametrize("wrong", ["skip", "", None, True])
def test_another_word_for_on_error_is_refused(wrong: Any) -> None:
    """Before anything is watched."""
    with pytest.raises(ConfigError, match=r"bad on_error of v1/Pod: .* Use park or stop"):
        For("v1/Pod", on_error=wrong)
