"""Shutting down in a signal's handler, wherever the main thread is, and while a turn is under way.

Each program runs in a process of its own, since handlers run in the main thread: one that hangs is killed.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from redis.connection import HiredisRespSerializer

from distq.errors import Empty
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Retry, Settlement
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import Failure
from distq.workqueue.request import Request
from tests.support.redis_servers import anywhere
from tests.support.signalled import signalled
from tests.workqueue.test_session import Slow

Make = Callable[..., Queue]

MAKES = {"redis": 'Queue("foos", sys.argv[1])', "memory": 'MemoryQueue("foos")'}
PROGRAM = """
import random, signal, sys, threading, time
from distq.workqueue import MemoryQueue, Queue

def run(work, after):
    "Let the handler come while the main thread works, and see it end."
    global queue
    queue = {make}
    signal.setitimer(signal.ITIMER_REAL, after)
    work()
    assert queue.shutting_down
    assert not queue.held(), queue.held()

def listen():
    for request in queue.listen():
        queue.settle(request)

signal.signal(signal.SIGALRM, lambda *_: queue.{shut_down})
"""
ASLEEP = """
run(listen, 0.2)
"""
ANYWHERE = """
def feed():
    queue.add(*"abc", after=random.choice([None, 0.001]))
    listen()

def among_threads():
    threads = [threading.Thread(target=feed) for _ in range(3)]
    for thread in threads:
        thread.start()
    feed()
    for thread in threads:
        thread.join()

random.seed(1)
for _ in range(150):
    run(feed, random.uniform(0.0005, 0.01))
for _ in range(50):
    run(among_threads, random.uniform(0.0005, 0.02))
"""


def _run(program: str, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, url], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.first_contact(1)
@pytest.mark.parametrize("shut_down", ["shut_down()", "shut_down_with_drain()"], ids=["at once", "drain"])
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.usefixtures("connection")  # empties the database
def test_a_handler_may_shut_down_the_queue_that_its_own_thread_sleeps_in(
    redis_server: EmbeddedValkey, make: str, shut_down: str
) -> None:
    """The sleep ends, and with it listen; the thread that slept closes the connection that it blocked on."""
    _run(PROGRAM.format(make=MAKES[make], shut_down=shut_down) + ASLEEP, redis_server.url)


@pytest.mark.first_contact(1)
@pytest.mark.parametrize("shut_down", ["shut_down()", "shut_down_with_drain(0.02)"], ids=["at once", "drain"])
@pytest.mark.parametrize("make", MAKES)
def test_a_handler_may_shut_down_at_any_moment(
    redis_server: EmbeddedValkey, connection: Connection, make: str, shut_down: str
) -> None:
    """In a turn, between turns, asleep, alone and beside threads: all end, and nothing is held afterwards."""
    _run(PROGRAM.format(make=MAKES[make], shut_down=shut_down) + ANYWHERE, redis_server.url)
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 0
    assert connection.execute("ZCARD", "distq:{foos}:processing") == 0


@pytest.mark.first_contact(1)
def test_a_handler_that_comes_while_its_thread_waits_holds_up_no_turn_of_other_threads(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """A drain there sees such a turn end, though that turn ends the waits of the handle."""
    slow = Slow(redis_server.url)
    queue = Queue("foos", slow)
    queue.turn([], 0)
    drained: list[bool] = []

    def handler(*_: object) -> None:
        connection.execute("FLUSHDB")  # the turn finds no session, and informs the threads that wait
        slow.slowly = True
        turning = threading.Thread(target=lambda: queue.turn([], 1), daemon=True)
        turning.start()
        assert slow.under_way.wait(10)
        slow.go_on.set()
        drained.append(queue.shut_down_with_drain(timeout=10))

    with signalled(lambda: queue._session._sleeper._waiting == 1, handler):
        queue.wait(30)
    assert drained == [True]


def test_no_number_is_left_for_hiredis_to_pack(
    redis_server: EmbeddedValkey, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal's handler that raises, as Ctrl-C does, would crash the process in the midst of that."""
    packed: list[object] = []
    pack = HiredisRespSerializer.pack

    def noted(self: HiredisRespSerializer, *parts: Any) -> Any:
        packed.extend(parts)
        return pack(self, *parts)

    queue = Queue("foos", Connection(redis_server.url))
    with pytest.raises(Empty):
        queue.get(0.01)  # it is connected
    monkeypatch.setattr(HiredisRespSerializer, "pack", noted)
    queue.add("a", priority=5)
    queue.add("b", after=0.01)
    for _ in range(2):
        queue.settle(queue.get(30))
    with pytest.raises(Empty):
        queue.get(0.5)  # longer than its turn takes, so that it sleeps
    queue.close()
    assert "BLPOP" in packed
    assert [part for part in packed if not isinstance(part, str | bytes)] == []


# Drains and turns


@pytest.mark.first_contact(2)
def test_a_drain_waits_for_the_claim_that_a_turn_under_way_brings(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """After it has returned True nothing of the handle begins."""
    slow = Slow(redis_server.url)
    queue = Queue("foos", slow)
    queue.turn([], 0)
    queue.add("a")
    got: list[Request] = []
    getting = threading.Thread(target=lambda: got.append(queue.get()))
    slow.slowly = True
    getting.start()
    assert slow.under_way.wait(10)
    assert not queue.shut_down_with_drain(timeout=0.05)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(queue.shut_down_with_drain(timeout=30)))
    draining.start()
    slow.go_on.set()
    getting.join(10)
    draining.join(0.05)
    assert draining.is_alive()
    assert queue.settle(got[0])
    draining.join(10)
    assert drained == [True]


@pytest.mark.first_contact(1, 2)
@anywhere
def test_a_drain_in_a_turn_of_its_own_thread_does_not_wait_for_it(make_queue: Make) -> None:
    """That turn goes on only afterwards, so the drain cannot know what it brings."""
    said: list[bool] = []

    def back_off(_: Failure) -> float:
        said.append(queue.shut_down_with_drain())
        return 1.0

    queue = make_queue(rate_limiter=back_off)
    queue.add("a", "b")
    request = queue.get(0)
    turning = threading.Thread(target=lambda: queue.turn([Settlement(request, Retry("no"))], 1), daemon=True)
    turning.start()
    turning.join(10)
    assert not turning.is_alive()
    assert said == [False]
