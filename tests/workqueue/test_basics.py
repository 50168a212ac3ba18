"""Adding, claiming and ending: client-go's plain queue, promise by promise."""

import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.redisio.connection import Connection
from distq.workqueue.interface import WorkQueue
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.options import QueueKeywords
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.claims import claim, finish_all, nothing_to_claim
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

Make = Callable[..., Queue]

CLIENT_GO = {
    "Add": "add",
    "Len": "depth",
    "Get": "get",
    "Done": "done",
    "ShutDown": "shut_down",
    "ShutDownWithDrain": "shut_down_with_drain",
    "ShuttingDown": "shutting_down",
    "AddAfter": "add_after",
    "AddRateLimited": "add_rate_limited",
    "Forget": "forget",
    "NumRequeues": "num_requeues",
}


@pytest.mark.conformance("WQ-01", "PQ-01")
@pytest.mark.parametrize("kind", [WorkQueue, Queue, MemoryQueue])
def test_a_queue_has_all_methods_of_client_gos(kind: type) -> None:
    """In Python's spelling; Len is called depth, because it counts something else."""
    for name in CLIENT_GO.values():
        assert inspect.getdoc(getattr(kind, name)), name


@pytest.mark.conformance("WQ-02", "WQ-23")
def test_a_queue_is_made_with_name_limiter_clock_and_metrics_but_no_order_of_its_own() -> None:
    """Its order is by priority and time, kept in one score; another one could not be shared by processes."""
    assert "name" in inspect.signature(Queue).parameters
    assert QueueKeywords.__annotations__.keys() >= {"rate_limiter", "clock", "metrics"}
    with pytest.raises(TypeError):
        Queue("foos", queue=[])  # type: ignore[call-arg]  # client-go's Queue option
    with pytest.raises(ConfigError):
        Queue("")


@pytest.mark.conformance("WQ-03", "WQ-14")
@anywhere
def test_an_added_item_is_counted_and_handed_out(queue: Queue) -> None:
    """client-go TestLen: two items, although one of them is added twice."""
    assert queue.add("foo") == 1
    assert queue.depth() == 1
    assert queue.add("bar") == 1
    assert queue.depth() == 2
    assert queue.add("foo") == 0
    assert queue.depth() == 2
    assert claim(queue, 2) == ["foo", "bar"]


@pytest.mark.conformance("WQ-04", "WQ-15")
@anywhere
def test_an_item_that_is_added_again_keeps_its_place(queue: Queue) -> None:
    """client-go TestCollapse: many adds, one run, at the place of the first."""
    queue.add("bar")
    queue.add("foo")
    queue.add("bar")
    bar = queue.get(0)
    assert bar.key == "bar"
    assert queue.done(bar)
    assert finish_all(queue) == ["foo"]
    assert queue.depth() == 0


@pytest.mark.conformance("WQ-05", "WQ-11", "PQ-09")
@anywhere
def test_an_item_that_is_added_while_held_comes_back_when_its_claim_ends(queue: Queue) -> None:
    """client-go TestReinsert: it is dirty, handed to no worker, then ready."""
    queue.add("foo")
    foo = queue.get(0)
    assert not queue.is_dirty("foo")
    assert queue.add("foo") == 1
    assert queue.is_dirty("foo")
    assert nothing_to_claim(queue)
    assert queue.done(foo)
    assert not queue.is_dirty("foo")
    foo = queue.get(0)
    assert queue.done(foo)
    assert queue.depth() == 0
    assert nothing_to_claim(queue)


@pytest.mark.conformance("WQ-06", "WQ-12")
@anywhere
def test_adds_while_held_collapse_and_a_waiting_get_has_the_item_once(queue: Queue) -> None:
    """client-go TestCollapseWhileProcessing: another get waits until the claim ends."""
    got: list[Request] = []
    queue.add("foo")
    foo = queue.get(0)
    assert queue.add("foo") == 1
    assert queue.add("foo") == 0
    waiting = threading.Thread(target=lambda: got.append(queue.get()), daemon=True)
    waiting.start()
    waiting.join(timeout=0.1)
    assert waiting.is_alive()
    assert queue.done(foo)
    waiting.join(timeout=10)
    assert [request.key for request in got] == ["foo"]
    assert queue.done(got[0])
    assert queue.depth() == 0
    assert nothing_to_claim(queue)


