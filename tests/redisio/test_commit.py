"""Handing a stream over: positions are compared and set, old leaders are fenced, batches count once."""

import itertools
from typing import Any

import pytest

from distq.errors import InvalidKey, RedisRefused
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.scores import decode_due
from distq.redisio.stream_store import Committed, Fenced, Mismatch, StreamStore, TooLarge, stream_records


class Leader:
    """Commits to one stream, each batch under a name of its own unless given otherwise."""

    def __init__(self, store: StreamStore, epoch: str = "100") -> None:
        self.store = store
        self.epoch = epoch
        self.batches = itertools.count()

    def commit(
        self, expected: str, new: str, *keys: str, **more: Any
    ) -> Committed | Fenced | Mismatch | TooLarge:
        """Commit keys, from one position to the next."""
        inputs = {"epoch": self.epoch, "batch": f"{self.epoch}-{next(self.batches)}"} | more
        record = self.store.load()
        position, last = (record.position, record.batch) if record else ("", "")
        after = last if position == expected else "elsewhere"
        return self.store.commit(Commit(after=after, new=new, keys=keys, **inputs))


@pytest.fixture
def stream(connection: Connection) -> StreamStore:
    """Make a stream of the queue foos, to which nothing was ever committed."""
    return StreamStore(connection, "foos", "pods")


@pytest.fixture
def queue(connection: Connection) -> QueueStore:
    """Look into the queue foos."""
    return QueueStore(connection, "foos")


def _position(stream: StreamStore) -> str | None:
    record = stream.load()
    return None if record is None else record.position


def _ready(queue: QueueStore) -> list[bytes]:
    (items,) = queue.read(("ZRANGE", "ready", 0, -1))
    return list(items)


def test_a_commit_enqueues_and_moves_in_one_step(stream: StreamStore, queue: QueueStore) -> None:
    """Keys in their order, the position, the known set, and the stream's description."""
    leader = Leader(stream)
    about = {"leader": "me", "lag": 0.5}
    known = {"a": "1", "b": "1\nteam/x"}
    assert leader.commit("", "3878", "b", "a", "b", known=known, about=about) == Committed(2)
    record = stream.load()
    assert record is not None
    assert (record.epoch, record.position, record.about) == ("100", "3878", about)
    assert _ready(queue) == [b"b", b"a"]
    assert dict(stream.known()) == known
    assert stream.known_of(["b", "c"]) == ["1\nteam/x", None]
    assert stream.known_of([]) == []
    assert stream.known_count() == 2


def test_a_commit_from_elsewhere_changes_nothing(stream: StreamStore, queue: QueueStore) -> None:
    """The answer has the stream's position."""
    leader = Leader(stream)
    assert leader.commit("5", "6", "a", known={"a": "1"}) == Mismatch("")
    assert stream.load() is None
    leader.commit("", "5")
    assert leader.commit("", "6", "a") == Mismatch("5")
    assert leader.commit("4", "6", "a", known={"a": "1"}, gone=["b"]) == Mismatch("5")
    assert (_position(stream), _ready(queue), dict(stream.known())) == ("5", [], {})


def test_a_batch_counts_once(stream: StreamStore, queue: QueueStore) -> None:
    """A resent one is confirmed, and adds nothing; after the next it is of the past."""
    leader = Leader(stream)
    assert leader.commit("", "5", "a", batch="b1") == Committed(1)
    queue.delete(["a"])
    assert leader.commit("", "5", "a", batch="b1") == Committed(0)
    assert _ready(queue) == []
    assert leader.commit("5", "6", batch="b2") == Committed(0)
    assert leader.commit("", "5", "a", batch="b1") == Mismatch("6")


def test_an_event_of_many_keys_is_several_commits(stream: StreamStore, queue: QueueStore) -> None:
    """All but the last stay at the old position."""
    leader = Leader(stream)
    leader.commit("", "5")
    assert leader.commit("5", "5", "a") == Committed(1)
    assert leader.commit("5", "6", "b") == Committed(1)
    assert (_position(stream), _ready(queue)) == ("6", [b"a", b"b"])


def test_a_probe_changes_nothing_but_the_leader(stream: StreamStore) -> None:
    """A commit without keys at the same position."""
    Leader(stream).commit("", "5")
    assert Leader(stream, "101").commit("5", "5", about={"leader": "new"}) == Committed(0)
    record = stream.load()
    assert record is not None
    assert (record.epoch, record.position, record.about) == ("101", "5", {"leader": "new"})


@pytest.mark.parametrize(
    ("old", "new"),
    [("99", "100"), ("100", "101"), ("9007199254740992", "9007199254740993"), ("9" * 38, "1" + "0" * 38)],
)
def test_a_leader_of_the_past_is_fenced(stream: StreamStore, queue: QueueStore, old: str, new: str) -> None:
    """Epochs are versions of the API server: digits of any length, compared as such."""
    assert Leader(stream, old).commit("", "5") == Committed(0)
    assert Leader(stream, new).commit("5", "6") == Committed(0)
    assert Leader(stream, old).commit("6", "7", "a", known={"a": "1"}) == Fenced(new)
    assert (_position(stream), _ready(queue), dict(stream.known())) == ("6", [], {})


