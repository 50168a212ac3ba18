"""The Inspector sees what handles did, and repairs it, on each kind of Redis."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from distq.errors import (
    ConfigError,
    Empty,
    InvalidKey,
    InvalidQueueName,
    RedisRefused,
    ShutDown,
    TerminalError,
)
from distq.inspector import Inspector, ItemInfo, RepairStep, Rows, Timestamp, Wanted
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from tests.support.counting_connection import CountingConnection
from tests.support.eventually import eventually
from tests.workqueue.failing import fail


@pytest.fixture
def inspector(connection: Connection) -> Inspector:
    """Look at the test's database."""
    return Inspector(connection)


def _queue(connection: Connection, **options: object) -> Queue:
    return Queue("foos", connection, **options)  # type: ignore[arg-type]  # forwarded as given


def _item(inspector: Inspector, key: str) -> ItemInfo:
    found = inspector.item("foos", key)
    assert found is not None
    return found


def test_an_unused_redis_has_no_queues(inspector: Inspector) -> None:
    """Looking at nothing finds nothing, and writes nothing."""
    assert inspector.queues() == []
    assert inspector.workers() == []
    assert inspector.streams() == []
    assert inspector.item("foos", "a") is None
    assert inspector.items("foos") == []
    assert inspector.queues() == []


def test_a_queue_is_counted_by_state(connection: Connection, inspector: Inspector) -> None:
    """Each state, the dirty flag and the failing filter have their number."""
    queue = _queue(connection)
    queue.add("dead", "held", "again", "ready-1", "ready-2")
    queue.add("later", after=100)
    queue.settle(queue.get(), TerminalError("no use"))
    queue.get()
    queue.get()
    queue.add("again")
    (info,) = inspector.queues()
    assert (info.ready, info.delayed, info.processing, info.dirty, info.dead) == (2, 1, 2, 1, 1)
    assert (info.failing, info.depth, info.workers, info.paused) == (1, 3, 1, False)
    queue.close()


def test_depth_counts_due_items_though_no_worker_lives(connection: Connection, inspector: Inspector) -> None:
    """Autoscalers start from zero workers: a due item counts as waiting, and since it was due."""
    _queue(connection).add("a", after=5)
    now = inspector.now()
    assert inspector.queues()[0].depth == 0
    assert inspector.queues()[0].oldest_ready is None
    connection.server_time = int((now + 60) * 1e6)
    info = inspector.queues()[0]
    assert (info.depth, info.ready, info.delayed) == (1, 0, 1)
    assert info.oldest_ready == pytest.approx(now + 5, abs=1)


def test_the_oldest_item_is_found_behind_higher_priorities(
    connection: Connection, inspector: Inspector
) -> None:
    """The head of the queue is not the oldest when a later item has a higher priority."""
    queue = _queue(connection)
    for age, priority in ((90, -100), (60, 0), (50, 7), (30, 0), (10, 900)):
        connection.server_time = int((1_800_000_000 - age) * 1e6)
        queue.add(f"{priority}-{age}", priority=priority)
    assert inspector.queues()[0].oldest_ready == pytest.approx(1_800_000_000 - 90, abs=0.001)


def test_an_item_shows_its_state(connection: Connection, inspector: Inspector) -> None:
    """Each state has the time since when it lasts, and its own details."""
    connection.server_time = 1_800_000_000_000_000
    queue = _queue(connection)
    queue.add("web", priority=5)
    ready = _item(inspector, "web")
    assert (ready.state, ready.priority, ready.since) == ("ready", 5, Timestamp(1_800_000_000))
    connection.server_time += 1_000_000
    request = queue.get()
    held = _item(inspector, "web")
    assert (held.state, held.dirty, held.priority, held.failures) == ("processing", False, 5, 0)
    assert held.since == pytest.approx(1_800_000_001, abs=0.001)
    assert held.worker == inspector.workers("foos")[0].name
    assert held.claim_deadline is not None
    assert 0 < held.claim_deadline - inspector.now() <= 31
    queue.settle(request, RuntimeError("no luck"))
    failing = _item(inspector, "web")
    assert (failing.state, failing.failures, failing.last_error) == ("delayed", 1, "RuntimeError: no luck")
    assert failing.since == failing.last_error_at == Timestamp(1_800_000_001)
    assert failing.due is not None
    assert failing.reason is None
    queue.close()