@pytest.mark.conformance("WQ-06")
@anywhere
def test_an_add_while_held_and_dirty_can_raise_the_item(queue: Queue) -> None:
    """It is the same entry: a higher priority counts, an equal or lower one changes nothing."""
    queue.add("foo", "bar")
    foo = queue.get(0)
    queue.add("foo")
    queue.add("foo", priority=3)
    queue.add("foo", priority=2)
    queue.done(foo)
    foo = queue.get(0)
    assert (foo.key, foo.priority) == ("foo", 3)


@pytest.mark.conformance("WQ-08", "PQ-19")
@anywhere
def test_a_get_waits_until_there_is_an_item(queue: Queue) -> None:
    """It does not end empty, and takes the next item."""
    got: list[Request] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()), daemon=True)
    waiting.start()
    waiting.join(timeout=0.1)
    assert waiting.is_alive()
    queue.add("foo")
    waiting.join(timeout=10)
    assert [request.key for request in got] == ["foo"]


@pytest.mark.conformance("WQ-15", "PQ-09")
@anywhere
def test_after_its_claim_an_item_has_the_place_of_its_add(queue: Queue, server_time: ServerTime) -> None:
    """client-go appends it when the claim ends; here a long run costs it no place."""
    queue.add("foo")
    foo = queue.get(0)
    queue.add("before")
    server_time.advance(1)
    queue.add("foo")
    server_time.advance(1)
    queue.add("after")
    queue.done(foo)
    assert claim(queue, 3) == ["before", "foo", "after"]


@pytest.mark.conformance("WQ-D2", "RD-03")
@anywhere
def test_the_end_of_a_claim_that_is_not_held_changes_nothing(make_queue: Make) -> None:
    """Of an item that waits, of one that another handle holds, of one that is gone: False, no duplicate."""
    queue, other = make_queue(), make_queue()
    queue.add("foo")
    foo = queue.get(0)
    assert queue.done(foo)
    assert not queue.done(foo)
    queue.add("foo")
    assert not queue.done(foo)
    assert queue.depth() == 1
    claimed = other.get(0)
    assert not queue.done(foo)
    assert not queue.settle(claimed, ValueError("not mine"))
    assert queue.num_requeues("foo") == 0
    assert other.done(claimed)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("WQ-14", "DQ-13", "PQ-08", "RD-16")
@anywhere
def test_depth_counts_the_items_that_wait_for_a_worker(queue: Queue, server_time: ServerTime) -> None:
    """Ready, added while held, and due, though no process looked; not what is held or has time left."""
    queue.add("held", "ready", "dirty")
    held, _, _ = (queue.get(0) for _ in range(3))
    queue.add("ready")
    assert queue.depth() == 1
    queue.add("dirty")
    assert queue.depth() == 2
    queue.add_after("due", 1)
    queue.add_after("later", 60)
    assert queue.depth() == 2
    server_time.advance(1)
    assert queue.depth() == 3
    queue.done(held)
    assert queue.depth() == 3


@pytest.mark.conformance("WQ-22", "RL-15")
def test_nothing_of_an_item_is_left_once_it_is_done_and_forgotten(
    queue: Queue, connection: Connection
) -> None:
    """While the queue lives on: no field or member of any key names it."""
    queue.add("other")
    queue.add("item-to-forget")
    queue.add_rate_limited("item-to-forget")
    finish_all(queue)
    queue.forget("item-to-forget")
    assert not [
        key for key in connection.execute("KEYS", "*") if b"item-to-forget" in _content(connection, key)
    ]
    assert queue.depth() == 0


def _content(connection: Connection, key: bytes) -> bytes:
    commands: dict[bytes, tuple[Any, ...]] = {
        b"zset": ("ZRANGE", key, 0, -1),
        b"hash": ("HGETALL", key),
        b"list": ("LRANGE", key, 0, -1),
        b"string": ("GET", key),
    }
    return repr(connection.execute(*commands[connection.execute("TYPE", key)])).encode()
