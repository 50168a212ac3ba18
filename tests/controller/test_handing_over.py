"""The thread that claimed an item runs it where slots are free, and another one goes on."""

import threading
import time
from collections.abc import Sequence

import pytest

from distq.controller.controller import Controller
from distq.redisio.connection import Connection
from distq.workqueue.current import current_request
from distq.workqueue.engine import OnClaims
from distq.workqueue.interface import Settlement, Turn
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.test_dispatcher import left_over
from tests.support.dispatchers import running
from tests.support.eventually import eventually


def test_a_handler_that_hangs_stops_no_other_item(connection: Connection) -> None:
    """Not even where it hangs in the thread that claimed its item: another one claims and settles."""
    hangs, go_on, seen = threading.Event(), threading.Event(), list[str]()

    def reconcile(request: Request) -> None:
        if request.key == "hangs":
            hangs.set()
            go_on.wait(20)
        seen.append(request.key)

    queue = Queue("foos", connection)
    with running(Controller(queue, reconcile, concurrency=2)):
        queue.add("hangs")
        assert hangs.wait(20)
        for number in range(20):
            queue.add(f"{number}")
            eventually(lambda: left_over(connection, "foos") == {"processing": 1, "claims": 1})
        go_on.set()
        eventually(lambda: not left_over(connection, "foos"))
    assert seen == [*map(str, range(20)), "hangs"]


@pytest.mark.parametrize("concurrency", [2, 3])
def test_no_more_handlers_run_than_there_are_slots_while_items_come_one_by_one(
    connection: Connection, concurrency: int
) -> None:
    """The thread that dispatches runs a handler only where a slot is free."""
    lock, live, most, seen = threading.Lock(), set[str](), 0, list[str]()

    def reconcile(request: Request) -> None:
        nonlocal most
        with lock:
            live.add(request.key)
            most = max(most, len(live))
        time.sleep(0.002)
        with lock:
            live.remove(request.key)
            seen.append(request.key)

    queue = Queue("foos", connection)
    keys = [f"default/{number}" for number in range(60)]
    with running(Controller(queue, reconcile, concurrency=concurrency)):
        for key in keys:  # one by one, so that it falls asleep in between now and then
            queue.add(key)
        eventually(lambda: not left_over(connection, "foos"))
    assert sorted(seen) == sorted(keys)
    assert most == concurrency


def test_an_item_that_comes_to_an_idle_worker_runs_in_the_thread_that_claimed_it(
    connection: Connection,
) -> None:
    """It waits for no second thread; a controller with one slot runs all its handlers in one thread."""
    claimed_by, run_by = list[int](), list[int]()

    class WatchedQueue(Queue):
        def turn(
            self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None
        ) -> Turn:
            turn = super().turn(settlements, want, on_claims)
            claimed_by.extend(threading.get_ident() for _ in turn.requests)
            return turn

    def reconcile(_: Request) -> None:
        run_by.append(threading.get_ident())

    for concurrency in (2, 1):
        queue = WatchedQueue("foos", connection)
        with running(Controller(queue, reconcile, concurrency=concurrency)):
            for number in range(5):
                queue.add(f"{concurrency}-{number}")
                eventually(lambda: not left_over(connection, "foos"))
    assert claimed_by[:5] == run_by[:5]
    assert len({*run_by[5:]}) == 1
    assert {*claimed_by[5:]}.isdisjoint(run_by[5:])


def test_a_turn_is_in_no_context_of_a_handler(connection: Connection) -> None:
    """A thread that ran a handler may make the next turns: their log records have no request."""
    ran_in, turns_after = set[int](), list[Request | None]()

    class WatchedQueue(Queue):
        def turn(
            self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None
        ) -> Turn:
            if threading.get_ident() in ran_in:
                turns_after.append(current_request())
            return super().turn(settlements, want, on_claims)

    def reconcile(request: Request) -> None:
        assert current_request() == request
        ran_in.add(threading.get_ident())

    queue = WatchedQueue("foos", connection)
    with running(Controller(queue, reconcile, concurrency=2)):
        for number in range(5):
            queue.add(f"{number}")
            eventually(lambda: not left_over(connection, "foos"))
    assert turns_after
    assert {*turns_after} == {None}
