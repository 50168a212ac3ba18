"""What differs where many processes share one queue that outlives them, on every server."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.controller.watches import For
from distq.errors import RetryAfter, ShutDown
from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import Committed, Fenced, StreamStore, stream_records
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result, Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests import ROOT
from tests.support.dispatchers import running
from tests.support.eventually import eventually
from tests.workqueue.conftest import ServerTime, beat
from tests.workqueue.failing import nothing_to_claim

Make = Callable[..., Queue]


class Holder:
    """A worker in a process of its own, which holds one item."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.workqueue.holder", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        key, fence = self.read_line().split()
        self.request = Request(key, fence=int(fence))

    def read_line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, line: str) -> None:
        """Send it a line: how to go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def holder(redis_server: EmbeddedValkey, connection: Connection, living: Queue) -> Iterator[Holder]:
    """Start a worker that holds the item a; from then on the server's clock is the test's."""
    living.add("a")
    holder = Holder(redis_server.url)
    connection.server_time = int(QueueStore(connection, "foos").connection.now() * 1e6)
    yield holder
    holder.end()


@pytest.fixture
def living(make_queue: Make) -> Queue:
    """Give a handle that sends heartbeats."""
    queue = make_queue()
    queue.turn([], 0)
    return queue


def lapse(connection: Connection, living: Queue) -> None:
    """Let a claim duration pass in which the handle lives."""
    for _ in range(4):
        connection.server_time += round(living.claim_duration / 3 * 1e6)
        assert beat(living)


@pytest.mark.conformance("RD-01")
def test_a_killed_process_gives_its_item_back_once(
    holder: Holder, living: Queue, connection: Connection
) -> None:
    """SIGKILL between get and done: after the claim duration the item is handed out again, and only once."""
    assert nothing_to_claim(living)
    holder.process.send_signal(signal.SIGKILL)
    holder.process.wait(20)
    assert nothing_to_claim(living)
    lapse(connection, living)
    request = living.get(0)
    assert (request.key, request.attempt) == ("a", 1)
    assert nothing_to_claim(living)
    assert living.settle(request)
    lapse(connection, living)
    assert nothing_to_claim(living)


@pytest.mark.conformance("RD-02", "RD-03")
@pytest.mark.parametrize("settled_meanwhile", [False, True])
def test_a_stopped_process_wakes_up_without_a_session(
    holder: Holder, living: Queue, connection: Connection, *, settled_meanwhile: bool
) -> None:
    """What it settles after SIGSTOP and SIGCONT is refused, and its request cancelled; nothing changes."""
    holder.process.send_signal(signal.SIGSTOP)
    lapse(connection, living)
    request = living.get(0)
    assert request.key == holder.request.key
    assert request.fence > holder.request.fence
    if settled_meanwhile:
        assert living.settle(request)
    holder.process.send_signal(signal.SIGCONT)
    holder.send("fail")
    assert holder.read_line() == "settled False cancelled True"
    assert living.num_requeues("a") == 0
    assert nothing_to_claim(living)
    assert living.settle(request) != settled_meanwhile


@pytest.mark.conformance("RD-02")
def test_a_process_that_was_stopped_for_less_goes_on(
    holder: Holder, living: Queue, connection: Connection
) -> None:
    """A pause within the claim duration costs nothing."""
    holder.process.send_signal(signal.SIGSTOP)
    connection.server_time += 9_000_000
    assert nothing_to_claim(living)
    holder.process.send_signal(signal.SIGCONT)
    holder.send("succeed")
    assert holder.read_line() == "settled True cancelled False"


@pytest.mark.conformance("RD-03")
def test_done_without_a_claim_changes_nothing(queue: Queue) -> None:
    """For an item that waits, that another handle holds, or that does not exist: no duplicate, no loss."""
    queue.add("a")
    before = queue.get(0)
    assert queue.done(before)
    queue.add("a", "b")
    assert not queue.done(before)
    assert not queue.done(Request("b", fence=before.fence))
    assert not queue.done(Request("c", fence=before.fence))
    assert queue.depth() == 2
    request = queue.get(0)
    assert not queue.done(before)
    assert queue.done(request)


class Counting(Connection):
    """A connection that counts the scripts that it runs."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ran: Counter[str] = Counter()
        self._names = {scripts.load(name).sha: name for name in scripts.names()}

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Count it and run it."""
        self.ran[self._names[sha]] += 1
        return super().evaluate(source, sha, arguments, *meanwhile)


@pytest.mark.conformance("RD-04")
@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (None, {}),
        (Result(requeue_after=60), {"delayed": 1}),
        (ValueError("again"), {"delayed": 1, "failures": 1}),
        (RetryAfter(60), {"delayed": 1, "failures": 1}),
    ],
)
@pytest.mark.usefixtures("connection")
def test_no_crash_falls_between_coming_back_and_done(
    redis_server: EmbeddedValkey, outcome: Result | Exception | None, state: dict[str, int]
) -> None:
    """Settling is one script, and so is settling and claiming the next."""
    counting = Counting(redis_server.url)
    counting.server_time = 1_795_000_000_000_000
    queue = Queue("foos", counting)
    queue.add("a", "b")
    request = queue.get(0)
    counting.ran.clear()
    assert queue.settle(request, outcome)
    assert counting.ran == {"turn": 1}
    store = QueueStore(counting, "foos")
    sizes = store.read(("ZCARD", "delayed"), ("HLEN", "failures"), ("ZCARD", "processing"))
    assert sizes == [state.get("delayed", 0), state.get("failures", 0), 0]
    (second,) = queue.turn([], 1).requests
    counting.ran.clear()
    queue.add("c")
    (third,) = queue.turn([Settlement(second, Success())], 1).requests
    assert third.key == "c"
    assert counting.ran == {"add": 1, "turn": 1}
    queue.close()
    counting.close()


@pytest.mark.conformance("RD-04")
def test_a_retry_that_a_crash_tears_apart_is_repeated_not_lost(
    make_queue: Make, living: Queue, server_time: ServerTime
) -> None:
    """add_rate_limited without the done that was to follow: the failure counts, the item comes back."""
    dying = make_queue()
    dying.add("a")
    dying.get(0)
    dying.add_rate_limited("a")
    server_time.lapse(living)
    request = living.get(0)
    assert request.attempt == 2
    assert living.settle(request)
    server_time.advance(3600)
    assert nothing_to_claim(living)


@pytest.mark.conformance("RD-05")
def test_a_shutdown_is_the_handles(make_queue: Make) -> None:
    """Its adds are taken, its claims can be settled, and others go on."""
    leaving, other = make_queue(), make_queue()
    leaving.add("a", "b")
    request = leaving.get(0)
    leaving.shut_down()
    assert not other.shutting_down
    assert leaving.add("c") == 1
    leaving.add_after("d", 0)
    leaving.add_rate_limited("e")
    assert leaving.num_requeues("e") == 1
    assert leaving.settle(request, ValueError("the last"))
    assert [other.get(0).key for _ in range(3)] == ["b", "c", "d"]


@pytest.mark.conformance("RD-06")
def test_after_a_shutdown_get_ends_at_once_and_the_rest_is_others(make_queue: Make) -> None:
    """One pod that is replaced must not empty the whole queue first."""
    leaving, other = make_queue(), make_queue()
    keys = [f"k{number}" for number in range(10)]
    leaving.add(*keys)
    took = []
    for request in leaving.listen():
        took.append(request.key)
        leaving.settle(request)
        if len(took) == 2:
            leaving.shut_down()
    with pytest.raises(ShutDown):
        leaving.get()
    assert took == keys[:2]
    assert [request.key for request in other.turn([], 50).requests] == keys[2:]


@pytest.mark.conformance("RD-06")
def test_the_items_that_a_process_holds_when_it_ends_are_free_at_once(
    make_queue: Make, server_time: ServerTime
) -> None:
    """No worker waits for a claim to lapse, and it is no crash."""
    leaving, other = make_queue(), make_queue()
    leaving.add("a")
    leaving.get(0)
    leaving.shut_down()
    leaving.close()
    assert other.get(0).attempt == 1


@pytest.mark.conformance("RD-14")
def test_an_emptied_redis_is_a_new_beginning(make_queue: Make, connection: Connection) -> None:
    """Handles go on with items that are added again; earlier claims are cancelled and refused."""
    queue = make_queue()
    queue.add("a", "b")
    request = queue.get(0)
    connection.execute("FLUSHALL")
    assert not queue.settle(request, ValueError("of another life"))
    assert request.cancelled.is_set()
    queue.add("a", "b")
    assert [queue.get(0).key, queue.get(0).attempt] == ["a", 1]


@pytest.mark.conformance("RD-18")
def test_a_leader_of_the_past_enqueues_nothing(queue: Queue, connection: Connection) -> None:
    """Once a later leader has committed, the earlier one cannot commit, although it thinks that it leads."""
    stream = StreamStore(connection, "foos", "pods")
    assert isinstance(
        stream.commit(Commit(epoch="9", after="", new="5", batch="b1", keys=["a"], known={"a": "5"})),
        Committed,
    )
    late = stream.commit(
        Commit(epoch="8", after="b1", new="6", batch="c1", keys=["b"], known={"b": "6"}, gone=["a"])
    )
    assert late == Fenced("9")
    assert queue.depth() == 1
    assert dict(stream.known()) == {"a": "5"}
    assert stream_records(connection, "foos")["pods"].position == "5"
    assert isinstance(
        stream.commit(Commit(epoch="10", after="b1", new="6", batch="d1", keys=["b"])), Committed
    )
    assert queue.depth() == 2


@pytest.mark.conformance("RD-20")
def test_workers_wait_for_no_informer(queue: Queue, connection: Connection) -> None:
    """The items in the queue are worked off, also if no process watches now, or has ever done so."""
    seen = threading.Event()
    queue.add("default/web")
    with running(Controller(queue, lambda _: seen.set(), watches=[For("v1/ConfigMap")])):
        assert seen.wait(20)
        eventually(lambda: queue.depth() == 0)
    assert stream_records(connection, "foos") == {}
