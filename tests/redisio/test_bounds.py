"""No script works for long: any request goes in steps, or is refused before Redis is asked."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.limits import BATCH_LIMIT, REPAIR_LIMIT, TURN_LIMIT
from distq.redisio.stream_store import Committed, StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Retry, Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.request import Request

KEYS = [f"key-{n:04}" for n in range(2300)]


class Measured(Connection):
    """A Connection that keeps how many items each call of a script was given."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.items: dict[str, list[int]] = defaultdict(list)
        self._scripts = {scripts.load(name).sha: scripts.load(name) for name in scripts.names()}

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> object:
        """Run a script, and count."""
        script = self._scripts[sha]
        if script.last_is_list:
            others = 1 + len(script.keys) + len(script.arguments) - 1
            self.items[script.name].append(len(arguments) - others)
        return super().evaluate(source, sha, arguments, *meanwhile)


@pytest.fixture
def measured(redis_server: EmbeddedValkey, connection: Connection) -> Measured:
    """Give a Connection to the emptied server that measures."""
    return Measured(redis_server.url)


@pytest.mark.bound("BATCH_LIMIT")
def test_adds_go_in_steps(measured: Measured) -> None:
    """At most a thousand items a script, and all of them in the end."""
    queue = Queue("foos", measured)
    assert queue.add(*KEYS) == len(KEYS)
    assert queue.add(*KEYS, after=100) == 0
    assert queue.add(*(f"later-{key}" for key in KEYS), after=100) == len(KEYS)
    assert measured.items["add"] == [BATCH_LIMIT, BATCH_LIMIT, 300]
    assert measured.items["add_after"] == [BATCH_LIMIT, BATCH_LIMIT, 300] * 2
    assert BATCH_LIMIT == 1000


@pytest.mark.bound("REPAIR_LIMIT", "SCAN_LIMIT")
@pytest.mark.parametrize("chosen", ["named", "by state"])
def test_repairs_go_in_steps(measured: Measured, chosen: str) -> None:
    """At most 250 items a script, named or of a state, and all of them in the end."""
    queue, inspector = Queue("foos", measured), Inspector(measured)
    queue.add(*KEYS, after=100)
    assert inspector.park("foos", *KEYS) == len(KEYS)
    if chosen == "named":
        assert inspector.requeue("foos", *KEYS) == inspector.delete("foos", *KEYS) == len(KEYS)
    else:
        assert inspector.requeue("foos", state="dead") == inspector.delete("foos", state="ready") == len(KEYS)
    for name in ("park", "requeue", "delete"):
        assert sum(measured.items[name]) >= len(KEYS)
        assert max(measured.items[name]) <= REPAIR_LIMIT <= 1000
    assert inspector.queues("foos")[0].ready == 0


@pytest.mark.bound("TURN_LIMIT")
def test_a_turn_of_many_threads_goes_in_steps(measured: Measured) -> None:
    """At most 250 settlements and 250 claims a turn, for any outcomes and any number of threads."""
    nothing_comes_back = ItemExponentialFailureRateLimiter(base_delay=60)
    queue = Queue("foos", measured, rate_limiter=nothing_comes_back)
    queue.add(*KEYS[:1000])
    for entries, want in (
        ([], TURN_LIMIT + 1),
        ([Settlement(Request("a"), Success())] * (TURN_LIMIT + 1), 0),
    ):
        with pytest.raises(ValueError, match="at most 250 each way"):
            queue.turn(entries, want)
    assert measured.items["turn"] == []

    def work() -> None:
        requests = queue.turn([], TURN_LIMIT).requests
        outcomes = [Success() if n % 2 else Retry("no luck") for n in range(len(requests))]
        turn = queue.turn([Settlement(*pair) for pair in zip(requests, outcomes, strict=True)], 0)
        assert {disposition.kind for disposition in turn.dispositions} == {"ended", "delayed"}

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work) for _ in range(4)]:
            done.result()
    assert max(measured.items["turn"]) <= 125 * len(("item", "fence")) + 125 * 6
    info = Inspector(measured).queues("foos")[0]
    assert (info.ready, info.processing, info.delayed) == (0, 0, 500)
    queue.close()


def test_many_items_are_written_without_a_search(connection: Connection) -> None:
    """Redis looks through a small set or hash for each member: many items come into one that is a table."""

    def found(name: str) -> tuple[bytes, list[bytes]]:
        key = f"distq:{{foos}}:{name}"
        members = ("HKEYS", key) if name == "claims" else ("ZRANGE", key, 0, -1)
        return connection.execute("OBJECT", "ENCODING", key), sorted(connection.execute(*members))

    some = [key.encode() for key in KEYS[:50]]
    queue = Queue("foos", connection)
    queue.add(*KEYS[:50])
    assert found("ready") == (b"skiplist", some)
    claims = queue.turn([], TURN_LIMIT).requests
    assert found("claims") == (b"hashtable", some)
    assert found("processing") == (b"skiplist", some)
    queue.turn([Settlement(request, Retry("no", delay=60.0)) for request in claims], 0)
    connection.server_time = int((connection.now() + 61) * 1e6)
    (first,) = queue.turn([], 1).requests
    assert found("ready") == (b"skiplist", [key for key in some if key != first.key.encode()])


@pytest.mark.bound("BATCH_LIMIT")
def test_a_large_commit_is_refused_before_redis_is_asked(measured: Measured) -> None:
    """The leader cuts an event with many keys into several batches; a batch is never half done."""
    stream = StreamStore(measured, "foos", "pods")
    known = {f"object-{n}": "1" for n in range(400)}
    with pytest.raises(ValueError, match="a commit of 500 keys, 400 known, 101 gone, 0 cached"):
        stream.commit(
            Commit(epoch="1", after="", new="1", batch="a", keys=KEYS[:500], known=known, gone=KEYS[:101])
        )
    assert measured.items == {}
    assert stream.commit(
        Commit(epoch="1", after="", new="1", batch="a", keys=KEYS[:500], known=known, gone=KEYS[:100])
    ) == Committed(500)


def test_every_script_that_takes_items_is_meant(measured: Measured) -> None:
    """The tests above know all of them; forget takes one key at a time."""
    queue, inspector = Queue("foos", measured), Inspector(measured)
    queue.add("a")
    queue.settle(queue.get(), TerminalError("no"))
    queue.forget("a")
    assert measured.items["forget"] == [1]
    assert {name for name in scripts.names() if scripts.load(name).last_is_list} == {
        *("add", "add_after", "commit", "delete", "forget", "forgive", "park", "requeue", "turn")
    }
    assert inspector.queues("foos")[0].dead == 1
    queue.close()
