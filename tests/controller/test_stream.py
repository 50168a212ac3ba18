"""A stream hands over every change of what it watches once, through any succession of leaders."""

import threading
from collections.abc import Sequence

import pytest

from distq.controller.stream import stream_source as stream_module
from distq.controller.stream.committer import Committer
from distq.errors import ApiError, LayoutTooNew, LeaseLost
from distq.informer import pager as pager_module
from distq.informer.wire import RawObject
from distq.inspector import Inspector
from distq.redisio.checkpoints import MARK
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.stream_store import Committed, StreamStore
from distq.testing import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from tests.controller.leading import ON_ALL_SERVERS, QUEUE, Scene
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy

pytestmark = ON_ALL_SERVERS

CONFIG_MAPS = "v1/ConfigMap"
LOW = -100


def create(scene: Scene, *names: str) -> None:
    """Create ConfigMaps."""
    client = scene.leader().client
    for name in names:
        client.create(config_map(scene.namespace, name))


def change(scene: Scene, name: str) -> None:
    """Change a ConfigMap."""
    scene.leader().client.patch(CONFIG_MAPS, scene.key(name), {"data": {"color": "green"}})


def delete(scene: Scene, name: str) -> None:
    """Delete a ConfigMap."""
    scene.leader().client.delete(CONFIG_MAPS, scene.key(name))


def put_at(scene: Scene, position: str, *, epoch: str = "1") -> None:
    """Put the stream at another position, as another process does: in between two commits of the leader."""
    store = StreamStore(scene.connection, QUEUE, scene.leader().stream.name())

    def is_put() -> bool:
        record = scene.record()
        assert record is not None
        answer = store.commit(
            Commit(epoch=epoch, after=record.batch, new=position, batch="test", about=record.about)
        )
        return isinstance(answer, Committed)

    eventually(is_put)


def position(scene: Scene) -> str:
    """Return the stream's position."""
    record = scene.record()
    assert record is not None
    return record.position


def test_first_lists_are_low_and_events_are_not(scene: Scene) -> None:
    """Objects that were there before are enqueued at -100, new events at 0; the known set follows."""
    create(scene, "a", "b")
    with scene.leading() as leader:
        assert scene.take() == {scene.key("a"): LOW, scene.key("b"): LOW}
        create(scene, "c")
        delete(scene, "a")
        eventually(lambda: scene.pending() == {scene.key("c"): 0, scene.key("a"): 0})
        assert set(scene.known()) == {scene.key("b"), scene.key("c")}
        eventually(lambda: leader.stream.enqueued == 4)
        assert (leader.stream.lists, leader.stream.objects) == (1, 2)


def test_a_stream_is_synced_once_its_list_is_committed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then a Redis that goes back forgets the list; the commit itself says that it is one."""
    create(scene, "a")
    leader, commits = scene.leader(), []
    commit = Committer.commit

    def noted(committer: Committer, change: Commit) -> None:
        commits.append((change.new.isdecimal(), leader.stream.synced))
        commit(committer, change)

    monkeypatch.setattr(Committer, "commit", noted)
    leader.start()
    try:
        eventually(lambda: leader.stream.synced)
        record = scene.record()
        assert record is not None
        assert record.about["synced"]
        assert next(synced for ends_list, synced in commits if ends_list) is False
    finally:
        leader.stop()


def test_a_list_whose_last_commit_failed_is_not_shown_as_synced(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the commits until it is listed again, by which the leader shows that it lives."""
    create(scene, "a")
    leader, shown = scene.leader(), list[bool]()
    commit = Committer.commit

    def fail_at_first(committer: Committer, change: Commit) -> None:
        if change.new.isdecimal() and not shown:
            shown.append(False)
            raise ApiError("no version of the cluster")
        if shown and not leader.stream.synced and not change.new.isdecimal():
            shown.append(bool(committer.about()["synced"]))
        commit(committer, change)

    monkeypatch.setattr(Committer, "commit", fail_at_first)
    leader.start()
    try:
        eventually(lambda: leader.stream.synced)
    finally:
        leader.stop()
    assert len(shown) > 1
    assert not any(shown)


def test_the_next_leader_resumes_without_a_list(scene: Scene) -> None:
    """All that happened while no process led is enqueued, deletions too, and nothing else."""
    create(scene, "a", "b", "c")
    with scene.leading():
        pass
    scene.take()
    change(scene, "a")
    delete(scene, "b")
    create(scene, "d")
    record = scene.record()
    assert record is not None
    with scene.leading(epoch="2") as successor:
        expected = {scene.key(name): 0 for name in "abd"}
        eventually(lambda: scene.pending() == expected)
        assert successor.client.asked == ["version", f"watch {record.position}"]
        assert (successor.stream.lists, successor.stream.resumed_at) == (0, record.position)
        assert successor.stream.objects == 3
    assert set(scene.known()) == {scene.key(name) for name in "acd"}


