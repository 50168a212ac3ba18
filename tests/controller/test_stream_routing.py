"""Which keys a stream enqueues: its objects' own, their owners', or what a function says; and which not."""

from collections.abc import Iterable

import pytest

from distq.client.objects import Object
from distq.controller.event import Event
from distq.controller.predicate import Predicate, labels_changed, matches_labels
from distq.controller.stream.committer import Committer
from distq.controller.watches import For, Owns, Watches
from distq.redisio.commit import Commit
from tests.controller.leading import ON_ALL_SERVERS, Scene
from tests.support.eventually import eventually
from tests.support.samples import config_map

pytestmark = ON_ALL_SERVERS

CONFIG_MAPS = "v1/ConfigMap"
LOW = -100


def targets(obj: Object) -> list[str]:
    """Return what a ConfigMap names as its targets."""
    return str(obj.get("data", {}).get("targets", "")).split()


def aim(scene: Scene, name: str, *keys: str) -> None:
    """Create a ConfigMap that names targets, or change what it names."""
    client = scene.leader().client
    if client.get(CONFIG_MAPS, scene.key(name)):
        client.patch(CONFIG_MAPS, scene.key(name), {"data": {"targets": " ".join(keys)}})
    else:
        client.create(config_map(scene.namespace, name, targets=" ".join(keys)))


def label(scene: Scene, name: str, **labels: str | None) -> None:
    """Set labels of a ConfigMap."""
    scene.leader().client.patch(CONFIG_MAPS, scene.key(name), {"metadata": {"labels": labels}})


def delete(scene: Scene, name: str) -> None:
    """Delete a ConfigMap."""
    scene.leader().client.delete(CONFIG_MAPS, scene.key(name))


def test_a_mapped_change_enqueues_old_and_new_keys(scene: Scene) -> None:
    """The former keys are enqueued too, also by a leader that did not see the old object."""
    watch = Watches(CONFIG_MAPS, targets)
    aim(scene, "a", "x", "y")
    with scene.leading(watch):
        assert scene.take() == {"x": LOW, "y": LOW}
        aim(scene, "a", "y", "z")
        eventually(lambda: scene.pending() == {"x": 0, "y": 0, "z": 0})
    scene.take()
    aim(scene, "a", "w")
    with scene.leading(watch, epoch="2"):
        eventually(lambda: scene.take() == {"y": 0, "z": 0, "w": 0})
        delete(scene, "a")
        eventually(lambda: scene.take() == {"w": 0})
        eventually(lambda: scene.known() == {})


def test_changes_of_one_object_in_one_batch_keep_their_keys(scene: Scene) -> None:
    """An object changed several times at once enqueues all keys that it had in between."""
    watch = Watches(CONFIG_MAPS, targets)
    aim(scene, "a", "one")
    with scene.leading(watch):
        scene.take()
    for keys in ("two", "three", "four"):
        aim(scene, "a", keys)
    with scene.leading(watch, epoch="2"):
        eventually(lambda: set(scene.pending()) == {"one", "two", "three", "four"})
        assert [line.split("\n")[1:] for line in scene.known().values()] == [["four"]]


def test_a_filtered_change_keeps_the_keys_of_the_one_before(scene: Scene) -> None:
    """Also where both come in one batch."""
    watch = Watches(CONFIG_MAPS, targets, predicates=[lambda event: not event.labels])
    aim(scene, "a", "one")
    with scene.leading(watch):
        scene.take()
    aim(scene, "a", "two")
    label(scene, "a", app="web")
    with scene.leading(watch, epoch="2"):
        eventually(lambda: scene.pending() == {"one": 0, "two": 0})
        assert [line.split("\n")[1:] for line in scene.known().values()] == [["two"]]


def test_an_object_that_vanished_unseen_enqueues_its_mapped_keys(scene: Scene) -> None:
    """The known set remembers them if no event reports them any longer."""
    watch = Watches(CONFIG_MAPS, targets)
    aim(scene, "a", "x", "y")
    aim(scene, "b", "z")
    with scene.leading(watch):
        scene.take()
    delete(scene, "a")
    scene.expire()
    with scene.leading(watch, epoch="2"):
        assert scene.pending() == {"x": LOW, "y": LOW}


