"""A leader keeps the objects of a cached watch in Redis, in the commits that enqueue their keys."""

from threading import Thread
from typing import Any

import pytest

from distq.client.objects import Object, key_of
from distq.controller.cached.caches import Caches
from distq.controller.stream import batch as batch_module
from distq.controller.watches import For, Watches
from distq.errors import CacheNotSynced
from distq.informer import pager as pager_module
from distq.inspector import Inspector
from distq.metrics import CACHED_OBJECTS
from distq.redisio import commit as commit_module
from distq.redisio import stream_store
from distq.redisio.checkpoints import MARK
from distq.redisio.commit import Commit
from distq.redisio.limits import INDEX_VALUES
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import Committed, StreamStore, TooLarge
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.queue import Queue
from tests.controller.caching import (
    CONFIG_MAPS,
    ON_TWO_SERVERS,
    by_color,
    by_first_letter,
    cached,
    entries,
    kept,
    lister,
    names,
    write_through,
)
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_stream import change, create, delete, put_at
from tests.support.eventually import eventually
from tests.support.samples import config_map

pytestmark = ON_TWO_SERVERS


def shout(obj: Object) -> Object:
    """Keep of a ConfigMap its data alone, in capitals."""
    return {"metadata": {"name": obj["metadata"]["name"]}, "data": {"color": obj["data"]["color"].upper()}}


def test_a_list_and_events_are_cached_with_their_keys(scene: Scene) -> None:
    """What the watch shows, the cache shows once the key is pending; managedFields are not kept."""
    create(scene, "a", "b")
    with scene.leading(cached(scene)):
        reader = lister(scene)
        assert names(reader.list()) == {"a", "b"}
        assert names(reader.by_index("color", "green")) == set()
        scene.take()
        change(scene, "a")
        eventually(lambda: scene.has("a"))
        assert names(reader.by_index("color", "green")) == {"a"}
        found = reader.get(scene.key("a"))
        assert found is not None
        expected = scene.leader().client.get(CONFIG_MAPS, scene.key("a"))
        assert expected is not None
        expected["metadata"].pop("managedFields", None)
        assert found == expected
        delete(scene, "a")
        create(scene, "c")
        eventually(lambda: scene.has("a", "c"))
        assert names(reader.list(scene.namespace)) == {"b", "c"}
        assert reader.get(scene.key("a")) is None
        assert reader.by_index("color", "green") == []


def test_the_cached_objects_are_counted(scene: Scene) -> None:
    """By streams and as a gauge; an object that is gone and only marked no longer counts."""
    gauges = QueueGauges(Queue(QUEUE, scene.connection))
    count = CACHED_OBJECTS, (QUEUE, CONFIG_MAPS)
    create(scene, "a", "b", "c")
    with scene.leading(cached(scene)):
        (stream,) = Inspector(scene.connection).streams(QUEUE)
        assert stream.cached == 3
        assert (*count, 3) in gauges()
    write_through(scene, dropped={scene.key("a"): "99999999"})
    (stream,) = Inspector(scene.connection).streams(QUEUE)
    assert stream.cached == 2
    with scene.leading(For(CONFIG_MAPS), epoch="2"):
        (stream,) = Inspector(scene.connection).streams(QUEUE)
        assert stream.cached is None
        assert CACHED_OBJECTS not in {metric for metric, _, _ in gauges()}
    gauges.close()


def test_a_new_leader_of_the_same_settings_lists_nothing(scene: Scene) -> None:
    """What the leader before it kept is there, and what happened meanwhile follows."""
    create(scene, "a", "b")
    with scene.leading(cached(scene)):
        pass
    assert names(lister(scene).list()) == {"a", "b"}  # no process leads, and it is whole all the same
    delete(scene, "b")
    change(scene, "a")
    scene.take()
    with scene.leading(cached(scene), epoch="2") as successor:
        eventually(lambda: scene.has("a", "b"))
        assert successor.client.lists() == 0
        assert names(lister(scene).by_index("color", "green")) == {"a"}
        assert names(lister(scene).list()) == {"a"}


