"""An object that an index function or transform fails on: it is whole, in no index, parked."""

from collections.abc import Callable
from typing import Any

import pytest

from distq.client.objects import Object
from distq.client.writes import observed
from distq.controller.cached.write_through import WriteThrough
from distq.controller.watches import Watches
from distq.errors import ApiError, RedisUnavailable
from distq.inspector import Inspector
from distq.inspector.info import ItemInfo
from tests.controller.caching import (
    CONFIG_MAPS,
    EMULATED,
    ON_TWO_SERVERS,
    by_first_letter,
    cached,
    caches,
    entries,
    lister,
    names,
    object_cache,
)
from tests.controller.leading import QUEUE, Scene
from tests.support.eventually import eventually
from tests.support.samples import config_map


def by_size(obj: Object) -> list[str]:
    """Return the size of a ConfigMap, which has to have one; or a mebibyte of them."""
    size = int(obj["data"]["size"])
    return [f"{number:01100}" for number in range(1000)] if size > 9 else [str(size)]


def without_secret(obj: Object) -> Object:
    """Drop what is not to be kept, of a ConfigMap that has it."""
    obj["data"].pop("secret")
    return obj


INDEXED: dict[str, Any] = {"indexers": {"size": by_size, "letter": by_first_letter}}
SIZES: pytest.MarkDecorator = pytest.mark.parametrize(
    "size", ["large", "10"], ids=["raises", "too many values"]
)


def write(scene: Scene, name: str, **data: str) -> None:
    """Create a ConfigMap, or change its data."""
    client = scene.leader().client
    if client.get(CONFIG_MAPS, scene.key(name)) is None:
        client.create(config_map(scene.namespace, name, **data))
    else:
        client.patch(CONFIG_MAPS, scene.key(name), {"data": data})


def dead(scene: Scene) -> dict[str, ItemInfo]:
    """Return what is dead, by its name."""
    return {item.key: item for item in Inspector(scene.connection).items(QUEUE, state="dead")}


@ON_TWO_SERVERS
@SIZES
def test_an_object_that_an_index_function_fails_on_is_dead_and_shown_whole(scene: Scene, size: str) -> None:
    """Never in its old state: that index lacks it, other indices and reads by key have it as it is."""
    watch = cached(scene, **INDEXED)
    with scene.leading(watch) as leader:
        write(scene, "a", size="1")
        write(scene, "b", size="1")
        eventually(lambda: scene.has("a", "b"))
        scene.take()
        reader = lister(scene, watch)
        assert names(reader.by_index("size", "1")) == {"a", "b"}
        write(scene, "a", size=size)
        write(scene, "b", size="2")
        eventually(lambda: scene.has("b"))
        assert scene.pending().keys() == {scene.key("b")}
        (item,) = dead(scene).values()
        assert (item.key, item.reason) == (scene.key("a"), "routing")
        assert "values of" in (item.last_error or "")
        assert ("in by_size" in (item.traceback or "")) == (size == "large")
        assert reader.by_index("size", "1") == []
        assert names(reader.by_index("size", "2")) == {"b"}
        assert names(reader.by_index("letter", "a")) == ({"a"} if size == "large" else set())
        found = reader.get(scene.key("a"))
        assert found is not None
        assert found["data"]["size"] == size
        assert names(reader.list()) == {"a", "b"}
        assert leader.failures == 1
        write(scene, "a", size="3")
        eventually(lambda: scene.has("a", "b"))
        assert names(reader.by_index("size", "3")) == {"a"}
        assert dead(scene) == {}


@ON_TWO_SERVERS
def test_an_object_that_the_transform_fails_on_is_read_from_the_api_server(scene: Scene) -> None:
    """Nothing of it is kept, since it may be what is to be dropped; a list shows it beside the others."""
    watch = cached(scene, transform=without_secret, indexers={"letter": by_first_letter})
    with scene.leading(watch):
        write(scene, "good", secret="x", size="1")
        write(scene, "bad", password="y")
        eventually(lambda: dead(scene).keys() == {scene.key("bad")} and scene.has("good"))
        assert "in without_secret" in (dead(scene)[scene.key("bad")].traceback or "")
        kept = object_cache(scene).get(scene.key("bad"))
        assert kept is not None
        assert kept.data == b""
        reader = lister(scene, watch)
        shown = {obj["metadata"]["name"]: obj["data"] for obj in reader.list()}
        assert shown == {"good": {"size": "1"}, "bad": {"password": "y"}}
        found = reader.get(scene.key("bad"))
        assert found is not None
        assert "managedFields" not in found["metadata"]
        assert reader.by_index("letter", "b") == []
        scene.leader().client.delete(CONFIG_MAPS, scene.key("bad"))
        eventually(lambda: entries(scene).keys() == {"good"})
        assert dead(scene) == {}