def test_an_event_with_more_keys_than_a_commit_takes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys come, in commits that each move the position, so that none is lost unnoticed."""
    positions: list[str] = []
    commit = Committer.commit

    def noted(committer: Committer, change: Commit) -> None:
        if change.keys:
            positions.append(change.new)
        commit(committer, change)

    monkeypatch.setattr(Committer, "commit", noted)
    watch = Watches(CONFIG_MAPS, lambda obj: [f"key-{number}" for number in range(int(obj["data"]["count"]))])
    with scene.leading(watch):
        scene.leader().client.create(config_map(scene.namespace, "a", count="2500"))
        eventually(lambda: len(scene.pending()) == 2500)
        eventually(lambda: len(scene.known()) == 1)
        assert len(positions) == len(set(positions)) == 3
        assert [position.isdecimal() for position in positions] == [False, False, True]
        delete(scene, "a")
        eventually(lambda: not scene.known())


@pytest.mark.parametrize("cached", [False, True], ids=["plain", "cached"])
@pytest.mark.parametrize("name", ["a\nb", "x" * 1100], ids=["line break", "long"])
def test_an_object_whose_name_is_no_key_stops_no_other(scene: Scene, name: str, cached: bool) -> None:
    """API servers let Roles have any name; it is left out and counted, also when it vanished."""
    role = "rbac.authorization.k8s.io/v1/Role"
    client = scene.leader().client
    watch = For(role, cached=cached)
    with scene.leading(watch) as leader:
        for each in (name, "good"):
            api_version, _, kind = role.rpartition("/")
            metadata = {"namespace": scene.namespace, "name": each}
            client.create({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        eventually(lambda: scene.take() == {scene.key("good"): 0})
        assert leader.failures == 1
    client.delete(role, scene.key(name))
    scene.expire()
    with scene.leading(watch, epoch="2"):
        eventually(lambda: scene.known().keys() == {scene.key("good")})


def test_owned_objects_enqueue_their_owner(scene: Scene) -> None:
    """The controller reference of the For's kind is looked for."""
    client = scene.leader().client
    web = client.create(config_map(scene.namespace, "web"))
    other = client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "other-kind", "namespace": scene.namespace},
        }
    )

    def owned(called: str, owner: Object, *, controller: bool = True) -> Object:
        obj = config_map(scene.namespace, called)
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": controller,
        }
        obj["metadata"]["ownerReferences"] = [reference]
        return obj

    with scene.leading(Owns(CONFIG_MAPS), owned_by=CONFIG_MAPS):
        client.create(owned("a", web))
        client.create(owned("b", other))
        client.create(owned("c", web, controller=False))
        client.create(config_map(scene.namespace, "d"))
        eventually(lambda: scene.key("d") in scene.known())
        assert scene.take() == {scene.key("web"): 0}
        delete(scene, "c")
        delete(scene, "a")
        eventually(lambda: scene.pending() == {scene.key("web"): 0})


def test_filtered_objects_are_known_but_not_enqueued(scene: Scene) -> None:
    """A relist does not take them for new, and one that matches later is enqueued."""
    watch = For(CONFIG_MAPS, predicates=[matches_labels("app=web")])
    aim(scene, "a")
    with scene.leading(watch):
        assert scene.pending() == {}
        assert set(scene.known()) == {scene.key("a")}
        aim(scene, "b")
        eventually(lambda: scene.key("b") in scene.known())
        assert scene.pending() == {}
        label(scene, "a", app="web")
        eventually(lambda: scene.pending() == {scene.key("a"): 0})


def test_comparing_predicates_see_the_state_before(scene: Scene) -> None:
    """Updates that left the labels alone are dropped, by the leader that knows the old ones."""
    watch = For(CONFIG_MAPS, predicates=[labels_changed])
    aim(scene, "a")
    with scene.leading(watch):
        scene.take()
        aim(scene, "a", "elsewhere")
        aim(scene, "b")
        eventually(lambda: scene.take() == {scene.key("b"): 0})
        label(scene, "a", app="web")
        eventually(lambda: scene.take() == {scene.key("a"): 0})


def test_comparing_predicates_let_updates_pass_that_they_cannot_compare(scene: Scene) -> None:
    """A resumed leader has no old objects: better a reconcile too many."""
    aim(scene, "a")
    for epoch, predicate in enumerate((labels_changed, ~labels_changed), start=1):
        with scene.leading(For(CONFIG_MAPS, predicates=[predicate]), epoch=f"{2 * epoch}"):
            scene.take()
        aim(scene, "a", f"change-{epoch}")
        with scene.leading(For(CONFIG_MAPS, predicates=[predicate]), epoch=f"{2 * epoch + 1}"):
            eventually(lambda: scene.take() == {scene.key("a"): 0})


