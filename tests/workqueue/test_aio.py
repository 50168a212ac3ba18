"""The producer's calls for coroutines: what the plain ones do, on no event loop's time."""

import asyncio
import threading

import pytest

from distq.errors import InvalidKey, QueueFull, RedisUnavailable
from distq.redisio.connection import Connection
from distq.workqueue import aio
from distq.workqueue.aio import AsyncQueue
from distq.workqueue.engine import RateLimitedAdd
from distq.workqueue.interface import Turn
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue

PRODUCER = {"add", "add_after", "add_rate_limited", "forget", "num_requeues", "is_dirty", "depth"}


def test_all_calls_of_a_producer_can_be_awaited(connection: Connection) -> None:
    """They do what the plain ones do, and raise what these raise."""
    queue = Queue("foos", connection, max_length=3)

    async def produce() -> None:
        assert await queue.aio.add("a", "b", priority=5) == 2
        assert await queue.aio.add("a") == 0
        assert await queue.aio.depth() == 2
        await queue.aio.add_after("c", 600)
        assert await queue.aio.depth() == 2
        await queue.aio.add_rate_limited("a")
        assert await queue.aio.num_requeues("a") == 1
        await queue.aio.forget("a")
        assert await queue.aio.num_requeues("a") == 0
        assert not await queue.aio.is_dirty("a")
        with pytest.raises(InvalidKey):
            await queue.aio.add("")
        with pytest.raises(QueueFull) as full:
            await queue.aio.add("d")
        assert full.value.accepted == 0

    asyncio.run(produce())
    assert {name for name in vars(AsyncQueue) if name[0] != "_"} == PRODUCER


def test_a_queue_in_memory_has_them_too() -> None:
    """A test needs no other code."""
    queue = MemoryQueue("foos")
    assert asyncio.run(queue.aio.add("a")) == 1
    assert queue.get(0).key == "a"


def test_a_redis_that_hangs_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other coroutines go on, and a call that waits for a thread can be cancelled."""
    queue, go = MemoryQueue("foos"), threading.Event()
    added: list[str] = []
    add = queue.add

    def hang(*keys: str, **options: object) -> int:
        go.wait(60)
        added.extend(keys)
        return add(*keys)

    monkeypatch.setattr(queue, "add", hang)

    async def produce() -> None:
        adds = [asyncio.create_task(queue.aio.add(f"key-{number}")) for number in range(aio.THREADS)]
        last = asyncio.create_task(queue.aio.add("last"))
        for _ in range(10):
            await asyncio.sleep(0)
        last.cancel()
        with pytest.raises(asyncio.CancelledError):
            await last
        go.set()
        assert await asyncio.gather(*adds) == [1] * aio.THREADS

    asyncio.run(produce())
    assert len(added) == aio.THREADS
    assert "last" not in added


def test_a_failure_that_redis_did_not_answer_counts_for_its_own_coroutine_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next call of its thread may be another coroutine's, which counts a failure of its own."""
    queue = MemoryQueue("foos")
    turn, answers = queue._session.turn, [True, False]
    entries: list[object] = []

    def unanswered(made: list[RateLimitedAdd], want: int) -> Turn:
        entries.extend(made)
        if answers.pop():
            return turn(made, want)
        raise RedisUnavailable("no answer")

    monkeypatch.setattr(queue._session, "turn", unanswered)
    monkeypatch.setattr(aio, "_calls", type(aio._calls)(1, "one-thread"))

    async def fail() -> None:
        with pytest.raises(RedisUnavailable):
            await queue.aio.add_rate_limited("a")
        await queue.aio.add_rate_limited("a")

    asyncio.run(fail())
    first, second = entries
    assert first is not second, "the second would repeat the first one's call"
    assert queue.num_requeues("a") == 1