@pytest.mark.parametrize(
    "before",
    [
        For(CONFIG_MAPS),
        For(CONFIG_MAPS, cached=True),
        For(CONFIG_MAPS, cached=True, indexers={"color": by_first_letter}),
        For(CONFIG_MAPS, cached=True, indexers={"color": by_color}, transform=None),
        For(CONFIG_MAPS, cached=True, indexers={"color": by_color}, metadata_only=True),
    ],
)
def test_other_settings_list_once_and_only_then(scene: Scene, before: For) -> None:
    """``cached`` turned on, other indexers, another transform: the cache is filled anew, and readers wait."""
    create(scene, "a", "b")
    change(scene, "a")
    with scene.leading(before):
        pass
    assert sorted(scene.take()) == [scene.key("a"), scene.key("b")]
    with scene.leading(cached(scene), epoch="2") as leader:
        assert leader.stream.lists == 1
        assert names(lister(scene).by_index("color", "green")) == {"a"}
        found = lister(scene).get(scene.key("a"))
        assert found is not None
        assert (found["data"]["color"], "managedFields" in found["metadata"]) == ("green", False)
    with scene.leading(cached(scene), epoch="3") as leader:
        assert leader.stream.lists == 0


def test_cached_turned_off_leaves_nothing(scene: Scene) -> None:
    """The objects go without a list, and only the record of the stream remains."""
    create(scene, "a")
    with scene.leading(cached(scene)):
        assert set(entries(scene)) == {"a"}
    scene.take()
    with scene.leading(For(CONFIG_MAPS), epoch="2") as leader:
        assert leader.stream.lists == 0
        keys = scene.connection.execute("KEYS", "*")
        assert not [key for key in keys if b":cache:" in key or b":index:" in key]
    assert scene.pending() == {}


def test_a_leader_that_keeps_no_cache_is_noticed(scene: Scene) -> None:
    """For example one of 0.1.0, or of the release before: the leader after it fills the cache anew."""
    create(scene, "a", "b")
    with scene.leading(cached(scene)):
        pass
    record = scene.record()
    assert record is not None
    about = {name: value for name, value in record.about.items() if name not in {"watch", "cached"}}
    store = StreamStore(scene.connection, QUEUE, scene.leader().stream.name())
    delete(scene, "a")
    gone = store.commit(
        Commit(
            epoch="1",
            after=record.batch,
            new=record.position,
            batch="old",
            gone=[scene.key("a")],
            about=about,
        )
    )
    assert isinstance(gone, Committed)
    with scene.leading(cached(scene), epoch="2") as leader:
        assert leader.stream.lists == 1
        assert names(lister(scene).list()) == {"b"}
        assert set(entries(scene)) == {"b"}


def test_a_relist_drops_vanished_objects_from_the_cache(scene: Scene) -> None:
    """After 410 the cache has what the list shows, and nothing else."""
    create(scene, "same", "changed", "deleted")
    with scene.leading(cached(scene)):
        pass
    change(scene, "changed")
    delete(scene, "deleted")
    create(scene, "new")
    scene.expire()
    scene.take()
    with scene.leading(cached(scene), epoch="2") as leader:
        assert leader.stream.lists == 1
        assert names(lister(scene).list()) == {"same", "changed", "new"}
        assert names(lister(scene).by_index("color", "green")) == {"changed"}
        assert scene.has("changed", "deleted", "new")


def test_a_list_drops_objects_that_were_written_through_and_never_seen(scene: Scene) -> None:
    """An object that came and went between two lists is in no list, and known to no event."""
    create(scene, "a")
    with scene.leading(cached(scene)):
        pass
    client = scene.leader().client
    ghost = client.create(config_map(scene.namespace, "ghost", color="green"))
    write_through(scene, kept(scene, ghost))
    assert names(lister(scene).by_index("color", "green")) == {"ghost"}
    delete(scene, "ghost")
    scene.expire()
    with scene.leading(cached(scene), epoch="2") as leader:
        assert leader.stream.lists == 1
        assert lister(scene).by_index("color", "green") == []
        assert set(entries(scene)) == {"a"}


