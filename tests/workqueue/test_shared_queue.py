"""What differs where many processes share one queue that outlives them, on every server."""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.controller.watches import For
from distq.errors import Empty, RetryAfter, ShutDown
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import Committed, Fenced, StreamStore, stream_records
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Request, Result, Settlement, Success
from distq.workqueue.queue import Queue
from tests.controller.eventually import eventually
from tests.controller.running import running
from tests.workqueue.conftest import ServerTime, beat
from tests.workqueue.failing import back_off, due_in, fail

Make = Callable[..., Queue]


class Holder:
    """A worker in a process of its own, which holds one item."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.workqueue.holder", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        key, fence = self.hear().split()
        self.request = Request(key, fence=int(fence))

    def hear(self) -> str:
        """Return the next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        """Say how to go on."""
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
    connection.server_time = int(QueueStore(connection, "foos").now() * 1e6)
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


def nothing_to_claim(queue: Queue) -> bool:
    """Return whether a get finds nothing."""
    try:
        queue.get(timeout=0)
    except Empty:
        return True
    return False


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
def test_a_stopped_process_wakes_up_as_nobody(
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
    holder.tell("fail")
    assert holder.hear() == "settled False cancelled True"
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
    holder.tell("succeed")
    assert holder.hear() == "settled True cancelled False"


@pytest.mark.conformance("RD-03")
def test_done_without_a_claim_changes_nothing(queue: Queue) -> None:
    """Of an item that waits, that somebody else holds, or that is not there: no duplicate, no loss."""
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

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument]) -> Any:
        """Count it and run it."""
        self.ran[self._names[sha]] += 1
        return super().evaluate(source, sha, arguments)


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
def test_what_a_crash_tears_apart_is_repeated_not_lost(
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
def test_what_a_process_holds_when_it_ends_is_free_at_once(make_queue: Make, server_time: ServerTime) -> None:
    """Nobody waits for a claim to lapse, and it is no crash."""
    leaving, other = make_queue(), make_queue()
    leaving.add("a")
    leaving.get(0)
    leaving.shut_down()
    leaving.close()
    assert other.get(0).attempt == 1


@pytest.mark.conformance("RD-07")
@pytest.mark.parametrize("skewed", [0.0, 4e9])
def test_the_clocks_of_processes_do_not_matter(
    queue: Queue, server_time: ServerTime, monkeypatch: pytest.MonkeyPatch, skewed: float
) -> None:
    """Decades behind or ahead: delays, back-off, order and ages are the server's."""
    monkeypatch.setattr(time, "time", lambda: skewed)
    queue.add_after("a", 10)
    assert due_in(queue, "a") == 10
    assert back_off(queue, "b", RetryAfter(5)) == 5
    queue.add("c")
    assert queue.get(0).enqueued_at == pytest.approx(queue.connection.server_time / 1e6)
    server_time.advance(5)
    assert queue.depth() == 1
    assert queue.get(0).key == "b"
    server_time.advance(5)
    assert queue.get(0).key == "a"


@pytest.mark.conformance("RD-08")
def test_what_is_due_moves_though_nobody_was_there(make_queue: Make, server_time: ServerTime) -> None:
    """No process has to live while time goes by: the first to ask gets it, in the order of the due times."""
    before = make_queue()
    for number in range(300):
        before.add_after(f"k{number:03}", 300 - number)
    before.close()
    server_time.advance(1000)
    after = make_queue()
    assert after.depth() == 300
    keys = [request.key for _ in range(3) for request in after.turn([], 100).requests]
    assert keys == [f"k{number:03}" for number in reversed(range(300))]


@pytest.mark.conformance("RD-08", "RD-10")
def test_delays_and_back_off_outlive_the_processes_that_began_them(
    make_queue: Make, server_time: ServerTime
) -> None:
    """A restart of everything loses none."""
    before = make_queue()
    before.add_after("later", 60)
    fail(before, "failing")
    fail(before, "failing")
    before.close()
    server_time.advance(60)
    after = make_queue()
    requests = {request.key: request.attempt for request in after.turn([], 5).requests}
    assert requests == {"later": 1, "failing": 3}


@pytest.mark.conformance("RD-11")
def test_of_equal_due_times_the_higher_priority_is_first(queue: Queue, server_time: ServerTime) -> None:
    """More order than that is not promised for one moment."""
    for key, priority in (("a", -900), ("b", 0), ("c", 900), ("d", 5)):
        queue.add(key, priority=priority, after=10)
    server_time.advance(10)
    assert [queue.get(0).key for _ in range(4)] == ["c", "d", "b", "a"]


@pytest.mark.conformance("RD-13")
@pytest.mark.parametrize("now", [1_795_000_000_000_001, 4_102_444_799_999_999])
def test_times_are_exact_to_the_microsecond(queue: Queue, connection: Connection, now: int) -> None:
    """This century: items 1 µs apart keep their order at each priority, and no delay ends 1 µs early."""
    connection.server_time = now
    for priority in (-900, 0, 900):
        queue.add(f"first {priority}", priority=priority)
        connection.server_time += 1
        queue.add(f"then {priority}", priority=priority)
    requests = queue.turn([], 10).requests
    assert [request.key for request in requests] == [
        f"{when} {priority}" for priority in (900, 0, -900) for when in ("first", "then")
    ]
    assert [request.priority for request in requests] == [900, 900, 0, 0, -900, -900]
    first, then = (request.enqueued_at for request in requests[:2])
    assert first is not None
    assert then is not None
    assert then - first == pytest.approx(1e-6, abs=5e-7)
    queue.add_after("later", 1)
    connection.server_time += 999_999
    assert nothing_to_claim(queue)
    connection.server_time += 1000
    assert queue.get(0).key == "later"


@pytest.mark.conformance("RD-14")
def test_an_emptied_redis_is_a_new_beginning(make_queue: Make, connection: Connection) -> None:
    """Handles go on with what is added again; what was claimed before is cancelled and refused."""
    queue = make_queue()
    queue.add("a", "b")
    request = queue.get(0)
    connection.execute("FLUSHALL")
    assert not queue.settle(request, ValueError("of another life"))
    assert request.cancelled.is_set()
    queue.add("a", "b")
    assert [queue.get(0).key, queue.get(0).attempt] == ["a", 1]


@pytest.mark.conformance("RD-16")
def test_depth_is_what_waits_now(make_queue: Make, server_time: ServerTime, connection: Connection) -> None:
    """Ready, dirty, and what is due, also where nobody lives to promote it; nothing else."""
    queue, looking = make_queue(), make_queue()
    assert looking.depth() == 0
    queue.add("held", "dirty", "dead")
    requests = {request.key: request for request in queue.turn([], 3).requests}
    queue._max_retries = 0
    queue.settle(requests["dead"], ValueError("parked"))
    assert looking.depth() == 0
    queue.add("dirty", "ready")
    assert looking.depth() == 2
    queue.add_after("later", 10)
    queue.add_after("held", 10)
    assert looking.depth() == 2
    server_time.advance(9.999)
    assert looking.depth() == 2
    server_time.advance(0.001)
    assert looking.depth() == 4
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 1


@pytest.mark.conformance("RD-17")
def test_an_item_waits_since_it_became_pending(queue: Queue, server_time: ServerTime) -> None:
    """Its place in the queue tells: the first add, the add while it was held, or the due time."""
    began = queue.connection.server_time / 1e6

    def waited_since() -> float:
        request = queue.get(0)
        assert request.enqueued_at is not None
        held.append(request)
        return round(request.enqueued_at - began, 3)

    held: list[Request] = []
    queue.add("a")
    server_time.advance(5)
    queue.add("a")
    assert waited_since() == 0
    server_time.advance(5)
    queue.add("a")
    server_time.advance(5)
    queue.add("a")
    queue.settle(held.pop())
    server_time.advance(5)
    assert waited_since() == 10
    queue.release(held.pop())
    assert waited_since() == 10
    queue.settle(held.pop(), RetryAfter(10))
    server_time.advance(100)
    assert waited_since() == 30
    queue.settle(held.pop())
    queue.add_after("a", 5)
    server_time.advance(2)
    queue.add("a")
    server_time.advance(2)
    assert waited_since() == 122


@pytest.mark.conformance("RD-18")
def test_a_leader_of_the_past_enqueues_nothing(queue: Queue, connection: Connection) -> None:
    """Once a later one has committed, whatever the earlier one believes."""
    stream = StreamStore(connection, "foos", "pods")
    assert isinstance(
        stream.commit(epoch="9", after="", new="5", batch="b1", keys=["a"], known={"a": "5"}), Committed
    )
    late = stream.commit(epoch="8", after="b1", new="6", batch="c1", keys=["b"], known={"b": "6"}, gone=["a"])
    assert late == Fenced("9")
    assert queue.depth() == 1
    assert dict(stream.known()) == {"a": "5"}
    assert stream_records(connection, "foos")["pods"].position == "5"
    assert isinstance(stream.commit(epoch="10", after="b1", new="6", batch="d1", keys=["b"]), Committed)
    assert queue.depth() == 2


@pytest.mark.conformance("RD-20")
def test_workers_wait_for_no_informer(queue: Queue, connection: Connection) -> None:
    """What is in the queue is worked off, also where nobody watches now, or has ever done so."""
    seen = threading.Event()
    queue.add("default/web")
    with running(Controller(queue, lambda _: seen.set(), watches=[For("v1/ConfigMap")])):
        assert seen.wait(20)
        eventually(lambda: queue.depth() == 0)
    assert stream_records(connection, "foos") == {}
