"""Waiting in real time: the threads of one handle, and processes that are killed, stopped or cut off.

What is awaited are conditions; a wake-up that is lost shows as LONG waits that SOON does not see end.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from distq.errors import Empty, ShutDown
from distq.redisio.connection import Connection
from distq.redisio.sleeper import Sleeper
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.eventually import eventually
from tests.support.tcp_proxy import TcpProxy

WAKE = "distq:{foos}:wake"
LONG, SOON = 100.0, 10.0


def _blocked(connection: Connection) -> int:
    information = connection.execute("INFO", "clients")
    return int(information.partition(b"blocked_clients:")[2].split()[0])


# The threads of one handle


class Waiters:
    """Threads that wait once, and the order in which they ended."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sleeper = Sleeper(connection, WAKE)
        self.ended: list[str] = []
        self._threads: list[threading.Thread] = []

    def wait(self, name: str, seconds: float = LONG, at_most: float | None = None) -> None:
        """Let one more thread wait, behind those that do."""
        waiting = self.sleeper._waiting

        def work() -> None:
            self.sleeper.wait(seconds, at_most)
            self.ended.append(name)

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()
        eventually(lambda: self.sleeper._waiting > waiting or name in self.ended, f"{name} waits")
        eventually(lambda: _blocked(self.connection) or name in self.ended, "one sleeps on Redis")

    def wake(self) -> None:
        """Give one token, and see it taken."""
        self.connection.execute("RPUSH", WAKE, 1)
        eventually(lambda: not self.connection.execute("LLEN", WAKE), "the token is taken")

    def close(self) -> None:
        """End all waits."""
        self.sleeper.end()
        for thread in self._threads:
            thread.join(SOON)
            assert not thread.is_alive()
        self.sleeper.close()


@pytest.fixture
def waiters(connection: Connection) -> Iterator[Waiters]:
    """Let threads of one handle wait."""
    waiters = Waiters(connection)
    yield waiters
    waiters.close()


def test_a_token_wakes_one_thread_and_the_one_that_waits_longest_sleeps_next(waiters: Waiters) -> None:
    """Threads take turns, and none has to look in between."""
    for name in "abc":
        waiters.wait(name)
    for name in "abc":
        waiters.wake()
        eventually(lambda name=name: waiters.ended[-1:] == [name], f"{name} wakes")  # type: ignore[misc]
        eventually(lambda: _blocked(waiters.connection) or len(waiters.ended) == 3, "the next sleeps")
    assert waiters.ended == list("abc")


def test_the_sleeper_wakes_at_the_earliest_time_that_any_thread_got(waiters: Waiters) -> None:
    """A turn of another thread may cover a due time before the sleeper meant to wake."""
    waiters.wait("sleeps for long")
    waiters.wait("got a due time", seconds=0.05)
    eventually(lambda: waiters.ended == ["sleeps for long"], "a thread looks")
    eventually(lambda: waiters.ended[1:] == ["got a due time"], "the one that took over looks no later")


def test_a_thread_whose_timeout_ends_leaves_and_the_others_sleep_on(waiters: Waiters) -> None:
    """Whether it slept for the others or was ready."""
    waiters.wait("sleeps", at_most=0.1)
    waiters.wait("is ready", at_most=0.05)
    waiters.wait("stays")
    eventually(lambda: sorted(waiters.ended) == ["is ready", "sleeps"], "both leave")
    eventually(lambda: _blocked(waiters.connection), "the other sleeps")
    waiters.wake()
    eventually(lambda: waiters.ended[2:] == ["stays"], "it wakes")


def test_an_interrupt_ends_all_waits_of_a_handle_or_the_next_one(waiters: Waiters) -> None:
    """It is for any waiting thread, asleep or ready; where none waits it is kept, once."""
    for name in "abc":
        waiters.wait(name)
    waiters.sleeper.interrupt()
    eventually(lambda: sorted(waiters.ended) == list("abc"), "all end")
    waiters.sleeper.interrupt()
    waiters.sleeper.interrupt()
    waiters.wait("d")
    eventually(lambda: waiters.ended[3:] == ["d"], "it ends")
    waiters.wait("e")
    assert waiters.sleeper._waiting == 1