def test_a_change_of_leaders_enqueues_nothing_by_itself(scene: Scene) -> None:
    """Objects that were handed over are not handed over again, and the record names the leader."""
    create(scene, "a")
    with scene.leading():
        scene.take()
    with scene.leading(epoch="2"):
        eventually(
            lambda: (
                (record := scene.record())
                and (record.about["leader"], record.about["synced"]) == ("leader-2", True)
            )
        )
        record = scene.record()
        assert record is not None
        assert record.epoch == "2"
    assert scene.pending() == {}


@pytest.mark.parametrize("first", [True, False])
def test_a_leader_killed_in_mid_list_loses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """A list that was begun moved no checkpoint: the next leader makes it again, first list or relist."""
    monkeypatch.setattr(pager_module, "PAGE_SIZE", 2)
    create(scene, *"abcde")
    if not first:
        with scene.leading():
            scene.take()
        for name in "abcd":
            change(scene, name)
        delete(scene, "e")
        put_at(scene, "1")
        scene.expire()
    leader = scene.leader(epoch="2")
    page = leader.stream.page

    def last_page(objects: Sequence[RawObject]) -> None:
        page(objects)
        leader.term.lasts = False

    monkeypatch.setattr(leader.stream, "page", last_page)
    leader.start()
    leader.join()
    assert isinstance(leader.error, LeaseLost)
    record = scene.record()
    assert record is not None
    assert record.position.startswith("~" if first else "1~")
    if not first:
        scene.expire()
    with scene.leading(epoch="3") as successor:
        assert scene.pending() == {scene.key(name): LOW for name in "abcde"}
        assert successor.stream.lists == 1
    assert set(scene.known()) == {scene.key(name) for name in ("abcde" if first else "abcd")}


def test_a_relist_enqueues_changed_and_vanished_objects(scene: Scene) -> None:
    """After 410 the list is compared with the known set: the unchanged stay alone."""
    create(scene, "same", "changed", "deleted")
    with scene.leading():
        scene.take()
    change(scene, "changed")
    delete(scene, "deleted")
    create(scene, "new")
    scene.expire()
    with scene.leading(epoch="2") as leader:
        eventually(lambda: leader.stream.lists == 1 and leader.stream.synced)
        assert scene.pending() == {scene.key(name): LOW for name in ("changed", "deleted", "new")}
    assert set(scene.known()) == {scene.key(name) for name in ("same", "changed", "new")}


def test_another_revision_enqueues_everything_once(scene: Scene) -> None:
    """The user's word that the logic changed: all objects at low priority, and back-offs stay."""
    create(scene, "a", "b")
    with scene.leading():
        scene.take()
    queue = Queue(QUEUE, scene.connection)
    queue.add_after(scene.key("b"), 1000)
    with scene.leading(epoch="2", revision="v2"):
        assert scene.take() == {scene.key("a"): LOW}
    with scene.leading(epoch="3", revision="v2") as leader:
        assert leader.stream.lists == 0
    with scene.leading(epoch="4") as leader:  # no revision given says nothing
        assert leader.stream.lists == 0
    assert scene.pending() == {}
    queue.shut_down()


def test_a_resync_comes_each_period(scene: Scene) -> None:
    """All objects again, at low priority; the time of the last one is the leaders' common one."""
    create(scene, "a")
    clock = FakeClock()
    with scene.leading(resync_period=100.0, clock=clock) as leader:
        scene.take()
        clock.step(89)
        assert leader.stream.lists == 1
    with scene.leading(epoch="2", resync_period=100.0, clock=clock) as leader:
        assert leader.stream.lists == 0
        clock.step(22)
        while leader.stream.lists == 0:
            clock.step(0.1)
            threading.Event().wait(0.01)
        assert scene.pending() == {scene.key("a"): LOW}


def test_the_mark_makes_the_leader_list(scene: Scene) -> None:
    """The mark is a request for a resync; the leader sees it within a second."""
    create(scene, "a")
    with scene.leading() as leader:
        scene.take()
        put_at(scene, MARK)
        eventually(lambda: leader.stream.lists == 2)
        assert scene.pending() == {scene.key("a"): LOW}


def test_a_resync_by_hand_makes_the_leader_list(scene: Scene) -> None:
    """Within a second, even during a commit; an item that backs off keeps its back-off."""
    create(scene, "a")
    with scene.leading() as leader:
        scene.take()
        assert Inspector(scene.connection).resync(QUEUE) == 1
        eventually(lambda: leader.stream.lists == 2)
        assert scene.pending() == {scene.key("a"): LOW}


@pytest.mark.conformance("RD-18")
def test_a_deposed_leader_is_fenced(scene: Scene) -> None:
    """Of two leaders at once the earlier stops at its next commit, and no event is lost between them."""
    create(scene, "a")
    with scene.leading(epoch="0") as old, scene.leading(epoch="1"):
        scene.take()
        create(scene, "b")
        eventually(old.ended)
        assert isinstance(old.error, LeaseLost)
        eventually(lambda: scene.key("b") in scene.pending())
        create(scene, "c")
        eventually(lambda: scene.pending().keys() == {scene.key("b"), scene.key("c")})