def test_replayed_events_are_not_compared_with_themselves(scene: Scene) -> None:
    """After Redis went back, a change that was seen once already passes again."""
    watch = For(CONFIG_MAPS, predicates=[labels_changed])
    aim(scene, "a")
    with scene.leading(watch):
        scene.take()
        dump = scene.dump()
        label(scene, "a", app="web")
        eventually(lambda: scene.take() == {scene.key("a"): 0})
        scene.restore(dump)
        eventually(lambda: scene.pending() == {scene.key("a"): 0})


@pytest.mark.parametrize("where", ["predicate", "mapping", "key"])
def test_a_function_that_raises_stops_its_stream_until_it_works(
    scene: Scene, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is skipped: earlier events are committed, the failed one and later ones wait."""
    broken = True

    def raising(event: Event) -> bool:
        if broken and where == "predicate" and event.name == "b":
            raise ValueError("a bug")
        return True

    def keys(obj: Object) -> Iterable[str]:
        name = obj["metadata"]["name"]
        if broken and where == "mapping" and name == "b":
            raise ValueError("a bug")
        return ["", "x"] if broken and where == "key" and name == "b" else [name]

    watch = Watches(CONFIG_MAPS, keys, predicates=[raising], on_error="stop")
    with scene.leading(watch):
        pass
    for name in "abc":
        aim(scene, name)
    with scene.leading(watch, epoch="2") as leader:
        eventually(lambda: leader.failures >= 2)
        assert scene.pending() == {"a": 0}
        assert f"failed on {scene.key('b')}" in caplog.text
        broken = False
        eventually(lambda: scene.pending() == dict.fromkeys("abc", 0))
        assert leader.stream.lists == 0


def test_lag_grows_while_a_function_raises(scene: Scene) -> None:
    """It is the age of the event that waits, for the leader and in the record, until that is committed."""
    broken = True

    def keys(obj: Object) -> Iterable[str]:
        if broken and obj["metadata"]["name"] == "b":
            raise ValueError("a bug")
        return [obj["metadata"]["name"]]

    def recorded_lag() -> float:
        record = scene.record()
        assert record is not None
        return float(record.about["lag"])

    with scene.leading(Watches(CONFIG_MAPS, keys, on_error="stop")) as leader:
        assert leader.stream.lag == 0
        aim(scene, "a")
        aim(scene, "b")
        eventually(lambda: leader.failures >= 2)
        before = leader.stream.lag
        assert before > 0
        eventually(lambda: leader.failures >= 3)
        assert leader.stream.lag > before
        eventually(lambda: recorded_lag() > before)
        broken = False
        eventually(lambda: "b" in scene.pending() and leader.stream.lag == 0)
        eventually(lambda: recorded_lag() == 0)


def test_a_function_that_raises_on_a_list_stops_the_list(scene: Scene) -> None:
    """A list is not whole without the object that failed."""
    broken = True

    def keys(obj: Object) -> Iterable[str]:
        if broken:
            raise ValueError("a bug")
        return [obj["metadata"]["name"]]

    aim(scene, "a")
    leader = scene.leader(Watches(CONFIG_MAPS, keys, on_error="stop"))
    leader.start()
    eventually(lambda: leader.failures >= 2)
    assert not leader.stream.synced
    broken = False
    eventually(lambda: leader.stream.synced)
    assert scene.pending() == {"a": LOW}
    leader.stop()


def test_functions_as_predicates_get_no_old_object_unless_they_ask(scene: Scene) -> None:
    """Old metadata is kept only for a Predicate that says that it compares."""
    seen: list[object] = []

    def note(event: Event) -> bool:
        seen.append(event.old)
        return True

    for compares in (False, True):
        name = f"map-{compares:d}"
        aim(scene, name)
        with scene.leading(
            For(CONFIG_MAPS, predicates=[Predicate(note, compares=compares)]), epoch=f"{2 + compares}"
        ):
            seen.clear()
            label(scene, name, app="web")
            eventually(lambda: seen)
        if not compares:
            assert seen == [None]
    (old,) = seen
    assert isinstance(old, dict)
    assert old["metadata"]["name"] == "map-1"