def test_a_dead_item_has_its_reason(connection: Connection, inspector: Inspector) -> None:
    """The reason, the error and the end of the traceback stay until a person or an event acts."""
    queue = _queue(connection)
    queue.add("web")
    try:
        raise TerminalError("broken for good")
    except TerminalError as error:
        queue.settle(queue.get(), error)
    item = _item(inspector, "web")
    assert (item.state, item.reason) == ("dead", "terminal")
    assert item.last_error is not None
    assert "broken for good" in item.last_error
    assert "test_a_dead_item_has_its_reason" in (item.traceback or "")
    queue.close()


def test_dead_items_come_by_when_they_became_dead_those_apart_that_may_be_revived(
    connection: Connection, inspector: Inspector
) -> None:
    """The latter behind the others, each with its time."""
    queue = _queue(connection, max_retries=0)
    errors = {"c": ValueError("again"), "b": TerminalError("never"), "a": ValueError("again")}
    for key, error in errors.items():
        fail(queue, key, error)
    found = inspector.items("foos", state="dead")
    assert [item.key for item in found] == ["b", "c", "a"]
    by_time = sorted(found, key=lambda item: item.since or 0)
    assert [item.key for item in by_time] == ["c", "b", "a"]


def test_an_item_added_while_held_is_dirty(connection: Connection, inspector: Inspector) -> None:
    """Dirty is a flag of processing; a delay beside a claim shows as its due time."""
    queue = _queue(connection)
    queue.add("a", "b")
    queue.get()
    queue.get()
    queue.add("a")
    queue.add("b", after=100)
    assert (_item(inspector, "a").state, _item(inspector, "a").dirty) == ("processing", True)
    assert (_item(inspector, "b").state, _item(inspector, "b").dirty) == ("processing", False)
    assert _item(inspector, "b").due is not None
    assert [item.key for item in inspector.items("foos", state="dirty")] == ["a"]
    queue.close()


def test_one_state_pages_by_rank(connection: Connection, inspector: Inspector) -> None:
    """Pages follow the order in which items leave their state, and leave nothing out."""
    keys = [f"key-{n:03}" for n in range(250)]
    _queue(connection).add(*keys)
    pages = [
        item.key
        for n in range(0, 260, 40)
        for item in inspector.items("foos", state="ready", offset=n, limit=40)
    ]
    assert pages == keys
    assert inspector.items("foos", state="ready", offset=250) == []


def test_all_states_page_one_after_another(connection: Connection, inspector: Inspector) -> None:
    """Without a state the pages go through processing, ready, delayed and dead."""
    queue = _queue(connection)
    queue.add("dead", "held", "ready-1", "ready-2")
    queue.add("later", after=100)
    queue.settle(queue.get(), TerminalError("no"))
    queue.get()
    everything = [item.key for item in inspector.items("foos")]
    assert everything == ["held", "ready-1", "ready-2", "later", "dead"]
    assert [item.key for n in range(5) for item in inspector.items("foos", offset=n, limit=1)] == everything
    queue.close()