@pytest.mark.conformance("RD-18")
def test_nothing_is_committed_once_the_lease_may_have_passed_on(scene: Scene) -> None:
    """A leader that was not renewed in time does not act, though no other leader fenced it yet."""
    with scene.leading() as leader:
        leader.term.lasts = False
        create(scene, "a")
        eventually(leader.ended)
        assert isinstance(leader.error, LeaseLost)
        assert scene.pending() == {}
        leader.error = None


def test_a_restored_cluster_is_listed_whole(scene: Scene) -> None:
    """A checkpoint and an epoch from the future belong to a cluster that no longer exists."""
    create(scene, "a", "b")
    with scene.leading():
        scene.take()
    put_at(scene, "88888888888888888888", epoch="99999999999999999999")
    with scene.leading(epoch="2") as leader:
        assert leader.stream.lists == 1
        assert scene.take() == {scene.key("a"): LOW, scene.key("b"): LOW}
        create(scene, "c")
        eventually(lambda: scene.pending() == {scene.key("c"): 0})
    record = scene.record()
    assert record is not None
    assert record.epoch == "2"


@pytest.mark.conformance("RD-14")
def test_a_redis_that_went_back_is_noticed_and_replayed(scene: Scene) -> None:
    """A failover that loses commits loses no events, also when nothing happens any more."""
    create(scene, "a")
    with scene.leading() as leader:
        scene.take()
        dump = scene.dump()
        create(scene, "b")
        delete(scene, "a")
        eventually(lambda: len(scene.take()) + len(scene.known()) and set(scene.known()) == {scene.key("b")})
        scene.restore(dump)
        eventually(lambda: scene.pending().keys() == {scene.key("a"), scene.key("b")})
        assert leader.stream.lists == 1
        eventually(lambda: set(scene.known()) == {scene.key("b")})


def test_a_redis_that_forgot_a_revision_is_noticed(scene: Scene) -> None:
    """Also if the stream's version was the same before and after, since nothing had changed."""
    create(scene, "a", "b")
    with scene.leading(revision="v1"):
        scene.take()
    dump = scene.dump()
    with scene.leading(epoch="2", revision="v2") as leader:
        eventually(lambda: leader.stream.lists == 1 and leader.stream.synced)
        scene.take()
        scene.restore(dump)
        eventually(lambda: scene.pending().keys() == {scene.key("a"), scene.key("b")})


@pytest.mark.parametrize("position", ["foo", "57abc", "57abc~step"])
def test_a_checkpoint_that_is_no_version_is_replaced_by_a_list(scene: Scene, position: str) -> None:
    """The API server would refuse a watch from there, each time and for each leader."""
    create(scene, "a")
    with scene.leading() as leader:
        scene.take()
        streams = queue_key(QUEUE, "streams")
        scene.connection.execute("HSET", streams, leader.stream.name(), f"1 {position} another {{}}")
        create(scene, "b")
        eventually(lambda: scene.pending().keys() == {scene.key("a"), scene.key("b")})


@pytest.mark.conformance("RD-14")
def test_an_emptied_redis_is_filled_again(scene: Scene) -> None:
    """A wipe costs one list."""
    create(scene, "a", "b")
    with scene.leading() as leader:
        scene.connection.execute("FLUSHALL")
        eventually(lambda: scene.pending() == {scene.key("a"): LOW, scene.key("b"): LOW})
        eventually(lambda: leader.stream.synced)
        create(scene, "c")
        eventually(lambda: scene.pending().get(scene.key("c")) == 0)


def test_a_redis_that_is_away_is_waited_for(scene: Scene, redis_server: EmbeddedValkey) -> None:
    """Events that come during an outage are committed after it, once each."""
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        connection = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        with scene.leading(connection=connection) as leader:
            proxy.mode = "refuse"
            create(scene, "a", "b")
            delete(scene, "a")
            proxy.mode = "pass"
            eventually(lambda: scene.pending().keys() == {scene.key("a"), scene.key("b")})
            assert leader.stream.lists == 1
            eventually(lambda: leader.stream.enqueued == 2)
        connection.close()
    assert set(scene.known()) == {scene.key("b")}


def test_a_leader_stops_while_redis_is_away(scene: Scene, redis_server: EmbeddedValkey) -> None:
    """The process ends without waiting for the end of an outage."""
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        connection = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        with scene.leading(connection=connection):
            proxy.mode = "refuse"
            create(scene, "a")
        connection.close()


def test_a_newer_layout_ends_the_stream(scene: Scene) -> None:
    """What a newer version wrote is not touched, and waiting would not help."""
    with scene.leading():
        pass
    scene.connection.execute("HSET", f"distq:{{{QUEUE}}}:meta", "layout", 99)
    leader = scene.leader(epoch="2")
    leader.start()
    leader.join()
    assert isinstance(leader.error, LayoutTooNew)


def test_probes_are_a_second_apart(scene: Scene) -> None:
    """An idle leader commits once a second."""
    assert stream_module.PROBE_INTERVAL == 1.0
    clock = FakeClock()
    with scene.leading(clock=clock):
        batches = set()
        for _ in range(40):
            clock.step(0.1)
            record = scene.record()
            assert record is not None
            batches.add(record.batch)
            threading.Event().wait(0.02)
        assert 2 <= len(batches) <= 5
