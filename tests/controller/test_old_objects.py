"""Predicates compare with the whole old object where the watch is cached, also after a change of leader."""

from typing import Any

import pytest

from distq.client.objects import Object
from distq.controller.event import Event
from distq.controller.predicate import Predicate, changed, generation_changed, labels_changed
from distq.controller.watches import For
from distq.informer.stored_object import Transform, strip_managed_fields
from distq.inspector import Inspector
from distq.redisio.stream_keys import StreamKeys
from tests.controller.caching import CONFIG_MAPS, ON_TWO_SERVERS, cached, kept, object_cache, write_through
from tests.controller.leading import QUEUE, Scene
from tests.support.eventually import eventually
from tests.support.samples import config_map

pytestmark = ON_TWO_SERVERS

COLOR_CHANGED = changed("data.color")


def paint(scene: Scene, name: str, **data: str) -> Object:
    """Create a ConfigMap, or change its data."""
    client = scene.leader().client
    if client.get(CONFIG_MAPS, scene.key(name)) is None:
        return client.create(config_map(scene.namespace, name, **data))
    return client.patch(CONFIG_MAPS, scene.key(name), {"data": data})


def handed_over(scene: Scene, fence: str = "fence") -> set[str]:
    """Return which objects' keys are pending once all that happened before now is handed over."""
    paint(scene, fence)
    eventually(lambda: scene.key(fence) in scene.pending())
    scene.leader().client.delete(CONFIG_MAPS, scene.key(fence))
    eventually(lambda: scene.key(fence) not in scene.known())
    return {key.rpartition("/")[2] for key in scene.take()} - {fence}


def comparing(scene: Scene, **options: Any) -> For:
    """Return a watch that passes changes of the color alone."""
    return cached(scene, predicates=COLOR_CHANGED, **options)


def test_an_update_that_leaves_the_compared_part_alone_is_dropped(scene: Scene) -> None:
    """Of an object that came with a list, and of one that came with an event."""
    paint(scene, "listed", color="red")
    with scene.leading(comparing(scene)) as leader:
        paint(scene, "created", color="red")
        assert handed_over(scene) == {"listed", "created"}
        for name in ("listed", "created"):
            paint(scene, name, size="1")
        assert handed_over(scene) == set()
        for name in ("listed", "created"):
            paint(scene, name, color="blue")
        assert handed_over(scene) == {"listed", "created"}
        assert leader.failures == 0


def test_an_own_write_is_compared_with_the_state_before_it(scene: Scene) -> None:
    """The cache has it already when its event comes, which must not be compared with itself."""
    with scene.leading(comparing(scene)):
        first = paint(scene, "a", color="red")
        write_through(scene, kept(scene, first))
        assert handed_over(scene) == {"a"}
        painted = paint(scene, "a", color="blue")
        write_through(scene, kept(scene, painted))
        assert handed_over(scene) == {"a"}


def test_a_new_leader_compares_with_the_objects_that_the_one_before_handed_over(scene: Scene) -> None:
    """It finds that in the cache: nothing passes that left the part alone."""
    for name in ("same", "painted"):
        paint(scene, name, color="red", shape="round")
    with scene.leading(comparing(scene)):
        assert handed_over(scene) == {"same", "painted"}
    for name in ("same", "painted"):
        paint(scene, name, shape="flat")
    paint(scene, "painted", color="blue")
    with scene.leading(comparing(scene), epoch="2") as successor:
        assert handed_over(scene) == {"painted"}
        assert successor.client.lists() == 0


def test_an_own_write_ahead_of_a_new_leader_passes(scene: Scene) -> None:
    """The state that was handed over before it is no longer in the cache: better a reconcile too many."""
    paint(scene, "a", color="red")
    with scene.leading(comparing(scene)):
        assert handed_over(scene) == {"a"}
    write_through(scene, kept(scene, paint(scene, "a", color="blue")))
    write_through(scene, kept(scene, paint(scene, "a", size="1")))
    with scene.leading(comparing(scene), epoch="2"):
        assert handed_over(scene) == {"a"}


@pytest.mark.parametrize("transform", [None, lambda obj: obj], ids=["whole", "of one's own"])
def test_a_new_leader_lets_objects_pass_that_the_cache_does_not_have_whole(
    scene: Scene, transform: Any
) -> None:
    """A transform may have changed the part; without any, managedFields are no difference."""
    seen: list[Object | None] = []
    watch = cached(scene, transform=transform, predicates=Predicate(_noting(seen), compares="object"))
    paint(scene, "a", color="red")
    with scene.leading(watch):
        scene.take()
    paint(scene, "a", size="1")
    with scene.leading(watch, epoch="2"):
        eventually(lambda: seen)
        paint(scene, "a", size="2")
        eventually(lambda: len(seen) == 2)
    first, second = seen
    assert (first is not None) == (transform is None)
    for old in filter(None, seen):
        assert old["data"]["color"] == "red"
        assert "managedFields" not in old["metadata"]
    assert second is not None
    assert second["data"]["size"] == "1"