def test_a_restored_cluster_fills_the_cache_anew(scene: Scene) -> None:
    """Versions of the other history would win over all that comes: nothing of it stays."""
    create(scene, "a", "b")
    with scene.leading(cached(scene)):
        pass
    far = "88888888888888888888"
    ghost = scene.leader().client.get(CONFIG_MAPS, scene.key("a"))
    assert ghost is not None
    ghost["metadata"] |= {"name": "ghost", "resourceVersion": far}
    write_through(scene, kept(scene, ghost))
    put_at(scene, far, epoch="99999999999999999999")
    with scene.leading(cached(scene), epoch="2") as leader:
        assert leader.stream.lists == 1
        assert names(lister(scene).list()) == {"a", "b"}
        assert far not in entries(scene).values()


def test_a_resync_by_hand_fills_the_cache_anew(scene: Scene) -> None:
    """Readers wait for its list: until then it is unknown what the stream has passed."""
    create(scene, "a")
    with scene.leading(cached(scene)):
        pass
    put_at(scene, MARK)
    with pytest.raises(CacheNotSynced, match="no process leads"):
        lister(scene, timeout=0.2).list()
    with scene.leading(cached(scene), epoch="2"):
        assert names(lister(scene).list()) == {"a"}


def test_a_wiped_redis_is_not_an_empty_cluster(scene: Scene) -> None:
    """A reader waits for the list that fills it again."""
    create(scene, "a", "b")
    with scene.leading(cached(scene)) as leader:
        reader = lister(scene)
        assert len(reader.list()) == 2
        scene.connection.execute("FLUSHALL")
        assert names(reader.list()) == {"a", "b"}
        assert leader.stream.lists == 2


def test_commits_are_bounded_by_bytes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of large objects takes several commits, none of them larger than the limit by much."""
    monkeypatch.setattr(batch_module, "CACHED_BYTES", 20_000)
    sizes: list[int] = []
    commit = stream_store.StreamStore.commit

    def measured(self: StreamStore, change: Commit) -> Any:
        sizes.append(sum(obj.size for obj in change.objects))
        return commit(self, change)

    monkeypatch.setattr(stream_store.StreamStore, "commit", measured)
    client = scene.leader().client
    for number in range(12):
        client.create(config_map(scene.namespace, f"large-{number}", text="x" * 6_000))
    with scene.leading(cached(scene)):
        assert len(lister(scene).list()) == 12
    assert max(sizes) <= 20_000
    assert len([size for size in sizes if size]) >= 4


def test_many_keys_of_one_object_wait_for_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event with more keys than a commit takes: the first of its commits has the object."""
    monkeypatch.setattr(batch_module, "BATCH_LIMIT", 10)
    committed: list[tuple[int, int, int]] = []
    commit = stream_store.StreamStore.commit

    def noted(self: StreamStore, change: Commit) -> Any:
        parts = [len(each) for each in (change.objects, change.keys, change.known)]
        if any(parts):
            committed.append((parts[0], parts[1], parts[2]))
        return commit(self, change)

    monkeypatch.setattr(stream_store.StreamStore, "commit", noted)
    create(scene, "a")
    watch = Watches(CONFIG_MAPS, many_keys, cached=True)
    with scene.leading(watch):
        assert len(scene.pending()) == 25
    assert [parts[0] for parts in committed] == [1, 0, 0]
    assert [parts[2] for parts in committed] == [0, 0, 1]
    assert all(sum(parts) <= 10 for parts in committed)


def many_keys(obj: Object) -> list[str]:
    """Return more keys than a commit takes."""
    return [f"{obj['metadata']['name']}-{number}" for number in range(25)]