def test_match_and_failing_scan(connection: Connection, inspector: Inspector) -> None:
    """Filters find all that fits, in no order."""
    queue = _queue(connection)
    queue.add(*(f"prod/{n}" for n in range(700)), *(f"test/{n}" for n in range(700)))
    for _ in range(3):
        queue.settle(queue.get(), TerminalError("no"))
    found = {item.key for item in inspector.items("foos", match="test/*", limit=5000)}
    assert found == {f"test/{n}" for n in range(700)}
    assert len(inspector.items("foos", match="prod/*", limit=10, offset=5)) == 10
    assert {item.key for item in inspector.items("foos", failing=True)} == {"prod/0", "prod/1", "prod/2"}
    assert inspector.items("foos", failing=True, state="ready") == []
    assert inspector.count("foos", state="ready", match="prod/*") == 697
    queue.close()


@pytest.mark.conformance("RD-10")
def test_requeue_makes_dead_and_delayed_items_ready(connection: Connection, inspector: Inspector) -> None:
    """Failures are forgotten, and a second requeue has nothing to do."""
    queue = _queue(connection)
    queue.add("dead", "delayed")
    queue.settle(queue.get(), TerminalError("no"))
    queue.settle(queue.get(), Result(requeue_after=100))
    assert inspector.requeue("foos", "dead", "delayed", "absent") == 2
    assert {_item(inspector, key).state for key in ("dead", "delayed")} == {"ready"}
    assert _item(inspector, "dead").failures == 0
    assert inspector.requeue("foos", "dead") == 0
    queue.close()


def test_requeue_and_delete_by_state_and_match(connection: Connection, inspector: Inspector) -> None:
    """Repairs by state go through all items, in steps, and touch no others."""
    queue = _queue(connection)
    queue.add(*(f"prod/{n}" for n in range(1500)), *(f"test/{n}" for n in range(1500)), after=1000)
    queue.add("prod/now")
    assert inspector.requeue("foos", state="delayed", match="prod/*") == 1500
    assert inspector.delete("foos", state="delayed") == 1500
    assert inspector.delete("foos", state="ready", match="prod/1*") == 611
    info = inspector.queues()[0]
    assert (info.ready, info.delayed) == (890, 0)


def test_delete_leaves_a_claim_alone(connection: Connection, inspector: Inspector) -> None:
    """Of a processing item only what is pending goes; its worker can still settle it."""
    queue = _queue(connection)
    queue.add("a")
    request = queue.get()
    assert inspector.delete("foos", "a") == 0
    queue.add("a")
    assert inspector.delete("foos", "a") == 1
    assert _item(inspector, "a").state == "processing"
    assert queue.settle(request)
    assert inspector.item("foos", "a") is None
    with pytest.raises(ConfigError, match="cannot delete processing items"):
        inspector.delete("foos", state="processing")
    queue.close()


def test_workers_describe_their_process(connection: Connection, inspector: Inspector) -> None:
    """A handle and its items are shown until it is closed."""
    import os

    queue = _queue(connection)
    queue.add("a")
    queue.get()
    (worker,) = inspector.workers()
    assert (worker.queue, worker.pid, worker.processing) == ("foos", os.getpid(), 1)
    assert worker.since is not None
    assert worker.heartbeat is not None
    queue.close()
    assert inspector.workers("foos") == []


def test_bad_input_is_refused(inspector: Inspector) -> None:
    """Typed errors, before anything is asked of Redis."""
    with pytest.raises(InvalidQueueName):
        inspector.queues("a b")
    with pytest.raises(InvalidKey):
        inspector.item("foos", "")
    with pytest.raises(ConfigError, match="no state"):
        inspector.items("foos", state="gone")  # type: ignore[arg-type]  # on purpose
    for match in (None, "*"):
        with pytest.raises(ConfigError, match="no items chosen"):
            inspector.requeue("foos", match=match)
    with pytest.raises(InvalidKey):
        inspector.delete("foos", "a", "b\x1b")