def test_no_interrupt_is_lost_at_any_moment_of_the_sleep(connection: Connection) -> None:
    """A value noted before an interrupt is seen: it comes while one falls asleep, sleeps, or wakes."""
    sleeper = Sleeper(connection, WAKE)
    noted, seen = 0, 0
    changed = threading.Condition()

    def work() -> None:
        nonlocal seen
        while seen >= 0:
            if seen == noted:
                sleeper.wait(LONG)
            with changed:
                seen = noted if seen >= 0 else seen
                changed.notify()

    working = threading.Thread(target=work)
    working.start()
    for number in range(1, 1000):
        noted = number
        if number % 3 == 0:
            connection.execute("RPUSH", WAKE, 1)
        sleeper.interrupt()
        with changed:
            assert changed.wait_for(lambda: seen == noted, SOON), f"interrupt {number} was lost"  # noqa: B023  # at once
    with changed:
        seen = -1
    sleeper.end()
    working.join(SOON)
    assert not working.is_alive()
    sleeper.close()


# Handles


@pytest.mark.conformance("WQ-08", "PQ-19")
def test_threads_of_a_handle_get_their_turn_one_after_another(connection: Connection) -> None:
    """No thread starves: one that was served waits behind the others."""
    queue = Queue("foos", connection)
    served: Counter[str] = Counter()

    def work() -> None:
        for request in queue.listen():
            served[threading.current_thread().name] += 1
            queue.settle(request)

    threads = [threading.Thread(target=work, name=name) for name in "abcd"]
    for thread in threads:
        thread.start()
    waits = queue._session._sleeper
    for number in range(40):
        eventually(lambda: waits._waiting == 4 and _blocked(connection) == 1, "all wait")
        queue.add(f"k{number}")
        eventually(lambda number=number: served.total() == number + 1, "it is served")  # type: ignore[misc]
    queue.shut_down()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert min(served.values()) >= 2  # of 10; a busy machine delays who is next, one that starves has 0


def test_a_timeout_ends_a_get_beside_one_that_waits(connection: Connection) -> None:
    """Each has its own timeout, and a later item goes to the get that still waits."""
    queue = Queue("foos", connection)
    got: list[Request] = []
    staying = threading.Thread(target=lambda: got.append(queue.get()))
    staying.start()
    for _ in range(5):
        with pytest.raises(Empty):
            queue.get(timeout=0.01)
    queue.add("a")
    staying.join(SOON)
    assert [request.key for request in got] == ["a"]
    queue.settle(got[0])
    queue.close()


def test_a_closed_handle_passes_its_wake_up_on(connection: Connection) -> None:
    """It took the token and makes no turn any more; another handle is woken."""
    leaving = Queue("foos", connection)
    with pytest.raises(Empty):
        leaving.get(0)
    leaving.add("a")
    assert connection.execute("LPOP", WAKE)
    leaving.shut_down()
    with pytest.raises(ShutDown):
        leaving.get()
    assert connection.execute("LLEN", WAKE) == 1


def test_a_handle_that_holds_a_suspect_covers_no_due_time(connection: Connection) -> None:
    """It asks for nothing until that ends, so another is woken to cover what is due."""
    holder, other = Queue("foos", connection), Queue("foos", connection)
    with pytest.raises(Empty):
        other.get(0)
    holder.add("suspect")
    connection.execute("HSET", "distq:{foos}:failures", "suspect", "0 2 0 - ")
    holder.add_after("later", 0.5)
    connection.execute("DEL", WAKE)
    assert [request.key for request in holder.turn([], 5).requests] == ["suspect"]
    assert connection.execute("LLEN", WAKE) == 1
    assert other.turn([], 1).wait <= 0.5
    for queue in (holder, other):
        queue.close()


def test_parent_and_child_of_a_fork_wait_apart(connection: Connection) -> None:
    """The child has a sleep and a connection of its own, and ends no other's."""
    queue = Queue("foos", connection)
    got: list[Request] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()))
    waiting.start()
    eventually(lambda: _blocked(connection) == 1, "the parent sleeps")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            queue.interrupt()  # its own next wait
            request = queue.get(timeout=SOON)
            code = 0 if request.key in {"a", "b"} and queue.settle(request) else 2
            queue.close()
        finally:
            os._exit(code)
    eventually(lambda: _blocked(connection) == 2, "both sleep")
    queue.add("a")
    queue.add("b")
    assert os.waitpid(child, 0)[1] == 0
    waiting.join(SOON)
    assert len(got) == 1
    assert queue.settle(got[0])
    queue.close()