def test_pages_of_a_list_are_cached_as_they_come(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of several pages, first and second ones, leave a whole cache."""
    monkeypatch.setattr(pager_module, "PAGE_SIZE", 2)
    create(scene, *"abcde")
    with scene.leading(cached(scene)):
        assert names(lister(scene).list()) == set("abcde")
    delete(scene, "c")
    scene.expire()
    with scene.leading(cached(scene), epoch="2"):
        assert names(lister(scene).list()) == set("abde")


def test_a_transform_decides_which_fields_are_kept(scene: Scene) -> None:
    """Index functions see its result; a metadata field that it leaves out harms nothing."""
    client = scene.leader().client
    client.create(config_map(scene.namespace, "a", color="red"))
    watch = cached(scene, transform=shout)
    with scene.leading(watch):
        (found,) = lister(scene, watch).by_index("color", "RED")
        assert found["data"] == {"color": "RED"}
        assert lister(scene, watch).get(scene.key("a")) == found
        client.patch(CONFIG_MAPS, scene.key("a"), {"data": {"color": "blue"}})
        eventually(lambda: lister(scene, watch).by_index("color", "BLUE"))
        assert lister(scene, watch).by_index("color", "RED") == []


def watched(scene: Scene, watch: For | Watches) -> Caches:
    """Return the caches of one watch, as a process of its own has them."""
    found = Caches([watch], Queue(QUEUE, scene.connection), timeout=30.0)
    found.bind(scene.leader().client, None)
    return found


def test_an_object_is_shown_before_its_function_reads_another_cache(scene: Scene) -> None:
    """Of two objects that come at once, one's function sees the other, or the other's reconcile sees it."""
    secrets = For("v1/Secret", cached=True, namespaces=[scene.namespace])
    leaders = watched(scene, secrets)
    found: list[Object | None] = []

    def keys(obj: Object) -> list[str]:
        leaders.lister("v1/Secret").list(scene.namespace)
        elsewhere = Thread(target=lambda: found.append(others.lister(CONFIG_MAPS).get(key_of(obj))))
        elsewhere.start()
        elsewhere.join()
        return [key_of(obj)]

    maps = Watches(CONFIG_MAPS, keys, cached=True, namespaces=[scene.namespace])
    others = watched(scene, maps)
    with scene.leading(secrets), scene.leading(maps):
        create(scene, "a")
        eventually(lambda: scene.has("a"))
        change(scene, "a")
        eventually(lambda: len(found) == 3)  # of what it was before, too
        delete(scene, "a")
        eventually(lambda: len(found) == 4)
    assert found[0] is not None
    assert [obj and obj.get("data") for obj in found] == [None, {"color": "green"}, {"color": "green"}, None]


def test_a_function_is_asked_about_the_state_before_a_change(scene: Scene) -> None:
    """So an object that was added since, and read it in the cache, learns that it vanished or turned away."""
    secrets = For("v1/Secret", cached=True, namespaces=[scene.namespace])
    leaders, client = watched(scene, secrets), scene.leader().client

    def keys(obj: Object) -> list[str]:
        found = leaders.lister("v1/Secret").list(scene.namespace)
        return [key_of(each) for each in found if each["metadata"]["name"] == obj["data"]["secret"]]

    def come(name: str) -> None:
        metadata = {"name": name, "namespace": scene.namespace}
        client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        eventually(lambda: scene.has(name))
        scene.take()

    maps = Watches(CONFIG_MAPS, keys, cached=True, namespaces=[scene.namespace])
    client.create(config_map(scene.namespace, "turns", secret="one"))
    client.create(config_map(scene.namespace, "vanishes", secret="two"))
    with scene.leading(secrets):
        with scene.leading(maps):
            assert scene.pending() == {}
            come("one")
            come("two")
            client.patch(CONFIG_MAPS, scene.key("turns"), {"data": {"secret": "none"}})
            eventually(lambda: scene.has("one"))
            scene.take()
        delete(scene, "vanishes")
        scene.expire()
        with scene.leading(maps, epoch="2") as leader:
            assert leader.stream.lists == 1
            assert scene.has("two")


def test_a_function_that_reads_its_own_cache_costs_no_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All objects of a batch are put with their keys, in one."""
    commits: list[int] = []
    commit = StreamStore.commit

    def counted(store: StreamStore, change: Commit) -> Any:
        commits.extend([len(change.objects)] * bool(change.objects))
        return commit(store, change)

    def keys(obj: Object) -> list[str]:
        return [key_of(each) for each in own.lister(CONFIG_MAPS).list(scene.namespace)]

    maps = Watches(CONFIG_MAPS, keys, cached=True, namespaces=[scene.namespace])
    own = watched(scene, maps)
    create(scene, "a", "b", "c")
    monkeypatch.setattr(StreamStore, "commit", counted)
    with scene.leading(maps):
        eventually(lambda: scene.has("a", "b", "c"))
    assert commits == [3]


def test_a_redis_that_moved_in_the_midst_of_a_function_is_no_failure_of_it(scene: Scene) -> None:
    """It is not the object's fault: the stream lists anew, and hands it over."""
    secrets = For("v1/Secret", cached=True, namespaces=[scene.namespace])
    leaders, calls = watched(scene, secrets), []

    def keys(obj: Object) -> list[str]:
        calls.append(obj)
        if len(calls) == 1:
            scene.connection.execute("FLUSHALL")
        leaders.lister("v1/Secret").list(scene.namespace)
        return [key_of(obj)]

    maps = Watches(CONFIG_MAPS, keys, cached=True, namespaces=[scene.namespace])
    with scene.leading(secrets), scene.leading(maps) as leader:
        create(scene, "a")
        eventually(lambda: scene.has("a"))
        assert leader.failures == 0
    assert QueueStore(scene.connection, QUEUE).read(("ZCARD", "dead")) == [0]


def words_of(obj: Object) -> list[str]:
    """Return as many index values as a ConfigMap says."""
    return [f"word-{number}" for number in range(int(obj["data"]["words"]))]


@pytest.mark.bound("INDEX_VALUES")
def test_an_object_of_too_many_index_values_is_dead_and_the_next_one_cached(scene: Scene) -> None:
    """The bound is by number: a thousand values are found, one more is said to be too many."""
    client = scene.leader().client
    for name, number in {"a": INDEX_VALUES + 1, "b": INDEX_VALUES}.items():
        client.create(config_map(scene.namespace, name, words=str(number)))
    watch = cached(scene, indexers={"word": words_of})
    with scene.leading(watch):
        assert names(lister(scene, watch).by_index("word", f"word-{INDEX_VALUES - 1}")) == {"b"}
        assert lister(scene, watch).get(scene.key("a")) is not None
        (item,) = Inspector(scene.connection).items(QUEUE, state="dead")
        assert item.last_error is not None
        assert "1001 values of" in item.last_error
        assert "of at most 1000. Return fewer." in item.last_error


@pytest.mark.bound("TERMS_LIMIT")
def test_index_values_beyond_one_step_are_committed_in_several(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that go count, too: the deletion of many objects changes as much of an index as their list."""
    monkeypatch.setattr(commit_module, "TERMS_LIMIT", 20_000)
    answers = list[object]()
    commit = stream_store.StreamStore.commit

    def noted(self: StreamStore, change: Commit) -> object:
        answer = commit(self, change)
        answers.append(answer)
        return answer

    monkeypatch.setattr(stream_store.StreamStore, "commit", noted)
    client = scene.leader().client
    for name in "abcdef":
        client.create(config_map(scene.namespace, name, words="200"))
    watch = cached(scene, indexers={"word": words_of})
    with scene.leading(watch):
        assert names(lister(scene, watch).by_index("word", "word-199")) == set("abcdef")
    assert TooLarge() in answers
    answers.clear()
    for name in "abcdef":
        delete(scene, name)
    scene.expire()
    with scene.leading(watch, epoch="2"):
        eventually(lambda: not lister(scene, watch).list())
    assert TooLarge() in answers
    left = [scene.connection.execute("ZCARD", key) for key in scene.connection.execute("KEYS", "*index*")]
    assert sum(left) <= len("abcdef")  # markers, at most