def test_a_leader_after_time_travel_replaces_a_later_epoch(stream: StreamStore) -> None:
    """Only by naming the one that is stored."""
    Leader(stream, "900").commit("", "5")
    restored = Leader(stream, "300")
    assert restored.commit("5", "!", replaces="899") == Fenced("900")
    assert restored.commit("5", "!", replaces="900") == Committed(0)
    assert restored.commit("!", "!") == Committed(0)
    assert _position(stream) == "!"


def test_a_relist_is_a_chain(stream: StreamStore) -> None:
    """Each page follows the one before it; only the end is a plain position."""
    leader, rival = Leader(stream), Leader(stream, "101")
    leader.commit("", "5")
    assert leader.commit("5", "5~r1:1", "a") == Committed(1)
    assert leader.commit("5~r1:1", "5~r1:2", "b") == Committed(1)
    assert rival.commit("5~r1:2", "5~r2:1", "a") == Committed(0)
    assert rival.commit("5~r1:2", "9") == Mismatch("5~r2:1")
    assert leader.commit("5~r1:2", "5~r1:3", "c") == Fenced("101")
    assert rival.commit("5~r2:1", "9") == Committed(0)
    assert _position(stream) == "9"


def test_items_that_wait_for_later_are_kept_if_asked(stream: StreamStore, queue: QueueStore) -> None:
    """A list leaves delayed and dead items alone; an event does not."""
    queue.run("add_after", items=["later"], priority=3, max_length="", delay=60_000_000)
    queue.connection.execute("ZADD", queue.key("dead"), 1, "dead")
    queue.run("add", items=["ready"], priority=0, max_length="")
    leader = Leader(stream)
    keys = ("later", "dead", "ready", "new")
    assert leader.commit("", "5", *keys, priority=-100, keep_pending=True) == Committed(1)
    assert _ready(queue) == [b"ready", b"new"]
    assert leader.commit("5", "6", *keys) == Committed(2)
    assert _ready(queue) == [b"later", b"ready", b"dead", b"new"]


def test_a_commit_may_make_its_keys_pending_later(stream: StreamStore, queue: QueueStore) -> None:
    """Of several delays the earliest counts; an item pending now stays so, and a dead one waits, too."""
    connection, leader = queue.connection, Leader(stream)
    connection.server_time = 1_795_000_000_000_000
    now, second = connection.server_time, 1_000_000
    queue.run("add_after", items=["later"], priority=3, max_length="", delay=60 * second)
    queue.run("add_after", items=["sooner"], priority=-5, max_length="", delay=second)
    connection.execute("ZADD", queue.key("dead"), 1, "dead")
    queue.run("add", items=["ready"], priority=0, max_length="")
    keys = ("later", "sooner", "dead", "ready", "new")
    kept = leader.commit("", "5", *keys, "other", priority=-100, keep_pending=True, delay=30 * second)
    assert kept == Committed(2)
    assert _due(queue, now) == {"later": (3, 60), "sooner": (-5, 1), "new": (-100, 30), "other": (-100, 30)}
    assert leader.commit("5", "6", *keys, delay=20 * second) == Committed(1)
    assert _due(queue, now) == {
        "later": (3, 20),
        "sooner": (0, 1),
        "dead": (0, 20),
        "new": (0, 20),
        "other": (-100, 30),
    }
    assert _ready(queue) == [b"ready"]
    assert leader.commit("6", "7", "dead", keep_pending=True, delay=second) == Committed(0)
    assert _position(stream) == "7"


def _due(queue: QueueStore, now: int) -> dict[str, tuple[int, float]]:
    """Return the priority of each delayed item, and in how many seconds it is due."""
    (flat,) = queue.read(("ZRANGE", "delayed", 0, -1, "WITHSCORES"))
    scores = {item.decode(): decode_due(score) for item, score in zip(flat[::2], flat[1::2], strict=True)}
    return {item: (priority, (due - now) / 1e6) for item, (priority, due) in scores.items()}


def test_a_delayed_batch_counts_once(stream: StreamStore, queue: QueueStore) -> None:
    """A batch that is resent postpones and adds nothing."""
    leader = Leader(stream)
    queue.connection.server_time = 1_795_000_000_000_000
    assert leader.commit("", "5", "a", batch="one", delay=1_000_000) == Committed(1)
    before = _due(queue, 0)
    queue.connection.server_time += 500_000
    assert leader.commit("", "5", "a", batch="one", delay=1_000_000) == Committed(0)
    assert _due(queue, 0) == before


def test_a_worker_is_woken_for_the_next_due_time(stream: StreamStore, queue: QueueStore) -> None:
    """One token wakes one that sleeps, so that it sees to the first delay."""
    leader = Leader(stream)
    leader.commit("", "5", "a", delay=60_000_000)
    assert queue.read(("LLEN", "wake")) == [1]
    leader.commit("5", "6", "b", delay=1_000_000)
    assert queue.read(("LLEN", "wake")) == [1]