@pytest.mark.conformance("RD-05")
def test_a_paused_queue_hands_out_nothing_and_loses_nothing(
    connection: Connection, inspector: Inspector
) -> None:
    """Adds, settlements and delays go on; items that became due are claimed after the resume."""
    queue = _queue(connection)
    queue.add("held", "waits")
    request = queue.get()
    now = inspector.now()
    assert inspector.pause("foos")
    assert not inspector.pause("foos")
    queue.add("new")
    queue.add("later", after=0.01)
    assert queue.settle(request)
    with pytest.raises(Empty):
        queue.get(timeout=0.05)
    info = inspector.queues("foos")[0]
    assert info.paused
    assert info.paused_since == pytest.approx(now, abs=5)
    assert info.processing == 0
    assert inspector.resume("foos")
    assert not inspector.resume("foos")
    assert {queue.get(timeout=10).key for _ in range(3)} == {"waits", "new", "later"}
    info = inspector.queues("foos")[0]
    assert (info.paused, info.paused_since) == (False, None)
    queue.close()


@pytest.mark.conformance("RD-05", "RD-09")
def test_resume_wakes_one_consumer_and_pause_leaves_no_token(
    connection: Connection, inspector: Inspector
) -> None:
    """One of many is woken if items are pending; a worker that leaves items wakes the next."""
    queue = _queue(connection)
    wake = queue_key("foos", "wake")
    queue.add("a", "b")
    assert connection.execute("LLEN", wake) == 1
    inspector.pause("foos")
    assert connection.execute("LLEN", wake) == 0
    queue.add("c")
    queue.add("d", after=100)
    inspector.requeue("foos", "d")
    assert connection.execute("LLEN", wake) == 0
    inspector.resume("foos")
    assert connection.execute("LLEN", wake) == 1
    inspector.delete("foos", "a", "b", "c", "d")
    with pytest.raises(Empty):
        queue.get(timeout=0)
    inspector.pause("foos")
    inspector.resume("foos")
    assert connection.execute("LLEN", wake) == 0  # nothing waits
    queue.close()


