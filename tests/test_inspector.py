"""The Inspector sees what handles did, and repairs it, on each kind of Redis."""

import pytest

from distq.errors import ConfigError, InvalidKey, InvalidQueueName, TerminalError
from distq.inspector import Inspector, ItemInfo, Timestamp
from distq.redisio.connection import Connection
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue


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


def test_depth_counts_what_is_due_though_no_worker_lives(
    connection: Connection, inspector: Inspector
) -> None:
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
    """Each state tells since when, and what else there is to know of it."""
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


def test_a_parked_item_tells_why(connection: Connection, inspector: Inspector) -> None:
    """The reason, the error and the end of the traceback stay until somebody acts."""
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
    assert "test_a_parked_item_tells_why" in (item.traceback or "")
    queue.close()


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
    """A handle shows until it is closed, with what it holds."""
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
