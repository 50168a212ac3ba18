"""In a cluster each queue is followed to the node that has its slot, wherever it moves."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from distq.config import Settings
from distq.dashboard import create_app
from distq.errors import RedisRefused, RedisUnavailable
from distq.inspector import Inspector
from distq.redisio import registration
from distq.redisio.cluster import slot_of
from distq.redisio.connection import Argument, Connection
from distq.redisio.keys import queue_key, queues_key
from distq.redisio.queue_store import queue_names
from distq.redisio.roles import user_of
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.redis_servers import KINDS, server_of
from tests.support.redis_topologies import Cluster, raw
from tests.workqueue.fleet_under_load import FleetUnderLoad


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Run three primaries and a replica of each."""
    with Cluster(server_of(request.param)) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    """Give a Connection to a cluster with nothing in it."""
    for port in {cluster.owner(slot) for slot in (0, 8000, 16000)}:
        raw(port)("FLUSHALL")
    connection = Connection(cluster.url)
    yield connection
    connection.close()


def slot_of_queue(name: str) -> int:
    """Return the slot of a queue's keys."""
    return slot_of(queue_key(name, "ready"))


def name_of_queue_on(cluster: Cluster, port: int, *, but: str = "") -> str:
    """Return the name of a queue that is on this node."""
    names = (f"queue-{number}" for number in range(1000))
    return next(name for name in names if name != but and cluster.owner(slot_of_queue(name)) == port)


def other_primary(cluster: Cluster, port: int) -> int:
    """Return the port of another primary."""
    return next(owner for slot in (0, 8000, 16000) if (owner := cluster.owner(slot)) != port)


def test_queues_live_on_the_nodes_of_their_slots(cluster: Cluster, connection: Connection) -> None:
    """Each is added to, worked off and read, on whichever of the nodes it is."""
    for port in {cluster.owner(slot) for slot in (0, 8000, 16000)}:
        queue = Queue(name_of_queue_on(cluster, port), connection)
        queue.add("a", "b")
        assert raw(port)("ZCARD", queue_key(queue.name, "ready")) == 2
        request = queue.get(5)
        assert queue.settle(request)
        queue.close()
    inspector = Inspector(connection)
    assert [info.ready for info in inspector.queues()] == [1, 1, 1]
    assert create_app(inspector).test_client().get("/0/data/queues.json").status_code == 200
    assert not [finding for finding in connection.check() if finding.startswith("FAIL")]


def test_a_read_of_many_queues_goes_to_each_node_once(
    cluster: Cluster, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of many queues; and a slot that has moved costs its own commands a second try."""
    names = [f"queue-{number}" for number in range(30)]
    for name in names:
        Queue(name, connection).add("a")
    reads = [("ZCARD", queue_key(name, "ready")) for name in names]
    sent: list[int] = []
    together = Connection._together

    def counted(
        self: Connection, asked: Sequence[Sequence[Argument]], *, keep_refusals: bool
    ) -> list[object]:
        sent.append(len(asked))
        return together(self, asked, keep_refusals=keep_refusals)

    monkeypatch.setattr(Connection, "_together", counted)
    assert connection.pipeline(reads) == [1] * 30
    assert len(sent) == 3
    slot = slot_of_queue(names[7])
    target = other_primary(cluster, cluster.owner(slot))
    source = cluster.begin_move(slot, target)
    cluster.move_keys(slot, source, target)
    cluster.end_move(slot, target)
    assert connection.pipeline(reads) == [1] * 30


def test_a_queue_goes_on_while_the_node_of_all_names_is_down(
    cluster: Cluster, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That key is for people alone, and in another slot; they see the queue once the node is back."""
    execute = Connection.execute

    def without_names(self: Connection, *command: Argument, near: str | None = None) -> Any:
        if queues_key(self.prefix) in command:
            raise RedisUnavailable("no answer from the node of the names")
        return execute(self, *command, near=near)

    queue = Queue("foos", connection)
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "execute", without_names)
        patch.setattr(registration, "REGISTRATION_PERIOD", 0.0)
        queue.add("a")
        assert queue.settle(queue.get(10))
        queue.close()
    assert queue_names(connection) == []
    known = Queue("foos", connection)
    known.add("c")
    assert queue_names(connection) == ["foos"]


def test_the_end_of_a_handle_does_not_look_whether_its_queue_is_known(redis_server: EmbeddedValkey) -> None:
    """It has a connection of its own, and relies on what the handle saw."""
    connection = Connection(redis_server.url)
    connection.execute("FLUSHALL")
    queue = Queue("foos", connection)
    queue.add("a")
    assert queue.settle(queue.get(10))
    connection.execute("CONFIG", "RESETSTAT")
    queue.close()
    assert b"cmdstat_hexists" not in connection.execute("INFO", "commandstats")
    connection.close()