def test_an_object_that_is_gone_is_no_longer_known(stream: StreamStore) -> None:
    """A tombstone drops its field, together with what else the batch says."""
    leader = Leader(stream)
    leader.commit("", "5", known={"a": "1", "b": "1"})
    leader.commit("5", "6", "a", known={"c": "2"}, gone=["a", "unknown"])
    assert dict(stream.known()) == {"b": "1", "c": "2"}


def test_people_may_ask_for_everything_anew(stream: StreamStore) -> None:
    """The stream goes to the mark, keeps what is said of it, and its leader's next commit is a mismatch."""
    assert not stream.list_all()
    assert _position(stream) is None
    leader = Leader(stream)
    leader.commit("", "3878", known={"a": "1"}, about={"leader": "me"})
    last = stream.load()
    assert last is not None
    assert stream.list_all()
    record = stream.load()
    assert record is not None
    assert (record.position, record.epoch, record.about) == ("!", "100", {"leader": "me"})
    unaware = stream.commit(Commit(epoch="100", after=last.batch, new="3879", batch="b2", keys=["a"]))
    assert unaware == Mismatch("!")
    assert stream.known_of(["a"]) == ["1"]


def test_a_stream_is_wound_up(stream: StreamStore) -> None:
    """Its record goes with the last commit; it may begin anew."""
    leader = Leader(stream)
    leader.commit("", "5", known={"a": "1"})
    assert leader.commit("5", "", "a", gone=["a"]) == Committed(1)
    assert stream.load() is None
    assert stream.known_count() == 0
    assert leader.commit("", "7") == Committed(0)


def test_streams_of_a_queue_are_apart(stream: StreamStore, connection: Connection) -> None:
    """Each has its position and its known set."""
    other = StreamStore(connection, "foos", "nodes")
    Leader(stream).commit("", "5", known={"a": "1"})
    Leader(other, "7").commit("", "9", known={"a": "2"})
    records = stream_records(connection, "foos")
    assert {name: record.position for name, record in records.items()} == {"pods": "5", "nodes": "9"}
    assert (stream.known_of(["a"]), other.known_of(["a"])) == (["1"], ["2"])


def test_the_known_set_is_read_in_pages(stream: StreamStore) -> None:
    """Even if the known set is large."""
    leader = Leader(stream)
    leader.commit("", "5")
    for page in range(3):
        known = {f"ns/object-{page}-{n}": str(n) for n in range(1000)}
        assert leader.commit("5", "5", known=known) == Committed(0)
    assert len(dict(stream.known())) == stream.known_count() == 3000


def test_a_full_queue_takes_commits(stream: StreamStore, queue: QueueStore) -> None:
    """The informer is exempt from max_length: a key that it does not hand over would be lost."""
    assert queue.run("add", items=["a", "b"], priority=0, max_length=1) == [1, 1]
    assert Leader(stream).commit("", "5", "b", "c") == Committed(2)


def test_a_full_redis_takes_a_report_beside_the_last_batch(
    stream: StreamStore, connection: Connection
) -> None:
    """A leader shows that it leads and what fails; the next batch is refused, and comes again."""
    stream.commit(Commit(epoch="100", after="", batch="b1", new="5", about={"lag": 1}))
    batch = Commit(epoch="100", after="b1", batch="b2", new="6", keys=["a"])
    connection.execute("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(RedisRefused, match="is full"):
            stream.commit(batch)
        report = Commit(epoch="100", after="b1", batch="b1", new="5", about={"error": "full"})
        assert stream.commit(report) == Committed(0)
        assert stream.commit(Commit(epoch="100", after="b0", batch="b0", new="4")) == Mismatch("5")
    finally:
        connection.execute("CONFIG", "SET", "maxmemory", 0)
    record = stream.load()
    assert record is not None
    assert (record.position, record.batch, record.about) == ("5", "b1", {"error": "full"})
    assert stream.commit(batch) == Committed(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": [f"k{n}" for n in range(600)], "gone": [f"g{n}" for n in range(401)]},
        {"epoch": ""},
        {"epoch": "1 2"},
        {"batch": ""},
        {"new": "5 6"},
        {"keys": ["bad\nkey"]},
    ],
    ids="-".join,
)
def test_a_commit_that_makes_no_sense_is_refused(stream: StreamStore, wrong: dict[str, Any]) -> None:
    """Before Redis is asked."""
    right: dict[str, Any] = {"epoch": "1", "after": "", "new": "5", "batch": "b1"}
    with pytest.raises((ValueError, InvalidKey)):
        stream.commit(Commit(**right | wrong))
    assert stream.load() is None


def test_a_batch_may_be_as_large_as_a_script_takes(stream: StreamStore) -> None:
    """A thousand keys, or a thousand of anything else."""
    keys = [f"ns/object-{n}" for n in range(1000)]
    leader = Leader(stream)
    assert leader.commit("", "5", *keys) == Committed(1000)
    assert leader.commit("5", "6", known=dict.fromkeys(keys, "1")) == Committed(0)
    assert leader.commit("6", "7", gone=keys) == Committed(0)
    assert stream.known_count() == 0