@pytest.mark.conformance("RD-05", "RD-09")
@pytest.mark.parametrize("state", ["ready", "delayed"])
def test_a_consumer_that_waits_is_woken_by_the_resume(
    connection: Connection, inspector: Inspector, state: str
) -> None:
    """It sleeps until long after; a resume ends that, also where only a due time has to be covered."""
    queues = [_queue(connection) for _ in range(3)]
    claimed: list[str] = []

    def consume(queue: Queue) -> None:
        with contextlib.suppress(ShutDown):
            claimed.append(queue.get().key)

    queues[0].add("x")
    inspector.pause("foos")
    if state == "delayed":
        inspector.delete("foos", "x")
        queues[0].add("x", after=0.5)
    threads = [threading.Thread(target=consume, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    eventually(lambda: len(inspector.workers("foos")) == 3)
    inspector.resume("foos")
    eventually(lambda: claimed == ["x"])
    for queue in queues:
        queue.shut_down()
    for thread in threads:
        thread.join(10)
    for queue in queues:
        queue.close()


def test_park_takes_ready_and_delayed_items_out(connection: Connection, inspector: Inspector) -> None:
    """They are dead with the operator's words and their failure count; held and dead ones are left alone."""
    queue = _queue(connection, rate_limiter=ItemExponentialFailureRateLimiter(1000.0, 1000.0))
    queue.add("failing", "dead", "held")
    queue.settle(queue.get(), RuntimeError("no luck"))
    queue.settle(queue.get(), TerminalError("no use"))
    request = queue.get()
    queue.add("held", after=100)
    queue.add("ready", priority=7)
    keys = ("failing", "dead", "held", "ready", "absent")
    assert inspector.park("foos", *keys, reason="waits for INC-7") == 2
    assert inspector.park("foos", *keys) == 0
    failing, ready, dead = (_item(inspector, key) for key in ("failing", "ready", "dead"))
    assert (failing.state, failing.failures, failing.reason) == ("dead", 1, "parked")
    assert (failing.last_error, failing.since) == ("waits for INC-7", failing.last_error_at)
    assert (ready.state, ready.failures, ready.last_error) == ("dead", 0, "waits for INC-7")
    assert (dead.reason, dead.last_error) == ("terminal", "TerminalError: no use")
    assert _item(inspector, "held").due is not None
    assert queue.settle(request)
    assert inspector.requeue("foos", state="dead") == 3
    assert {_item(inspector, key).failures for key in ("failing", "ready", "dead")} == {0}
    queue.close()


def test_a_new_event_revives_an_item_that_was_parked_by_hand(
    connection: Connection, inspector: Inspector
) -> None:
    """As with any dead item: the object changed, so it gets a try."""
    queue = _queue(connection)
    queue.add("a")
    inspector.park("foos", "a")
    queue.add("a")
    assert _item(inspector, "a").state == "ready"
    assert queue.settle(queue.get())
    assert inspector.item("foos", "a") is None
    queue.close()


def test_a_requeued_delayed_item_keeps_its_priority(connection: Connection, inspector: Inspector) -> None:
    """Back-off and failures go, the place in the order of priorities stays; a dead item begins at 0."""
    queue = _queue(connection)
    for key, outcome in (("dead", TerminalError("no")), ("slow", Result(requeue_after=100))):
        queue.add(key, priority=-50)
        queue.settle(queue.get(), outcome)
    assert inspector.requeue("foos", "slow", "dead") == 2
    assert (_item(inspector, "slow").priority, _item(inspector, "dead").priority) == (-50, 0)
    queue.close()


def test_requeue_of_a_held_item_that_comes_later_makes_it_dirty(
    connection: Connection, inspector: Inspector
) -> None:
    """Its worker's claim is untouched; the next run follows at once."""
    queue = _queue(connection)
    queue.add("a")
    request = queue.get()
    queue.add("a", after=100)
    assert inspector.requeue("foos", "a") == 1
    assert _item(inspector, "a").dirty
    assert queue.settle(request)
    assert queue.get(timeout=5).key == "a"
    queue.close()


@pytest.mark.conformance("RD-10")
def test_delete_takes_the_failures_too(connection: Connection, inspector: Inspector) -> None:
    """An add of the key begins anew; the record of a claim that goes on is its worker's."""
    queue = _queue(connection)
    for outcome in (TerminalError("no"), RuntimeError("no luck")):
        queue.add("dead" if isinstance(outcome, TerminalError) else "held")
        queue.settle(queue.get(), outcome)
    queue.add("held")
    queue.get()
    queue.add("held")
    assert inspector.delete("foos", "dead", "held") == 2
    assert (queue.num_requeues("dead"), queue.num_requeues("held")) == (0, 1)
    queue.close()


def test_a_state_is_looked_at_again_where_the_item_is(connection: Connection, inspector: Inspector) -> None:
    """An item that left its state since it was listed is not repaired."""
    queue = _queue(connection)
    queue.add("revived", "dead")
    for _ in range(2):
        queue.settle(queue.get(), TerminalError("no"))
    queue.add("revived")
    assert inspector.delete("foos", "revived", "dead", state="dead") == 1
    assert _item(inspector, "revived").state == "ready"
    queue.close()


def test_a_repair_in_steps_reaches_every_item_once(connection: Connection, inspector: Inspector) -> None:
    """Steps, each from where the last one ended, change all that match, and say what was chosen in vain."""
    queue = _queue(connection)
    queue.add(*(f"prod/{n}" for n in range(1500)), *(f"test/{n}" for n in range(1500)), after=1000)
    steps: list[RepairStep] = []
    cursor = 0
    while not steps or steps[-1].cursor is not None:
        steps.append(inspector.repair_some("requeue", "foos", state="delayed", match="prod/*", cursor=cursor))
        cursor = steps[-1].cursor or 0
    assert len(steps) > 3
    assert max(step.chosen for step in steps) <= 1000, "a step is bounded"
    assert sum(step.changed for step in steps) == 1500
    assert inspector.count("foos", state="delayed") == 1500
    queue.add("held")
    request = queue.get()
    step = inspector.repair_some("park", "foos", state="processing")
    assert (step.chosen, step.changed, step.cursor) == (1, 0, None), "who is held is left alone"
    assert queue.settle(request)
    with pytest.raises(ConfigError, match="cannot delete processing items"):
        inspector.repair_some("delete", "foos", state="processing")
    with pytest.raises(ConfigError, match="no queue"):
        inspector.repair_some("requeue", "bars", state="dead")
    queue.close()


def test_an_add_by_a_person_makes_no_queue(connection: Connection, inspector: Inspector) -> None:
    """An add has the priority and the delay that were asked for; a typo in the queue adds nowhere."""
    _queue(connection).add("a")
    assert inspector.add("foos", "a", "b", priority=7) == 1
    assert _item(inspector, "b").priority == 7
    assert inspector.add("foos", "later", after=100) == 1
    assert _item(inspector, "later").state == "delayed"
    with pytest.raises(ConfigError, match="no queue"):
        inspector.add("fools", "a")
    assert [queue.name for queue in inspector.queues()] == ["foos"]


def test_repairs_run_while_workers_work(connection: Connection, inspector: Inspector) -> None:
    """During any repairs and pauses no claim is torn, and no item runs twice at once."""
    keys = [f"key-{n}" for n in range(40)]
    handles = [_queue(connection, max_retries=1) for _ in range(3)]
    stop, running, runs, wrong = threading.Event(), set[str](), list[str](), list[str]()
    outcomes = (None, RuntimeError("no luck"), TerminalError("no"), Result(requeue_after=0.001))

    def work(queue: Queue, dice: random.Random) -> None:
        for request in queue.listen():
            wrong.extend(running & {request.key})
            running.add(request.key)
            runs.append(request.key)
            running.discard(request.key)
            wrong.extend([] if queue.settle(request, dice.choice(outcomes)) else ["refused"])

    def repair(dice: random.Random) -> None:
        while not stop.is_set():
            change = dice.choice((inspector.requeue, inspector.delete, inspector.park))
            change("foos", *dice.sample(keys, 10))
            handles[0].add(*dice.sample(keys, 10))
            dice.choice((inspector.pause, inspector.resume))("foos")

    handles[0].add(*keys)
    workers = [
        threading.Thread(target=work, args=(queue, random.Random(n))) for n, queue in enumerate(handles)
    ]
    operators = [threading.Thread(target=repair, args=(random.Random(n),)) for n in (7, 8)]
    for thread in (*workers, *operators):
        thread.start()
    eventually(lambda: len(runs) > 300)
    stop.set()
    for thread in operators:
        thread.join(30)
    inspector.resume("foos")
    inspector.requeue("foos", state="dead")
    eventually(lambda: not inspector.queues("foos")[0].ready)  # nothing is forgotten
    for queue in handles:
        queue.shut_down_with_drain(10)
    for thread in workers:
        thread.join(30)
    assert not wrong
    inspector.delete("foos", state="ready")
    inspector.delete("foos", state="delayed")
    inspector.delete("foos", state="dead")
    info = inspector.queues("foos")[0]
    assert info.processing == info.dirty == info.failing == 0
    for queue in handles:
        queue.close()


def test_a_queue_that_is_not_there_is_not_made_by_a_repair(
    connection: Connection, inspector: Inspector
) -> None:
    """A typo is a typed error, and does not show up among the queues."""
    for repair in (inspector.pause, inspector.resume):
        with pytest.raises(ConfigError, match='no queue "fooz": nothing was ever added to it'):
            repair("fooz")
    for change in (inspector.park, inspector.requeue, inspector.delete):
        with pytest.raises(ConfigError, match='no queue "fooz"'):
            change("fooz", "a")
    assert connection.execute("DBSIZE") == 0


@pytest.mark.bound("REASON_BYTES")
@pytest.mark.parametrize("reason", ["", "two\nlines", "\x1b[31m", "ä" * 129, "\ud800"])
def test_a_reason_is_one_printable_line(connection: Connection, inspector: Inspector, reason: str) -> None:
    """It is shown where errors are shown: 1 to 256 bytes without control characters."""
    _queue(connection).add("a")
    with pytest.raises(ConfigError, match=r"bad reason .* Use one line of 1 to 256 bytes"):
        inspector.park("foos", "a", reason=reason)
    with pytest.raises(ConfigError, match="no items chosen"):
        inspector.park("foos")
    with pytest.raises(InvalidKey):
        inspector.park("foos", "a", "")
    assert _item(inspector, "a").state == "ready"
    assert inspector.park("foos", "a", reason="ä" * 128) == 1


@pytest.fixture
def handles(connection: Connection, workers: int) -> Iterator[list[Queue]]:
    """Give handles of so many workers; their heartbeats end also where the test fails."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(_queue(connection))) for _ in range(workers)]


@pytest.mark.parametrize(("workers", "priorities"), [(3, 1), (3, 30), (200, 1), (200, 30)])
def test_reads_cost_the_same_round_trips_for_any_queue(
    redis_server: EmbeddedValkey, connection: Connection, handles: list[Queue], workers: int, priorities: int
) -> None:
    """With any workers, priorities and queues: large answers come together with small ones."""
    handles[0].add(*(f"held-{n}" for n in range(workers)))
    for handle in handles:
        handle.turn([], 1)
    for priority in range(priorities):
        handles[0].add(f"a-{priority}", f"b-{priority}", priority=50 * priority - 800)
    Queue("bars", connection).add("a")
    counting = CountingConnection(redis_server.url)
    inspector = Inspector(counting)
    bars, foos = inspector.queues()
    assert (foos.ready, foos.processing, foos.workers) == (2 * priorities, workers, workers)
    assert (bars.ready, bars.workers) == (1, 0)
    assert [worker.processing for worker in inspector.workers()] == [1] * workers
    reads: dict[Callable[[], object], int] = {
        inspector.queues: 3 if priorities == 1 else 5,
        inspector.workers: 3,
        inspector.streams: 3,
        lambda: inspector.item("foos", "held-0"): 2,
        lambda: inspector.items("foos"): 4,
    }
    for read, round_trips in reads.items():
        counting.round_trips = 0
        read()
        assert counting.round_trips == round_trips
    counting.close()


def test_a_user_with_rights_to_read_alone_may_inspect(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """No read needs a right to run scripts, or to write."""
    queue = _queue(connection)
    queue.add("held", "dirty", "ready")
    queue.get()
    rights = ("resetkeys", "~distq:*", "-@all", "+@read", "+@connection", "+time", "+info")
    connection.execute("ACL", "SETUSER", "viewer", "on", ">PASSWORD", *rights)
    viewing = Connection(f"redis://viewer:PASSWORD@127.0.0.1:{redis_server.port}/0")
    inspector = Inspector(viewing)
    assert [info.ready for info in inspector.queues()] == [2]
    assert [worker.processing for worker in inspector.workers()] == [1]
    assert inspector.streams() == []
    assert inspector.item("foos", "held") is not None
    assert len(inspector.items("foos")) == len(inspector.items("foos", match="*d*")) == 3
    assert inspector.count("foos", state="ready", match="*") == 2
    (found,) = inspector.view("foos", Wanted(rows=Rows("ready"), key="held", errors=True)).queues
    assert [item.key for item in found.items] == ["dirty", "ready"]
    with pytest.raises(RedisRefused, match="denied"):
        inspector.pause("foos")
    viewing.close()
    connection.execute("ACL", "DELUSER", "viewer")
    queue.close()
