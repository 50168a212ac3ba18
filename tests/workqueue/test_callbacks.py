"""A limiter and ``on_cancel`` run within a turn: what they must not call is refused, and the turn ends."""

import os
import threading
from collections.abc import Callable

import pytest

from distq.errors import ConfigError
from distq.redisio.connection import Connection
from distq.workqueue.memory.queue import MemoryQueue
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request

on_one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

CALLS: dict[str, Callable[[Queue | MemoryQueue, Request], object]] = {
    "settle": lambda queue, request: queue.settle(request),
    "get": lambda queue, _: queue.get(0),
    "add_rate_limited": lambda queue, _: queue.add_rate_limited("b"),
    "release": lambda queue, request: queue.release(request),
}


@pytest.fixture(params=["redis", "memory"])
def make(request: pytest.FixtureRequest, connection: Connection) -> Callable[..., Queue | MemoryQueue]:
    """Return how a queue is made, in Redis or in memory."""
    if request.param == "memory":
        return lambda **options: MemoryQueue("foos", **options)
    return lambda **options: Queue("foos", connection, **options)


@on_one_redis
@pytest.mark.parametrize("call", CALLS)
def test_a_limiter_that_makes_a_turn_is_refused(
    make: Callable[..., Queue | MemoryQueue], call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The limiter's turn would wait for the one that calls it; that one ends, with the default back-off."""

    def limiter(_: object) -> float:
        with pytest.raises(ConfigError, match="in the middle of a turn"):
            CALLS[call](queue, claim)
        queue.add("added")
        raise ValueError("no delay")

    queue = make(rate_limiter=limiter)
    queue.add("a")
    claim = queue.get(0)
    queue.settle(claim, ValueError("again"))
    assert queue.num_requeues("a") == 1
    assert "backing off by default" in caplog.text
    assert queue.get(0).key == "added"
    queue.close()


@on_one_redis
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("ends", ["closed", "lost"])
def test_on_cancel_that_makes_a_turn_is_refused(connection: Connection, call: str, ends: str) -> None:
    """It is called under the turn lock: the handle works on."""
    refused = list[BaseException]()

    def cancelled(request: Request) -> None:
        with pytest.raises(ConfigError) as caught:
            CALLS[call](queue, request)
        refused.append(caught.value)
        queue.add("added")

    queue = Queue("foos", connection)
    queue.add("a")
    claim = queue.get(0)
    queue.on_cancel = cancelled
    if ends == "lost":
        connection.execute("FLUSHALL")
        assert not queue.settle(claim)
    queue.close()
    queue.on_cancel = None
    assert len(refused) == 1
    assert {queue.get(0).key for _ in range(queue.depth())} >= {"added"}
    queue.close()


@on_one_redis
def test_a_drain_within_on_cancel_does_not_wait(connection: Connection) -> None:
    """The thread that found the claim gone has the turn lock, without which no other claim can end."""
    drained = list[bool]()
    queue = Queue("foos", connection)
    queue.on_cancel = lambda _: drained.append(queue.shut_down_with_drain())
    queue.add("gone", "held")
    held = [queue.get(0), queue.get(0)][1]
    connection.execute("ZREM", queue._session.store.key("processing"), "gone")
    comparing = threading.Thread(target=queue._session.recount, daemon=True)
    comparing.start()
    comparing.join(20)
    assert drained == [False]
    assert queue.settle(held)
    assert queue.shut_down_with_drain(0)


@on_one_redis
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the thread below does not matter to the child
def test_a_child_of_a_fork_takes_no_thread_for_one_of_its_parents(connection: Connection) -> None:
    """Its threads may get the idents of threads that were in ``on_cancel`` when it was forked."""
    entered, leave = threading.Event(), threading.Event()

    def cancelled(_: Request) -> None:
        entered.set()
        leave.wait(20)

    queue = Queue("foos", connection)
    queue.on_cancel = cancelled
    queue.add("a")
    queue.get(0)
    queue.add("b")
    closing = threading.Thread(target=queue.close)
    closing.start()
    assert entered.wait(20)
    if (child := os.fork()) == 0:
        try:
            queue.get(0)
            os._exit(0)
        finally:
            os._exit(1)
    leave.set()
    closing.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
