"""Two programs on one queue: the later one looks before it claims, names the other, and claims nothing."""

import json
import logging
from collections.abc import Callable, Sequence

import pytest

from distq.errors import QueueTaken
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import PresentPurpose, Purpose, QueueOwnership
from tests.support.counting_connection import CountingConnection
from tests.workqueue.conftest import ServerTime, beat

Make = Callable[..., Queue]

CONFIG_MAPS = Purpose("v1/ConfigMap", ["aa"])
SECRETS = Purpose("v1/Secret", ["aa"])


@pytest.fixture
def make(make_queue: Make, server_time: ServerTime) -> Callable[..., Queue]:
    """Make handles that say what they are for; the test moves all clocks, the server's and their own."""

    def make(purpose: Purpose | None, **arguments: object) -> Queue:
        queue = make_queue(clock=FakeClock(), **arguments)
        queue.purpose = None if purpose is None else lambda: purpose
        return queue

    return make


def pass_time(queue: Queue, seconds: float) -> None:
    """Move the clock of a handle's process."""
    assert isinstance(queue._clock, FakeClock)
    queue._clock.step(seconds)


def show_life(queue: Queue) -> None:
    """Send a heartbeat, some time after the last one."""
    pass_time(queue, 1.5)
    beat(queue)


def claimed(queue: Queue, want: int = 1) -> list[str]:
    """Make a turn; return the keys that it brought."""
    return [request.key for request in queue.turn([], want).requests]


def test_a_program_for_something_else_is_refused_with_both_named(make: Make) -> None:
    """It claims nothing at all; the error names the first program and its purpose."""
    first, second = make(CONFIG_MAPS), make(SECRETS)
    first.add("a", "b")
    assert claimed(first) == ["a"]
    assert claimed(second) == []
    show_life(first)
    with pytest.raises(QueueTaken) as caught:
        second.turn([], 1)
    message = str(caught.value)
    assert message.startswith(f"queue foos is taken: {first.worker} (pid ")
    assert "is on it for v1/ConfigMap of cluster aa, this process for v1/Secret of cluster aa. " in message
    assert message.endswith("or the Controller shared=True.")
    assert second.held() == 0
    assert claimed(first) == ["b"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Purpose("v1/ConfigMap", ["aa"]), Purpose("v1/ConfigMap", ["bb"])),
        (Purpose("a.example.com/v1/Foo"), Purpose("b.example.com/v1/Foo")),
        (Purpose("apps/v1/Deployment", ["aa"]), Purpose("apps/v1/StatefulSet")),
    ],
)
def test_programs_for_different_resources_conflict(ours: Purpose, theirs: Purpose, make: Make) -> None:
    """The cluster, the group or the kind."""
    first, second = make(ours), make(theirs)
    first.add("a")
    first.turn([], 0)  # opens its session and claims nothing, as a process that pauses
    assert claimed(second) == []
    show_life(first)
    with pytest.raises(QueueTaken):
        second.turn([], 1)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Purpose("apps/v1beta1/Deployment", ["aa"]), Purpose("apps/v1/Deployment", ["aa"])),
        (Purpose("v1/ConfigMap", ["old"]), Purpose("v1/ConfigMap", ["old", "new"])),
        (Purpose("v1/ConfigMap", ["old", "new"]), Purpose("v1/ConfigMap", ["new"])),
        (Purpose("v1/ConfigMap", ["aa"]), Purpose("v1/ConfigMap")),
        (Purpose("v1/ConfigMap"), None),
        (None, Purpose("v1/ConfigMap")),
    ],
)
def test_programs_for_the_same_resource_do_not_conflict(
    ours: Purpose | None, theirs: Purpose | None, make: Make
) -> None:
    """Another version of the resource, a rotation of authorities, unknown authorities, and no purpose."""
    first, second = make(ours), make(theirs)
    first.add("a", "b")
    assert claimed(first) == ["a"]
    assert claimed(second) == ["b"]


def test_a_worker_of_0_1_0_is_no_other_program(make: Make, connection: Connection) -> None:
    """Its description says nothing of this; an unreadable one says nothing either."""
    first = make(None)
    first.add("a")
    first.turn([], 0)
    about = json.loads(connection.execute("HVALS", "distq:{foos}:workers")[0])
    assert {"id", "host", "pid", "version", "done", "heartbeat"} <= about.keys()
    assert "purpose" not in about
    illegible: Sequence[str] = ["", "[1]", '{"purpose": 1}', '{"purpose": {"resource": 1}}', "\udcff"]
    for number, text in enumerate(illegible, 1):
        connection.execute("HSET", "distq:{foos}:workers", number, text.encode(errors="surrogateescape"))
        connection.execute("HSET", "distq:{foos}:streams", number, text.encode(errors="surrogateescape"))
    assert claimed(make(SECRETS)) == ["a"]
    connection.execute("DEL", "distq:{foos}:workers")


