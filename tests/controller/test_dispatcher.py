"""What a dispatcher promises while all goes well, on each kind of Redis."""

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.controller.worker.executors import ThreadExecutor
from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.queue_store import QueueStore
from distq.workqueue.engine import OnClaims
from distq.workqueue.interface import Result, Settlement, Turn
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.request import Request
from tests.support.dispatchers import running
from tests.support.eventually import eventually

KINDS = pytest.mark.parametrize("kind", ["plain", "async"])


def handler(kind: str, function: Callable[[Request], Any]) -> Any:
    """Return the function, or an ``async def`` that calls it."""
    if kind == "plain":
        return function

    async def reconcile(request: Request) -> Any:
        await asyncio.sleep(0)
        return function(request)

    return reconcile


def left_over(connection: Connection, name: str) -> dict[str, int]:
    """Return how much of the queue's work is left, by state."""
    store = QueueStore(connection, name)
    states = ("ready", "suspects", "dirty", "processing", "delayed", "dead")
    counts = store.read(*[("ZCARD", state) for state in states], ("HLEN", "claims"), ("HLEN", "failures"))
    return {
        state: count for state, count in zip((*states, "claims", "failures"), counts, strict=True) if count
    }


@KINDS
def test_every_item_is_reconciled_and_nothing_is_left(connection: Connection, kind: str) -> None:
    """The queue is empty once all handlers returned."""
    seen: list[str] = []
    queue = Queue("foos", connection)
    queue.add(*(f"default/{number}" for number in range(600)))
    with running(Controller(queue, handler(kind, lambda request: seen.append(request.key)))):
        eventually(lambda: not left_over(connection, "foos"))
    assert sorted(seen) == sorted(f"default/{number}" for number in range(600))


@KINDS
def test_exclusive_one_key_never_runs_twice_at_the_same_time(connection: Connection, kind: str) -> None:
    """Three workers, and a producer that adds what is processed: no key overlaps, no add is forgotten."""
    lock, live, overlaps = threading.Lock(), Counter[str](), []
    versions, handled = Counter[str](), Counter[str]()

    def reconcile(request: Request) -> None:
        with lock:
            live[request.key] += 1
            if live[request.key] > 1:
                overlaps.append(request.key)
            version = versions[request.key]
        time.sleep(0.001)
        with lock:
            handled[request.key] = version
            live[request.key] -= 1

    producer = Queue("foos", connection)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(
                running(Controller(Queue("foos", connection), handler(kind, reconcile), concurrency=4))
            )
        for round_number in range(60):
            for key in map(str, range(10)):
                with lock:
                    versions[key] = round_number
            producer.add(*map(str, range(10)))
        eventually(lambda: not left_over(connection, "foos"))
    assert overlaps == []
    assert handled == versions


class CountingQueue(Queue):
    """Counts its turns."""

    turns = 0

    def turn(self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None) -> Turn:
        """Make a turn and count it."""
        self.turns += 1
        return super().turn(settlements, want, on_claims)


@KINDS
def test_a_busy_worker_makes_fewer_turns_than_items(connection: Connection, kind: str) -> None:
    """Settlements travel with the next claim, many at a time."""
    queue = CountingQueue("foos", connection)
    queue.add(*map(str, range(3000)))
    with running(Controller(queue, handler(kind, lambda _: None))):
        eventually(lambda: not left_over(connection, "foos"))
    assert queue.turns < 3000 / 5


class PatientQueue(Queue):
    """Lets its consumers sleep until they are woken."""

    def turn(self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None) -> Turn:
        """Make a turn that says to wait for long."""
        return replace(super().turn(settlements, want, on_claims), wait=1000.0)


@KINDS
def test_a_reconcile_that_finishes_on_an_empty_queue_is_settled_at_once(
    connection: Connection, kind: str
) -> None:
    """A dispatcher that sleeps until there is work is woken by its own handlers, too."""
    started, go = threading.Event(), threading.Event()

    def plain(request: Request) -> None:
        started.set()
        go.wait(20)

    async def asynchronous(request: Request) -> None:
        started.set()
        await asyncio.to_thread(go.wait, 20)

    queue = PatientQueue("foos", connection)
    queue.add("default/web")
    reconcile: Any = plain if kind == "plain" else asynchronous
    with running(Controller(queue, reconcile)) as dispatcher:
        assert started.wait(20)
        eventually(lambda: dispatcher._waiting_for == "work")
        go.set()
        eventually(lambda: not left_over(connection, "foos"))