def _noting(seen: list[Object | None]) -> Any:
    def note(event: Event) -> bool:
        if event.type == "update" and not event.in_initial_list:
            seen.append(event.old)
        return True

    return note


@pytest.mark.parametrize("epoch", ["", "2"], ids=["same leader", "next leader"])
def test_a_change_that_another_function_failed_on_is_not_swallowed(scene: Scene, epoch: str) -> None:
    """The failed event was not handed over, so the event after it is not compared with it."""
    fails = True

    def has_size(event: Event) -> bool:
        if fails and event.object.get("data", {}).get("size") == "1":
            raise ValueError("a bug")
        return True

    watch = cached(scene, predicates=[COLOR_CHANGED, has_size])
    paint(scene, "a", color="red")
    with scene.leading(watch) as leader:
        assert handed_over(scene) == {"a"}
        paint(scene, "a", color="blue", size="1")
        eventually(lambda: Inspector(scene.connection).count(QUEUE, state="dead") == 1)
        assert leader.failures == 1
        if not epoch:
            paint(scene, "a", size="2")
            assert handed_over(scene) == {"a"}
    if epoch:
        paint(scene, "a", size="2")
        with scene.leading(watch, epoch=epoch):
            assert handed_over(scene) == {"a"}
    assert Inspector(scene.connection).count(QUEUE, state="dead") == 0


def test_replayed_events_are_compared_with_the_state_that_redis_went_back_to(scene: Scene) -> None:
    """Not with the state that the leader saw meanwhile: the change passes again, and nothing else does."""
    for name in ("painted", "same"):
        paint(scene, name, color="red")
    with scene.leading(comparing(scene)):
        assert handed_over(scene) == {"painted", "same"}
        dump = scene.dump()
        paint(scene, "painted", color="blue")
        paint(scene, "same", size="1")
        assert handed_over(scene) == {"painted"}
        scene.restore(dump)
        eventually(lambda: scene.key("painted") in scene.pending())
        assert handed_over(scene, "other") - {"fence"} == {"painted"}


def test_the_objects_of_a_list_are_not_compared(scene: Scene) -> None:
    """After 410 it is unknown which changes were missed, though the cache has an own write of that time."""
    paint(scene, "a", color="red")
    with scene.leading(comparing(scene)):
        assert handed_over(scene) == {"a"}
    write_through(scene, kept(scene, paint(scene, "a", color="blue")))
    paint(scene, "a", size="1")
    scene.expire()
    with scene.leading(comparing(scene), epoch="2"):
        assert handed_over(scene) == {"a"}
        paint(scene, "a", size="2")
        assert handed_over(scene) == set()


def test_predicates_of_metadata_profit_from_the_cache(scene: Scene) -> None:
    """A new leader compares the metadata that the cache has; of an object not cached it lets all pass."""
    watch = cached(scene, predicates=[labels_changed, ~~generation_changed | labels_changed])
    paint(scene, "a", color="red")
    with scene.leading(watch):
        assert handed_over(scene) == {"a"}
    paint(scene, "a", color="blue")
    with scene.leading(watch, epoch="2"):
        assert handed_over(scene) == set()
        scene.leader().client.patch(CONFIG_MAPS, scene.key("a"), {"metadata": {"labels": {"app": "web"}}})
        assert handed_over(scene) == {"a"}


@pytest.mark.parametrize("transform", [strip_managed_fields, None], ids=["stripped", "whole"])
@pytest.mark.parametrize("predicate", [COLOR_CHANGED, labels_changed], ids=["object", "metadata"])
def test_an_unreadable_entry_of_the_cache_is_compared_with_nothing(
    scene: Scene, transform: Transform | None, predicate: Predicate
) -> None:
    """A foreign program's value there stops no stream and parks nothing: the update passes."""
    watch = cached(scene, predicates=predicate, transform=transform)
    version = paint(scene, "a", color="red")["metadata"]["resourceVersion"]
    with scene.leading(watch):
        assert handed_over(scene) == {"a"}
    store = StreamKeys(scene.connection, QUEUE, object_cache(scene).stream)
    for garbage in ("{", "[]", '{"metadata": 1}'):
        scene.connection.execute("HSET", store.key("cache"), scene.key("a"), f"{version}\n{garbage}")
        version = paint(scene, "a", size=garbage)["metadata"]["resourceVersion"]
        with scene.leading(watch, epoch=str(len(garbage))) as successor:
            assert handed_over(scene) == {"a"}
            assert successor.failures == 0