def test_the_session_of_a_program_that_died_lapses(make: Make, server_time: ServerTime) -> None:
    """Nothing that lives is in the way: the new program begins once the claims of the dead one are over."""
    dead, heir = make(CONFIG_MAPS), make(SECRETS)
    dead.add("a", "b")
    assert claimed(dead) == ["a"]
    for _ in range(4):
        assert claimed(heir) == []
        server_time.advance(9.0)
    assert claimed(heir, 2) == ["a", "b"]


def test_one_that_waits_keeps_no_place(make: Make, connection: Connection) -> None:
    """It stops no other: a worker that starts meanwhile for the same as the first one works at once."""
    first, waiting, another = make(CONFIG_MAPS), make(SECRETS), make(CONFIG_MAPS)
    first.add("a", "b")
    assert claimed(first) == ["a"]
    assert claimed(waiting) == []
    assert [worker.name for worker in Inspector(connection).workers("foos")] == [first.worker]
    assert claimed(another) == ["b"]


def test_rare_heartbeats_are_no_silence(make: Make) -> None:
    """A worker waits until the other must have shown life, even if its own claim duration is shorter."""
    idle, with_short_timeouts = make(CONFIG_MAPS), make(SECRETS, claim_duration=1.0)
    idle.add("a")
    idle.turn([], 0)
    assert claimed(with_short_timeouts) == []
    pass_time(with_short_timeouts, 12.0)
    assert claimed(with_short_timeouts) == []
    show_life(idle)
    with pytest.raises(QueueTaken):
        with_short_timeouts.turn([], 1)


def test_an_informer_waits_no_longer_than_a_worker_may_be_silent(make: Make, connection: Connection) -> None:
    """Where no worker is left none lets the dead ones lapse, and it must not wait for that for ever."""
    make(CONFIG_MAPS).turn([], 0)
    clock = FakeClock()
    informer = QueueOwnership(QueueStore(connection, "foos"), clock)
    for _ in range(30):
        assert not informer.look(SECRETS)
        clock.step(1.0)
    assert informer.look(SECRETS)


def test_an_outage_counts_as_silence_of_no_session(make: Make) -> None:
    """The first to look when Redis is back finds no new sign of life: there could be none."""
    first, second = make(CONFIG_MAPS), make(SECRETS)
    first.add("a")
    first.turn([], 0)
    assert claimed(second) == []
    pass_time(second, 600.0)
    assert claimed(second) == []
    show_life(first)
    with pytest.raises(QueueTaken):
        second.turn([], 1)


def test_one_that_waits_leaves_the_tokens_to_others(make: Make, connection: Connection) -> None:
    """It is not woken for items that it may not claim."""
    first, second = make(CONFIG_MAPS), make(SECRETS)
    first.turn([], 0)
    assert second.turn([], 1).wait == 1.0
    connection.execute("RPUSH", "distq:{foos}:wake", 1)
    second.wait(0.05)
    assert connection.execute("LLEN", "distq:{foos}:wake") == 1


@pytest.mark.parametrize("looks_first", [0, 1])
def test_of_two_that_begin_at_once_one_goes_on(looks_first: int, make: Make) -> None:
    """Both have said what they are for before either looks: the later one gives way, in any order."""
    pair = make(CONFIG_MAPS), make(SECRETS)
    pair[0].add("a")
    for queue in pair:
        queue.turn([], 0)
    brought = {place: claimed(pair[place]) for place in (looks_first, 1 - looks_first)}
    assert brought == {0: ["a"], 1: []}
    show_life(pair[0])
    with pytest.raises(QueueTaken):
        pair[1].turn([], 1)


