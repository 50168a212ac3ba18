"""A loop of one's own: the step that settles an item claims the next one for the same loop."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.eventually import eventually
from tests.workqueue.conftest import beat


class CountedTurns(Connection):
    """A connection that counts the turns that go over it."""

    turns = 0

    def evaluate(self, source: str, sha: str, arguments: Any, *meanwhile: Meanwhile) -> Any:
        """Count a turn."""
        self.turns += sha == scripts.load("turn").sha
        return super().evaluate(source, sha, arguments, *meanwhile)


@pytest.fixture
def counted(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[CountedTurns]:
    """Give a connection to the emptied database that counts turns."""
    counted = CountedTurns(redis_server.url)
    yield counted
    counted.close()


def _claims(connection: Connection, queue: str = "foos") -> int:
    claims: Argument = connection.execute("ZCARD", f"distq:{{{queue}}}:processing")
    return int(claims)


def test_a_loop_makes_one_turn_an_item(counted: CountedTurns) -> None:
    """It settles one and claims the next in one step, and hands them out in their order."""
    queue = Queue("foos", counted)
    queue.add(*"abcdefgh")
    seen = []
    for request in queue.listen():
        seen.append(request.key)
        assert queue.settle(request)
        if request.key == "h":
            break
    assert seen == [*"abcdefgh"]
    assert counted.turns == 1 + 8
    queue.close()


def test_a_loop_that_breaks_gives_back_the_items_that_it_claimed_ahead(connection: Connection) -> None:
    """Another handle gets it at once, at its old place."""
    queue, other = Queue("foos", connection), Queue("foos", connection)
    queue.add("a", "b", "c")
    for request in queue.listen():
        queue.settle(request)
        assert _claims(connection) == 1
        break
    assert (_claims(connection), queue.held()) == (0, 0)
    assert [other.get(0).key, other.get(0).key] == ["b", "c"]
    queue.close()
    other.close()


def test_a_thread_that_dies_in_its_loop_leaves_no_claim(connection: Connection) -> None:
    """What it had settled stays so, and the next item is free again."""
    queue, other = Queue("foos", connection), Queue("foos", connection)
    queue.add("a", "b")

    def loop() -> None:
        for request in queue.listen():
            queue.settle(request)
            raise ValueError

    def run() -> None:
        with suppress(ValueError):
            loop()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    eventually(lambda: _claims(connection) == 0)
    assert other.get(0).key == "b"
    queue.close()
    other.close()


LEFT_OPEN = """
import sys
from distq import Queue

queue = Queue("foos", sys.argv[1])
queue.add("a", "b")
loop = queue.listen()
queue.settle(next(loop))
"""


def test_a_program_ends_though_its_loop_was_left_open(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """The interpreter ends the loop when no other thread runs any more."""
    subprocess.run([sys.executable, "-c", LEFT_OPEN, redis_server.url], check=True, timeout=30)
    assert _claims(connection) == 0


def test_a_loop_that_does_other_things_gives_back_the_items_that_it_claimed_ahead(
    connection: Connection,
) -> None:
    """The heartbeat finds it unwanted twice; then other processes may have it, and the loop goes on."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    loop = queue.listen()
    queue.settle(next(loop))
    assert _claims(connection) == 1
    session = queue._session
    assert session._heartbeat is not None
    session._heartbeat.release_unwanted(session)
    assert _claims(connection) == 1
    session._heartbeat.release_unwanted(session)
    assert _claims(connection) == 0
    assert next(loop).key == "b"
    queue.close()


@pytest.mark.parametrize("how", ["shut down", "drained"])
def test_a_shutdown_keeps_nothing_that_was_claimed_ahead(connection: Connection, how: str) -> None:
    """It is no claim of anyone, so a drain does not wait for it."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    loop = queue.listen()
    queue.settle(next(loop))
    if how == "drained":
        assert queue.shut_down_with_drain(20)
    else:
        queue.shut_down()
    assert next(loop, None) is None
    assert _claims(connection) == 0
    queue.close()


def test_a_shutdown_cancels_nothing_that_a_loop_gets_at_that_moment(connection: Connection) -> None:
    """Another worker would run it beside the loop, which has just begun."""
    queue, got = Queue("foos", connection), list[Request]()
    queue.add("a", "b")
    loop = queue.listen()
    queue.settle(next(loop))
    ledger = queue._session.ledger

    class Fetched(dict[str, Request]):
        """Claims, of which another thread gets the spare one while they are counted."""

        def __len__(self) -> int:
            got.extend(ledger.take(1))
            return super().__len__()

    ledger.held = Fetched(ledger.held)
    queue.shut_down()
    assert not [request for request in got if request.cancelled.is_set()]
    assert _claims(connection) == len(got)
    queue.close()


def test_a_shutdown_waits_a_second_at_most_for_a_redis_that_hangs(counted: CountedTurns) -> None:
    """Also where it only releases a claim ahead, while a caller holds another: by a connection of its own."""
    queue = Queue("foos", counted)
    queue.add("a", "b", "c")
    loop = queue.listen()
    held = queue.get(0)
    queue.settle(next(loop))
    turns = counted.turns
    queue.shut_down()
    assert (counted.turns, _claims(counted)) == (turns, 1)
    assert queue.settle(held)
    queue.close()


def test_another_thread_of_the_handle_gets_an_item_that_was_claimed_ahead(counted: CountedTurns) -> None:
    """It needs no turn for that."""
    queue = Queue("foos", counted)
    queue.add("a", "b")
    loop = queue.listen()
    queue.settle(next(loop))
    turns = counted.turns
    assert queue.get(0).key == "b"
    assert counted.turns == turns
    queue.close()


@pytest.mark.parametrize("what", ["outside of a loop", "with a fleet_concurrency", "after a release"])
def test_nothing_is_claimed_ahead(connection: Connection, what: str) -> None:
    """Outside of a loop, on a queue with a limit of its fleet, and after a release."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    if what == "with a fleet_concurrency":
        queue.fleet_concurrency = 5
    loop = queue.listen()
    request = queue.get(0) if what == "outside of a loop" else next(loop)
    (queue.release if what == "after a release" else queue.settle)(request)
    assert _claims(connection) == 0
    queue.close()