def test_a_slot_that_moves_under_load_takes_its_queue_along(cluster: Cluster, connection: Connection) -> None:
    """ASK and TRYAGAIN meanwhile, MOVED afterwards; nothing acknowledged is lost, and the queue goes on."""
    Queue("foos", connection).add("begun")
    slot = slot_of_queue("foos")
    with FleetUnderLoad(cluster.url) as fleet:
        fleet.wait_for_progress()
        target = other_primary(cluster, cluster.owner(slot))
        source = cluster.begin_move(slot, target)
        cluster.move_keys(slot, source, target, at_most=2)  # two of its keys: TRYAGAIN
        with pytest.raises(RedisUnavailable, match="is not ready: "):
            Queue("foos", Connection(cluster.url)).add("between")
        while raw(source)("CLUSTER", "COUNTKEYSINSLOT", slot):
            cluster.move_keys(slot, source, target)
        cluster.end_move(slot, target)
        fleet.wait_for_progress()
        assert raw(target)("CLUSTER", "COUNTKEYSINSLOT", slot)
    assert fleet.finish() == []


def test_one_key_of_a_slot_that_moves_is_read_where_it_is(cluster: Cluster, connection: Connection) -> None:
    """Which the node that it leaves says for this once."""
    queue = Queue("bars", connection)
    queue.add("a")
    slot = slot_of_queue("bars")
    target = other_primary(cluster, cluster.owner(slot))
    source = cluster.begin_move(slot, target)
    cluster.move_keys(slot, source, target)
    assert queue.depth() == 1
    cluster.end_move(slot, target)
    assert queue.depth() == 1


def test_the_owner_of_a_slot_dies_and_its_replica_takes_over(
    cluster: Cluster, connection: Connection
) -> None:
    """Producers, claims and sleepers go on there."""
    Queue("foos", connection).add("begun")
    slot = slot_of_queue("foos")
    with FleetUnderLoad(cluster.url) as fleet:
        fleet.wait_for_progress()
        dead = cluster.owner(slot)
        cluster.kill(dead)
        eventually(lambda: cluster.owner(slot) not in (0, dead))
        fleet.wait_for_progress()
    fleet.finish()


@pytest.mark.parametrize("node", range(3))
def test_a_sleeper_is_woken_where_its_queue_is(cluster: Cluster, connection: Connection, node: int) -> None:
    """By a token, and by an interrupt, on each of the nodes."""
    port = cluster.owner((0, 8000, 16000)[node])
    queue = Queue(name_of_queue_on(cluster, port), connection)
    got: list[str] = []
    waiting = threading.Thread(
        target=lambda: got.extend(request.key for request in queue.listen()), daemon=True
    )
    waiting.start()
    eventually(lambda: b"cmd=blpop" in raw(port)("CLIENT", "LIST"))
    queue.add("a")
    eventually(lambda: got == ["a"])
    queue.shut_down()
    waiting.join(60)
    assert not waiting.is_alive()
    queue.close()


def test_a_user_of_its_own_may_follow_its_queue(cluster: Cluster, connection: Connection) -> None:
    """The rule for a cluster's URL has what it takes to ask for the slots, and to follow one that moves."""
    rule = user_of(["worker"], prefix="distq", queues=["foos"], cluster=True).split()
    for port in cluster.servers:
        raw(port)(*rule)
    settings = Settings(redis_username=rule[2], redis_password="PASSWORD")
    limited = Connection(cluster.url, settings=settings)
    queue = Queue("foos", limited)
    queue.add("a", "b")
    assert queue.settle(queue.get(10))
    slot = slot_of_queue("foos")
    target = other_primary(cluster, cluster.owner(slot))
    source = cluster.begin_move(slot, target)
    while raw(source)("CLUSTER", "COUNTKEYSINSLOT", slot):
        cluster.move_keys(slot, source, target)
    assert queue.connection.execute("ZCARD", queue_key("foos", "ready")) == 1
    cluster.end_move(slot, target)
    assert queue.get(10).key == "b"
    queue.close()
    limited.close()
    for port in cluster.servers:
        raw(port)("ACL", "DELUSER", rule[2])


def test_a_server_that_is_no_cluster_is_refused() -> None:
    """By its name, and with the scheme that fits."""
    with EmbeddedValkey(server=server_of("redis7")) as server:
        url = f"redis+cluster://127.0.0.1:{server.port}"
        with pytest.raises(RedisRefused) as caught:
            Connection(url).execute("HGET", queues_key("distq"), "a")
        assert str(caught.value) == (
            f"no node of the cluster 127.0.0.1:{server.port} reports its slots: "
            f"127.0.0.1:{server.port} answered "
            "This instance has cluster support disabled. Check its URL; redis:// is for one server."
        )
        assert Connection(url).check() == [f"FAIL  {caught.value}"]
    with pytest.raises(RedisUnavailable, match=r"no node of the cluster 127\.0\.0\.1:1 reports its slots"):
        Connection("redis+cluster://127.0.0.1:1").now()