def test_a_fleet_that_had_lapsed_waits_instead_of_ending(
    make: Make, server_time: ServerTime, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that has worked before reports this, claims nothing, and goes on when the intruder is gone."""
    ours, intruder = make(CONFIG_MAPS), make(SECRETS)
    ours.add("a", "b")
    assert claimed(ours) == ["a"]
    intruder.turn([], 0)
    server_time.lapse(intruder)
    assert claimed(intruder) == ["a"]
    with caplog.at_level(logging.WARNING, logger="distq.queue"):
        for _ in range(5):
            show_life(intruder)
            pass_time(ours, 25.0)
            assert claimed(ours) == []
    said = [record for record in caplog.messages if "claiming nothing" in record]
    assert 2 <= len(said) <= 3
    assert f"{intruder.worker} (pid " in said[0]
    intruder.close()
    assert claimed(ours, 2) == ["a", "b"]


def test_a_wipe_of_redis_ends_no_process(make: Make, connection: Connection) -> None:
    """All of a fleet open anew, in any order, for the same as before."""
    fleet = [make(CONFIG_MAPS) for _ in range(3)]
    fleet[0].add("a")
    assert [claimed(queue) for queue in fleet] == [["a"], [], []]
    connection.execute("FLUSHALL")
    fleet[0].add("b", "c", "d")
    assert [claimed(queue) for queue in reversed(fleet)] == [["b"], ["c"], ["d"]]


def test_a_lost_session_claims_nothing_before_it_has_looked(make: Make, connection: Connection) -> None:
    """Not in the very turn that opens the next one either."""
    ours, other = make(CONFIG_MAPS), make(SECRETS)
    ours.add("a")
    assert claimed(ours) == ["a"]
    connection.execute("FLUSHALL")
    other.add("b", "c")
    assert claimed(other) == ["b"]
    assert claimed(ours) == []


@pytest.mark.parametrize("second", ["b2", "b1"], ids=["a batch", "a report while Redis is full"])
def test_a_program_whose_informer_lives_is_in_the_way(
    second: str, make: Make, connection: Connection
) -> None:
    """Its keys are on their way, though none of its workers is there; one that left is not."""
    worker, now = make(SECRETS), connection.now()

    def commit(batch: str, after: str, **about: object) -> None:
        said = {"leader": "them", "seen": now, "lease": 15, **CONFIG_MAPS.about(), **about}
        StreamStore(connection, "foos", "s").commit(
            Commit(epoch="1", after=after, new="7", batch=batch, about=said)
        )

    worker.add("a")
    commit("b1", "")
    assert claimed(worker) == []
    commit(second, "b1", seen=now + 1)
    with pytest.raises(QueueTaken, match="the informer them is on it for v1/ConfigMap"):
        worker.turn([], 1)
    worker.close()
    commit("b3", second, left=True)
    assert claimed(worker) == ["a"]


def test_other_watches_or_another_lease_are_mentioned_once(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """A rolling update passes; a difference that may mean another program is named nevertheless."""
    before = Purpose("v1/ConfigMap", (), "distq-foos", ("For v1/ConfigMap",))
    old, older = make(before), make(before)
    new = make(Purpose("v1/ConfigMap", (), "distq-bars", ("For v1/ConfigMap", "Owns v1/Pod")))
    old.add("a", "b")
    assert claimed(old) == ["a"]
    older.turn([], 0)
    with caplog.at_level(logging.WARNING, logger="distq.queue"):
        assert claimed(new) == ["b"]
        assert claimed(new) == []
    (said,) = caplog.messages
    assert f"{old.worker} (pid " in said or f"{older.worker} (pid " in said
    assert "has the Lease distq-foos and watches For v1/ConfigMap, " in said
    assert "this process the Lease distq-bars and watches For v1/ConfigMap, Owns v1/Pod;" in said


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        ("", "distq-foos", None),  # a worker competes for no Lease, and has no option that names one
        ("distq-foos", "", None),
        ("mine", "distq-foos", "has the Lease mine, this process the Lease distq-foos; "),
    ],
)
def test_another_queue_is_no_remedy_for_another_lease(
    make: Make, caplog: pytest.LogCaptureFixture, theirs: str, ours: str, said: str | None
) -> None:
    """Programs that watch the same are one program: their informers compete for one Lease."""
    old, new = (make(Purpose("v1/ConfigMap", (), lease, ("For v1/ConfigMap",))) for lease in (theirs, ours))
    old.turn([], 0)
    new.add("a")
    with caplog.at_level(logging.WARNING, logger="distq.queue"):
        assert claimed(new) == ["a"]
    assert len(caplog.messages) == (said is not None)
    for message in caplog.messages:
        assert str(said) in message
        assert message.endswith("else use one --lease-name (DISTQ_LEASE_NAME) for both")


@pytest.mark.usefixtures("connection")  # it empties the server
def test_a_look_is_one_round_trip(redis_server: EmbeddedValkey) -> None:
    """Sessions and leaders are read together, for every program that works on the queue."""
    connection = CountingConnection(redis_server.url)
    ownership = QueueOwnership(QueueStore(connection, "foos"), FakeClock())
    assert ownership.look(CONFIG_MAPS)
    before = connection.round_trips
    assert ownership.look(CONFIG_MAPS)
    assert connection.round_trips == before + 1
    connection.close()


def test_looking_costs_one_read_at_the_start(make: Make, connection: Connection) -> None:
    """Turns that follow ask Redis nothing but to settle and to claim."""
    queue = make(CONFIG_MAPS)
    claimed(queue)
    connection.execute("CONFIG", "RESETSTAT")
    for _ in range(3):
        claimed(queue)
    stats = connection.execute("INFO", "commandstats")
    assert b"cmdstat_evalsha:calls=3," in stats
    assert b"cmdstat_hgetall" not in stats


def test_a_cluster_is_looked_at_anew_each_minute() -> None:
    """So processes that live long have what short ones see, when authorities are replaced one by one."""
    clock, authorities = FakeClock(), ["old"]
    present = PresentPurpose(Purpose("v1/ConfigMap"), lambda: tuple(authorities), clock)
    assert present().cluster == ("old",)
    authorities.append("new")
    clock.step(59.0)
    assert present().cluster == ("old",)
    clock.step(1.0)
    assert present().cluster == ("old", "new")