@KINDS
def test_no_more_handlers_run_than_there_are_slots(connection: Connection, kind: str) -> None:
    """Neither many items nor claims ahead let more than ``concurrency`` run."""
    lock, now, most = threading.Lock(), 0, 0

    def enter() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)

    def leave() -> None:
        nonlocal now
        with lock:
            now -= 1

    def plain(request: Request) -> None:
        enter()
        time.sleep(0.002)
        leave()

    async def asynchronous(request: Request) -> None:
        enter()
        await asyncio.sleep(0.002)
        leave()

    queue = Queue("foos", connection)
    queue.add(*map(str, range(300)))
    reconcile: Any = plain if kind == "plain" else asynchronous
    with running(Controller(queue, reconcile, concurrency=5)):
        eventually(lambda: not left_over(connection, "foos"))
    assert most == 5


def test_more_free_slots_than_a_turn_may_claim_lose_no_item(connection: Connection) -> None:
    """Many items at once for an idle worker need several turns: one script could not hold all of them."""
    seen: list[str] = []
    queue, producer, inspector = Queue("foos", connection), Queue("foos", connection), Inspector(connection)
    keys = [f"default/{number}" for number in range(4500)]
    producer.add(*keys)
    inspector.pause("foos")
    controller = Controller(
        queue, handler("async", lambda request: seen.append(request.key)), concurrency=5000
    )
    with running(controller):
        eventually(lambda: queue._session.client.awaits_follow_up, "its next turn is behind its wait")
        inspector.resume("foos")
        eventually(lambda: not left_over(connection, "foos"))
    assert sorted(seen) == sorted(keys)


@KINDS
def test_a_slow_handler_does_not_hold_items_that_others_could_run(connection: Connection, kind: str) -> None:
    """Items that were claimed ahead for quick handlers are released once a slow one is in the way."""
    blocked, go = threading.Event(), threading.Event()

    def slow(request: Request) -> None:
        if request.key == "slow":
            blocked.set()
            go.wait(20)

    queue, other = Queue("foos", connection), Queue("foos", connection)
    done: list[str] = []
    with running(Controller(queue, handler(kind, slow), concurrency=1)):
        queue.add(*map(str, range(900)))
        queue.add("slow")
        queue.add(*(f"behind-{number}" for number in range(100)))
        assert blocked.wait(20)
        with running(Controller(other, lambda request: done.append(request.key))):
            eventually(lambda: sum(key.startswith("behind") for key in done) == 100)
            eventually(lambda: left_over(connection, "foos") == {"processing": 1, "claims": 1})
            go.set()


@KINDS
def test_quick_handlers_go_on_while_a_turn_is_made(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """They get the claims of the turn before: while Redis works, so do they."""
    done: list[str] = []
    went_on: list[bool] = []
    queue, run = Queue("foos", connection), connection.evaluate

    def slowly(
        source: str, sha: str, arguments: Sequence[Argument], meanwhile: Meanwhile = None, /
    ) -> object:
        def let_handlers_work() -> None:
            if meanwhile is not None:
                meanwhile()
            before, until = len(done), time.monotonic() + 0.1
            while len(done) == before and time.monotonic() < until:
                time.sleep(0.001)
            went_on.append(len(done) > before)

        is_turn = sha == scripts.load("turn").sha
        return run(source, sha, arguments, let_handlers_work if is_turn else meanwhile)

    monkeypatch.setattr(connection, "evaluate", slowly)
    queue.add(*(f"default/{number}" for number in range(6000)))
    with running(Controller(queue, handler(kind, lambda request: done.append(request.key)))):
        # on a busy machine, which claims little ahead, only some turns are such, and all would take minutes
        eventually(lambda: sum(went_on) >= 3)


def test_between_two_turns_handlers_are_looked_after(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that makes the turns asks those past their timeout to stop, also where it never waits."""
    steps, look = list[str](), ThreadExecutor.check_overdue

    class WatchedQueue(Queue):
        def turn(
            self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None
        ) -> Turn:
            steps.extend(["turn"] if settlements and on_claims else [])
            return super().turn(settlements, want, on_claims)

    def watched(executor: ThreadExecutor) -> float:
        steps.append("look")
        return look(executor)

    monkeypatch.setattr(ThreadExecutor, "check_overdue", watched)
    queue = WatchedQueue("foos", connection)
    queue.add(*map(str, range(10_000)))
    with running(Controller(queue, lambda _: None)):
        eventually(lambda: not left_over(connection, "foos"))
        during = steps.copy()
    assert ("turn", "turn") not in pairwise(during)


@KINDS
def test_a_failure_comes_back_with_one_attempt_more(connection: Connection, kind: str) -> None:
    """An exception backs off by the queue's limiter until the item succeeds, which forgets it."""
    attempts: list[int] = []

    def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if len(attempts) < 4:
            raise OSError("not yet")

    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, handler(kind, reconcile))):
        eventually(lambda: len(attempts) == 4)
        eventually(lambda: not left_over(connection, "foos"))
    assert attempts == [1, 2, 3, 4]


