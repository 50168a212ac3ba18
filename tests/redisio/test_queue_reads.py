"""Plain reads of a queue: right for any contents, in round trips that do not depend on them."""

import random

import pytest

from distq.errors import InvalidKey, RedisRefused, TerminalError
from distq.redisio import queue_reads
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.round_trips import Read, gather, run
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.counting_connection import CountingConnection
from tests.support.monitored import commands_of

START = 1_795_000_000_000_000


@pytest.fixture
def counting(redis_server: EmbeddedValkey, connection: Connection) -> CountingConnection:
    """Give a connection that counts, to the test's database."""
    return CountingConnection(redis_server.url)


def _sum_of(*commands: tuple[str, str]) -> Read[int]:
    """Read one command a round trip."""
    total = 0
    for command in commands:
        (number,) = yield [command]
        total += int(number or 0)
    return total


def test_equal_reads_are_asked_once(
    counting: CountingConnection, connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """Each receives the reply."""
    counting.execute("SET", "k", 3)
    with commands_of(redis_server.url, connection) as asked:
        assert run(counting, gather(_sum_of(("GET", "k"), ("GET", other)) for other in "kk")) == [6, 6]
    assert len(asked) == 2


def test_reads_side_by_side_share_their_round_trips(counting: CountingConnection) -> None:
    """Each receives its own replies, also where others end before it; results keep their order."""
    for number in range(4):
        counting.execute("SET", f"k{number}", number)
    names = ["k0", "k1", "k2", "k3"]
    reads = [_sum_of(*(("GET", name) for name in names[:length])) for length in (3, 0, 1, 4)]
    counting.round_trips = 0
    assert run(counting, gather(reads)) == [3, 0, 0, 6]
    assert counting.round_trips == 4
    assert run(counting, gather([])) == []
    assert run(counting, gather([gather([_sum_of(("GET", "k3"))]), gather([])])) == [[3], []]
    assert counting.round_trips == 5


def test_an_error_reply_is_raised_and_leaves_the_connection_usable(counting: CountingConnection) -> None:
    """One key of a wrong type fails all that share the round trip; the next read receives its own replies."""
    counting.execute("SET", "k1", 1)
    reads = [_sum_of(("HLEN", "k1")), _sum_of(("GET", "k1"))]
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        run(counting, gather(reads))
    assert run(counting, _sum_of(("GET", "k1"))) == 1


@pytest.mark.parametrize(
    ("priorities", "round_trips"), [(1, 1), (2, 3), (3, 3), (30, 4), (400, 5), (1800, 5)]
)
def test_the_head_of_each_priority_is_found_in_five_round_trips(
    connection: Connection, counting: CountingConnection, priorities: int, round_trips: int
) -> None:
    """In any number and spread of priorities, the highest and the lowest possible included."""
    dice, queue = random.Random(priorities), Queue("foos", connection)
    chosen = [900, -900, *dice.sample(range(-899, 899), 1797)][:priorities]
    expected: dict[int, int] = {}
    for number, priority in enumerate(chosen + chosen):
        connection.server_time = START + number * 1000
        queue.add(f"{number}", priority=priority)
        expected.setdefault(priority, connection.server_time)
    store = QueueStore(counting, "foos")
    found = run(counting, queue_reads.heads(store, "ready"))
    assert found == pytest.approx(expected, abs=priorities)  # each add takes a µs of its own
    assert list(found) == sorted(expected, reverse=True)
    assert counting.round_trips <= round_trips
    assert run(counting, queue_reads.heads(store, "dirty")) == {}
    levels = run(counting, queue_reads.levels(store, [*chosen, 899]))
    two_each = {priority: (2, since_us) for priority, since_us in found.items()}
    assert {at: (level.ready, level.since_us) for at, level in levels.items()} == {**two_each, 899: (0, None)}


def test_the_questions_of_client_gos_queue_are_answered(connection: Connection) -> None:
    """Depth counts ready, dirty and due items; a key's failures and its dirty flag are its own."""
    connection.server_time = START
    queue = Queue("foos", connection)
    assert queue.depth() == queue.num_requeues("a") == 0
    queue.add("parked", "again", "ready")
    queue.settle(queue.get(), TerminalError("no"))
    queue.get()
    queue.add("again")
    queue.add("later", after=5.0)
    assert queue.depth() == 2
    assert (queue.is_dirty("again"), queue.is_dirty("ready")) == (True, False)
    assert queue.num_requeues("parked") == 1
    connection.server_time += 4_999_000
    assert queue.depth() == 2
    connection.server_time += 1_000
    assert queue.depth() == 3
    for read in (queue.num_requeues, queue.is_dirty):
        with pytest.raises(InvalidKey):
            read("")
    queue.close()


def test_a_scan_finds_all_in_batches(connection: Connection) -> None:
    """Of a sorted set and of a hash, a small one included, which Redis hands over whole."""
    queue, store = Queue("foos", connection), QueueStore(connection, "foos")
    keys = [f"key-{number:04}" for number in range(1200)]
    queue.add(*keys)
    while queue.turn([], 250).requests:
        pass
    for structure in ("processing", "claims"):
        batches = list(queue_reads.scan(store, structure, count=100))
        assert max(map(len, batches)) <= 100
        assert {key.decode() for batch in batches for key, _ in batch} == set(keys)
        matching = {key for batch in queue_reads.scan(store, structure, "key-00*") for key, _ in batch}
        assert len(matching) == 100
    assert [each for batch in queue_reads.scan(store, "dirty") for each in batch] == []
    queue.close()