@ON_TWO_SERVERS
def test_a_mapped_object_that_no_index_has_is_dead_under_a_name_of_its_own(scene: Scene) -> None:
    """What it meant before stays known; a list tries it again."""
    watch = Watches(CONFIG_MAPS, by_first_letter, cached=True, **INDEXED)
    with scene.leading(watch):
        write(scene, "a", size="1")
        eventually(lambda: scene.take() == {"a": 0})
        write(scene, "a", size="large")
        eventually(lambda: [item.reason for item in dead(scene).values()] == ["unmapped"])
        assert scene.pending() == {}
        assert [line.split("\n") for line in scene.known().values()] == [["", "a"]]
    write(scene, "later", size="1")
    scene.expire()
    with scene.leading(watch, epoch="2") as leader:
        assert leader.failures == 1
        assert len(dead(scene)) == 1
        assert scene.take().keys() == {"l"}
        write(scene, "a", size="2")
        eventually(lambda: scene.take() == {"a": 0})
        assert dead(scene) == {}


@EMULATED
def test_an_object_that_was_handed_over_and_can_no_longer_be_kept_becomes_dead_by_a_list(
    scene: Scene,
) -> None:
    """Of a function that fails now, as after a change within: the object is tried again by the next one."""
    fails = False

    def by_whim(obj: Object) -> list[str]:
        if fails:
            raise ValueError("a bug")
        return [obj["metadata"]["name"]]

    watch = cached(scene, indexers={"whim": by_whim})
    write(scene, "a")
    with scene.leading(watch):
        scene.take()
    fails = True
    write(scene, "b")
    scene.expire()
    with scene.leading(watch, epoch="2"):
        assert dead(scene).keys() == {scene.key("a"), scene.key("b")}
        assert lister(scene, watch).by_index("whim", "a") == []
        assert names(lister(scene, watch).list()) == {"a", "b"}
    fails = False
    write(scene, "c")
    scene.expire()
    with scene.leading(watch, epoch="3"):
        assert scene.has("a", "b", "c")
        assert dead(scene) == {}
        assert names(lister(scene, watch).by_index("whim", "a")) == {"a"}


@EMULATED
def test_an_own_write_that_an_index_function_fails_on_is_shown(scene: Scene) -> None:
    """As its event will show it: whole, and not where the index had it before."""
    watch = cached(scene, **INDEXED)
    write(scene, "a", size="1")
    with scene.leading(watch):
        pass
    client, reader = scene.leader().client, lister(scene, watch)
    with observed(WriteThrough([caches(scene, watch)], client)):
        client.patch(CONFIG_MAPS, scene.key("a"), {"data": {"size": "large"}})
        found = reader.get(scene.key("a"))
        assert found is not None
        assert found["data"]["size"] == "large"
        assert reader.by_index("size", "1") == []


@EMULATED
@pytest.mark.parametrize("kind", ["indexers", "transform"])
def test_with_stop_the_stream_waits_before_an_object_that_cannot_be_kept(scene: Scene, kind: str) -> None:
    """As it does for all functions that fail; nothing is skipped, and the cache stays as it was."""
    broken = True

    def fails(obj: Object) -> Any:
        if broken and obj["metadata"]["name"] == "b":
            raise ValueError("a bug")
        return obj if kind == "transform" else ["x"]

    options: dict[str, Any] = {kind: fails if kind == "transform" else {"x": fails}}
    with scene.leading(cached(scene, on_error="stop", **options)) as leader:
        for name in "abc":
            write(scene, name)
        eventually(lambda: leader.failures >= 2)
        assert scene.has("a")
        assert entries(scene).keys() == {"a"}
        broken = False
        eventually(lambda: scene.has("a", "b", "c"))
        assert leader.stream.lists == 1


@EMULATED
@pytest.mark.parametrize("outage", [RedisUnavailable("gone"), ApiError("busy", status=503)])
@pytest.mark.parametrize("kind", ["indexers", "transform"])
def test_an_outage_of_a_service_that_such_a_function_asks_parks_nothing(
    scene: Scene, kind: str, outage: Exception
) -> None:
    """That is not the object's fault: the stream waits."""
    away = True

    def asks(obj: Object) -> Any:
        if away:
            raise outage
        return obj if kind == "transform" else ["x"]

    function: Callable[[Object], Any] | dict[str, Any] = asks if kind == "transform" else {"x": asks}
    with scene.leading(cached(scene, **{kind: function})) as leader:
        write(scene, "a")
        eventually(lambda: leader.failures >= 2)
        assert dead(scene) == {}
        away = False
        eventually(lambda: scene.has("a"))