FORKING = """
import os, sys, threading
from distq.workqueue.queue import Queue
queue = Queue("foos", sys.argv[1])
threading.Thread(target=queue.get, daemon=True).start()
while not queue._session._sleeper._is_asleep:
    pass
if sys.stdin.readline() and os.fork():
    print("forked", flush=True)
sys.stdin.read()
"""


def test_no_pop_outlives_its_process_in_the_child_of_a_fork(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """It would take a token, and claim the item, for a session whose process was killed."""
    parent = subprocess.Popen(
        [sys.executable, "-c", FORKING, redis_server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    eventually(lambda: _blocked(connection) == 1, "it sleeps on Redis", timeout=60)
    parent.stdin.write("fork\n")
    parent.stdin.flush()
    assert parent.stdout.readline() == "forked\n"
    parent.kill()
    eventually(lambda: _blocked(connection) == 0, "its pop is gone")
    parent.communicate()


# Processes

CONSUMER = """
import sys
from distq.workqueue.queue import Queue
queue = Queue("foos", sys.argv[1], claim_duration=5)
for request in queue.listen():
    queue.settle(request)
    print(request.key, flush=True)
"""


class Processes:
    """Consumers in processes of their own, each through a proxy of its own."""

    def __init__(self, server: EmbeddedValkey, connection: Connection, size: int) -> None:
        self.connection = connection
        self.proxies = [TcpProxy(("127.0.0.1", server.port)).__enter__() for _ in range(size)]
        self.processes: list[subprocess.Popen[str]] = []
        for proxy in self.proxies:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", CONSUMER, f"redis://127.0.0.1:{proxy.port}/0"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
        eventually(lambda: _blocked(connection) == size, "all wait", timeout=60)

    def close(self) -> None:
        """Kill what lives."""
        for process in self.processes:
            process.kill()
            process.communicate()
        for proxy in self.proxies:
            proxy.mode = "refuse"


def _kill(fleet: Processes, which: int) -> None:
    os.kill(fleet.processes[which].pid, signal.SIGKILL)


def _stop(fleet: Processes, which: int) -> None:
    os.kill(fleet.processes[which].pid, signal.SIGSTOP)


def _cut(fleet: Processes, which: int) -> None:
    fleet.proxies[which].mode = "hang"


@pytest.fixture
def processes(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Processes]:
    """Start three consumers, and let them wait."""
    fleet = Processes(redis_server, connection, 3)
    yield fleet
    fleet.close()


def _coverer(processes: Processes) -> int | None:
    """Return which of the processes covers the next due time."""
    number = processes.connection.execute("HGET", "distq:{foos}:meta", "coverer")
    worker = number and processes.connection.execute("HGET", "distq:{foos}:workers", number)
    pids = [f'"pid": {process.pid},'.encode() for process in processes.processes]
    return next((which for which, pid in enumerate(pids) if worker and pid in worker), None)


@pytest.mark.conformance("RD-09", "DQ-11")
@pytest.mark.parametrize("death", [_kill, _stop, _cut], ids=["killed", "stopped", "cut off"])
def test_a_pending_item_is_claimed_though_the_handle_that_was_woken_for_it_is_gone(
    processes: Processes, connection: Connection, death: Callable[[Processes, int], None]
) -> None:
    """One dies while it waits, and may still take a token; another while it covers a due time."""
    queue = Queue("foos", connection)
    death(processes, 0)
    queue.add("now")
    eventually(lambda: not queue.depth() and not connection.execute("HLEN", "distq:{foos}:claims"), "claimed")
    queue.add_after("later", 3.0)  # so that another polls before, where the dead one took the token
    eventually(lambda: _coverer(processes) not in {None, 0}, "somebody else covers it")
    coverer = _coverer(processes)
    assert coverer
    death(processes, coverer)
    left = ["ready", "delayed", "claims"]
    eventually(
        lambda: not any(connection.execute("EXISTS", f"distq:{{foos}}:{name}") for name in left), "claimed"
    )