def test_threads_that_loop_over_one_handle_get_each_item_once(connection: Connection) -> None:
    """However they take what was claimed ahead from each other."""
    queue = Queue("foos", connection)
    keys = [f"item-{number:03}" for number in range(400)]
    queue.add(*keys)
    seen, all_seen = list[str](), threading.Event()

    def loop() -> None:
        for request in queue.listen():
            seen.append(request.key)
            assert queue.settle(request)
            if len(seen) >= len(keys):
                all_seen.set()

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert all_seen.wait(60)
    queue.shut_down()
    for thread in threads:
        thread.join(20)
    assert sorted(seen) == keys
    assert (_claims(connection), queue.held(), queue.depth()) == (0, 0, 0)
    queue.close()


def test_a_loop_that_is_slow_after_each_item_is_no_surplus(connection: Connection) -> None:
    """At each heartbeat another item is claimed ahead; Redis counts no more than the handle holds."""
    queue = Queue("foos", connection)
    heard: list[Request] = []
    queue.on_cancel = heard.append
    queue.add(*"abcdefgh")
    loop = queue.listen()
    for key in "abcd":
        request = next(loop)
        assert request.key == key
        queue.settle(request)
        assert beat(queue)
        assert queue.held() == 1
    assert not heard
    queue.close()


def test_an_item_that_was_claimed_ahead_is_no_claim_that_is_cancelled(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """No handler had it, so a shutdown warns of nothing."""
    queue = Queue("foos", connection)
    heard: list[Request] = []
    queue.on_cancel = heard.append
    queue.add("a", "b")
    loop = queue.listen()
    queue.settle(next(loop))
    queue.shut_down()
    assert (_claims(connection), heard, caplog.messages) == (0, [], [])


def test_a_drain_ends_with_a_heartbeat_that_gives_back_the_last_claim(connection: Connection) -> None:
    """It was under way when the handle was shut down, so it is what closes the session."""
    queue = Queue("foos", connection)
    queue.add("a", "b")
    loop = queue.listen()
    queue.settle(next(loop))
    session = queue._session
    waits = threading.Event()
    queue._changed.wait_for = _noting(queue._changed.wait_for, waits)  # type: ignore[method-assign]
    with session._turn_lock:
        drain = threading.Thread(target=queue.shut_down_with_drain)
        drain.start()
        assert waits.wait(20)
    session.release_spare()
    drain.join(20)
    assert not drain.is_alive()
    assert (_claims(connection), session.id) == (0, "")


def _noting(wait_for: Callable[..., bool], waits: threading.Event) -> Callable[..., bool]:
    """Set the event once something was found not to hold."""

    def noted(predicate: Callable[[], bool], *arguments: Any) -> bool:
        def look() -> bool:
            holds = predicate()
            waits.set()
            return holds

        return wait_for(look, *arguments)

    return noted


def test_a_loop_that_ended_leaves_nothing(connection: Connection) -> None:
    """A process may start many threads in its life, and each may listen."""
    queue = Queue("foos", connection)
    queue.add("a")
    loop = queue.listen()
    assert next(loop).key == "a"
    assert len(queue._listening.loops) == 1
    thread = threading.Thread(target=loop.close)  # type: ignore[attr-defined]  # as the garbage collector
    thread.start()
    thread.join(20)
    assert not queue._listening.loops
    queue.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the thread below does not matter to the child
def test_a_child_of_a_fork_claims_nothing_for_the_loops_of_its_parent(connection: Connection) -> None:
    """Its threads may get the idents of threads that were in a loop when it was forked."""
    queue, in_loop, leave = Queue("foos", connection), threading.Event(), threading.Event()
    queue.add(*map(str, range(30)))

    def loop() -> None:
        for _ in queue.listen():
            in_loop.set()
            leave.wait(20)
            break

    all_run = threading.Barrier(5)

    def settle_one() -> None:
        all_run.wait(20)
        queue.settle(queue.get(0))

    looping = threading.Thread(target=loop)
    looping.start()
    assert in_loop.wait(20)
    if (child := os.fork()) == 0:
        try:
            threads = [threading.Thread(target=settle_one) for _ in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            os._exit(queue.held())
        finally:
            os._exit(9)
    leave.set()
    looping.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.close()