@KINDS
def test_retry_after_is_a_failure_with_its_own_delay(connection: Connection, kind: str) -> None:
    """RetryAfter wins over the limiter, and counts."""
    requests: list[Request] = []

    def reconcile(request: Request) -> None:
        requests.append(request)
        if len(requests) == 1:
            raise RetryAfter(0.05)

    queue = Queue("foos", connection, rate_limiter=ItemExponentialFailureRateLimiter(base_delay=1000.0))
    queue.add("default/web")
    with running(Controller(queue, handler(kind, reconcile))):
        eventually(lambda: len(requests) == 2)
    assert requests[1].attempt == 2


@KINDS
def test_requeue_after_comes_back_without_a_failure(connection: Connection, kind: str) -> None:
    """Result(requeue_after) is never early, and its priority goes with it."""
    times: list[float] = []
    requests: list[Request] = []

    def reconcile(request: Request) -> Result | None:
        times.append(time.monotonic())
        requests.append(request)
        return Result(requeue_after=0.1, priority=7) if len(requests) == 1 else None

    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, handler(kind, reconcile))):
        eventually(lambda: len(requests) == 2)
    assert (requests[1].attempt, requests[1].priority) == (1, 7)
    assert times[1] - times[0] >= 0.1


@pytest.mark.conformance("RD-19")
@KINDS
def test_a_terminal_error_parks_and_a_new_event_revives(connection: Connection, kind: str) -> None:
    """Poison is among the dead after one attempt; adding the key again runs it again."""
    seen: list[str] = []

    def reconcile(request: Request) -> None:
        seen.append(request.key)
        if len(seen) == 1:
            raise TerminalError("spec.image is empty")

    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, handler(kind, reconcile))):
        eventually(lambda: left_over(connection, "foos") == {"dead": 1, "failures": 1})
        queue.add("default/web")
        eventually(lambda: not left_over(connection, "foos"))
    assert len(seen) == 2


def test_a_value_that_reconcile_may_not_return_is_a_failure(connection: Connection) -> None:
    """A wrong answer is logged as an error of the item, and retried."""
    answers: list[Any] = ["done", None]
    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, lambda _: answers.pop(0))):
        eventually(lambda: not answers and not left_over(connection, "foos"))


def test_an_error_that_cannot_be_shown_does_not_cost_a_slot(connection: Connection) -> None:
    """An exception whose text raises is a failure like others."""

    class Rude(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    seen: list[str] = []

    def reconcile(request: Request) -> None:
        seen.append(request.key)
        if len(seen) < 3:
            raise Rude

    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, reconcile, concurrency=1)):
        eventually(lambda: len(seen) == 3)


def test_fleet_concurrency_bounds_all_workers_together(connection: Connection) -> None:
    """Two processes' worth of slots run no more than the fleet may."""
    lock, now, most, done = threading.Lock(), 0, 0, 0

    def reconcile(request: Request) -> None:
        nonlocal now, most, done
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
            done += 1

    Queue("foos", connection).add(*map(str, range(40)))
    with ExitStack() as stack:
        for _ in range(2):
            queue = Queue("foos", connection)
            stack.enter_context(running(Controller(queue, reconcile, concurrency=4, fleet_concurrency=3)))
        eventually(lambda: done == 40)
    assert most == 3


def test_a_failed_reconcile_is_one_line(connection: Connection, caplog: pytest.LogCaptureFixture) -> None:
    """It names key, attempt, error and the next retry; a success says nothing."""
    seen: list[str] = []

    def reconcile(request: Request) -> None:
        seen.append(request.key)
        if len(seen) == 1:
            raise OSError("slow\ndown")

    queue = Queue("foos", connection, rate_limiter=ItemExponentialFailureRateLimiter(base_delay=0.9))
    queue.add("default/web")
    with caplog.at_level("INFO", logger="distq"), running(Controller(queue, reconcile)):
        eventually(lambda: len(seen) == 2)
        eventually(lambda: not left_over(connection, "foos"))
    lines = [record.getMessage() for record in caplog.records if "default/web" in record.getMessage()]
    assert len(lines) == 1
    line = r"foos default/web attempt 1 failed: OSError: slow down; next in \d+ ms"
    assert re.fullmatch(line, lines[0])


@pytest.mark.parametrize(
    ("error", "until"),
    [
        (OSError("slow"), "for 15m0s, or until it changes"),
        (TerminalError("never"), "until it changes"),
    ],
)
def test_the_line_says_how_a_dead_item_comes_back(
    connection: Connection, caplog: pytest.LogCaptureFixture, error: Exception, until: str
) -> None:
    """The time after which this worker revives it, if time may fix the cause; a change or a person always."""

    def reconcile(request: Request) -> None:
        raise error

    queue = Queue("foos", connection, max_retries=0, revive_dead_after=900.0)
    queue.add("default/web")
    with caplog.at_level("INFO", logger="distq"), running(Controller(queue, reconcile)):
        eventually(lambda: "; dead " in caplog.text)
    assert f"; dead {until}: distq requeue foos default/web\n" in caplog.text
