"""What a dispatcher promises when handlers hang, claims are lost, or Redis goes away."""

import asyncio
import functools
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from distq.controller.controller import Controller
from distq.controller.worker import executors, patient_turns
from distq.controller.worker.dispatcher import Dispatcher
from distq.errors import ConfigError, LayoutTooNew, RedisUnavailable, RetryAfter
from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.claim_ledger import FEW
from distq.workqueue.engine import OnClaims
from distq.workqueue.interface import Settlement, Turn
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.test_dispatcher import KINDS, handler, left_over
from tests.support.dispatchers import patient_turns_of, running, stop
from tests.support.eventually import eventually
from tests.support.tcp_proxy import TcpProxy


def test_an_async_handler_past_the_timeout_is_cancelled_and_fails(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """It is retried as a TimeoutError; the slot is free at once."""
    attempts: list[int] = []

    async def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if request.attempt == 1:
            await asyncio.sleep(60)

    queue = Queue("foos", connection)
    queue.add("default/web")
    controller = Controller(queue, reconcile, concurrency=1, reconciliation_timeout=0.05)
    with caplog.at_level("WARNING", logger="distq"), running(controller):
        eventually(lambda: attempts == [1, 2] and not left_over(connection, "foos"))
    assert "attempt 1 failed: TimeoutError: 50 ms" in caplog.text


def test_a_plain_handler_past_the_timeout_keeps_its_claim_and_fails_when_it_returns(
    connection: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other worker may run the item meanwhile; it is cancelled, and a warning is logged each minute."""
    monkeypatch.setattr(executors, "WARN_EVERY", 0.05)
    attempts: list[int] = []
    go = threading.Event()

    def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if request.attempt == 1:
            assert request.cancelled.wait(20)
            go.wait(20)

    queue = Queue("foos", connection)
    queue.add("default/web")
    controller = Controller(queue, reconcile, concurrency=1, reconciliation_timeout=0.05)
    with caplog.at_level("WARNING", logger="distq"), running(controller):
        eventually(lambda: caplog.text.count("default/web still runs") >= 2)
        assert left_over(connection, "foos") == {"processing": 1, "claims": 1}
        go.set()
        eventually(lambda: attempts == [1, 2] and not left_over(connection, "foos"))
    assert "attempt 1 failed: TimeoutError: 50 ms" in caplog.text


def test_a_handler_that_begins_late_is_cancelled_nevertheless(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread may take up a request after the dispatcher has looked for the last time before it sleeps."""
    submit = executors.ThreadExecutor.submit

    def submit_late(executor: executors.ThreadExecutor, requests: Sequence[Request]) -> None:
        threading.Timer(0.2, submit, (executor, requests)).start()

    monkeypatch.setattr(executors.ThreadExecutor, "submit", submit_late)
    cancelled: list[bool] = []
    queue = Queue("foos", connection)
    queue.add("default/web")
    controller = Controller(
        queue,
        lambda request: cancelled.append(request.cancelled.wait(20)),
        concurrency=1,
        reconciliation_timeout=0.05,
    )
    with running(controller):
        eventually(lambda: cancelled)
    assert cancelled[0]


def test_a_lost_claim_cancels_its_async_handler_and_settles_nothing(connection: Connection) -> None:
    """A session that Redis forgot holds nothing: its handlers stop, and the next session goes on."""
    started, cancelled, again = threading.Event(), threading.Event(), threading.Event()

    async def reconcile(request: Request) -> None:
        if cancelled.is_set():
            again.set()
            return
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert request.cancelled.is_set()
            cancelled.set()
            raise

    queue = Queue("foos", connection, claim_duration=1.0)
    queue.add("default/web")
    with running(Controller(queue, reconcile)):
        assert started.wait(20)
        connection.execute("FLUSHALL")
        assert cancelled.wait(20)
        assert left_over(connection, "foos") == {}
        Queue("foos", connection).add("default/web")
        assert again.wait(20)


def test_a_lost_claim_informs_its_plain_handler_and_settles_nothing(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """``request.cancelled`` is set; the handler's later result counts for nothing."""
    requests: list[Request] = []

    def reconcile(request: Request) -> None:
        requests.append(request)
        if len(requests) == 1:
            assert request.cancelled.wait(20)
            raise OSError("of a claim that was lost")

    queue = Queue("foos", connection, claim_duration=1.0)
    queue.add("default/web")
    with running(Controller(queue, reconcile)):
        eventually(lambda: requests)
        connection.execute("FLUSHALL")
        eventually(requests[0].cancelled.is_set)
        Queue("foos", connection).add("default/web")
        eventually(lambda: len(requests) == 2 and not left_over(connection, "foos"))
    assert "of a claim that was lost" not in caplog.text


def test_a_worker_whose_last_handlers_lost_their_claims_goes_on(connection: Connection) -> None:
    """They settle nothing, so no turn follows that would hand out the claims of the one before."""
    done = list[str]()
    fresh = [f"fresh-{number:02}" for number in range(2 * FEW)]

    def reconcile(request: Request) -> None:
        if request.key == "slow":
            request.cancelled.wait(20)
        done.append(request.key)

    class WipedQueue(Queue):
        def turn(
            self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None
        ) -> Turn:
            if not settlements or fresh[0] in done:
                return super().turn(settlements, want, on_claims)
            connection.execute("FLUSHALL")
            self.add(*fresh)
            turn = super().turn(settlements, want, on_claims)
            eventually(lambda: dispatcher._finished)
            return turn

    queue = WipedQueue("foos", connection)
    queue.add("slow", "quick")
    with running(Controller(queue, reconcile, concurrency=2)) as dispatcher:
        eventually(lambda: {*fresh} <= {*done})


def test_a_turn_that_failed_wants_no_more_than_before(connection: Connection) -> None:
    """What it has handed out is not wanted again; its worker has no slots for more."""
    wanted, got = list[int](), list[Request]()

    class FailingQueue(Queue):
        def turn(
            self, settlements: Sequence[Settlement], want: int, on_claims: OnClaims | None = None
        ) -> Turn:
            wanted.append(want)
            turn = super().turn(settlements, want, on_claims)
            if len(wanted) == 2:
                raise RedisUnavailable("the reply was lost")
            return turn

    queue = FailingQueue("foos", connection)
    queue.add(*map(str, range(3 * FEW)))
    turns = patient_turns_of(queue, got)
    assert turns.make([], FEW + 1).spare == FEW + 1
    turns.make([], 2)
    assert (wanted, len(got)) == ([FEW + 1, FEW + 3, 2], FEW + 1)
    queue.close()


def test_a_turn_that_fails_again_wants_what_it_has_not_handed_out(
    redis_server: EmbeddedValkey, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next turn hands out the claims of the one in doubt, and may fail, too."""
    monkeypatch.setattr(patient_turns, "FIRST_PAUSE", 0.01)
    producer, got, slots = Queue("foos", connection), list[Request](), 4
    is_lost, keys = iter([True, False, True]), map(str, itertools.count())

    class LossyConnection(Connection):
        def evaluate(self, source: str, sha: str, *others: Any) -> Any:
            reply = super().evaluate(source, sha, *others)
            if sha == scripts.load("turn").sha:
                producer.add(next(keys), next(keys))
                if next(is_lost, False):
                    raise RedisUnavailable("the reply was lost")
            return reply

    lossy = LossyConnection(redis_server.url)
    queue = Queue("foos", lossy)
    producer.add(next(keys))
    turns = patient_turns_of(queue, got)
    turn = turns.make([], slots)
    assert (len(got) + len(turn.requests), queue.held()) == (slots, slots)
    queue.close()
    lossy.close()


def test_an_outage_of_redis_is_waited_out_and_said_once(
    redis_server: EmbeddedValkey, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Reconciles that finished meanwhile are settled when Redis is back; nothing runs twice."""
    started, go, seen = threading.Semaphore(0), threading.Event(), []

    def reconcile(request: Request) -> None:
        started.release()
        go.wait(20)
        seen.append(request.key)

    address = urlsplit(redis_server.url)
    connection.execute("PING")
    with TcpProxy((address.hostname or "", address.port or 0)) as proxy:
        queue = Queue("foos", Connection(f"redis://127.0.0.1:{proxy.port}/0"))
        Queue("foos", connection).add(*map(str, range(6)))
        with caplog.at_level("WARNING", logger="distq"), running(Controller(queue, reconcile, concurrency=4)):
            for _ in range(4):
                assert started.acquire(timeout=20)
            proxy.mode = "refuse"
            go.set()
            eventually(lambda: "Going on once it answers" in caplog.text)
            assert left_over(connection, "foos") == {"processing": 4, "claims": 4, "ready": 2}
            proxy.mode = "pass"
            eventually(lambda: not left_over(connection, "foos"))
    assert sorted(seen) == list("012345")
    assert caplog.text.count("Going on once it answers") == 1
    assert caplog.text.count("Redis answers again after") == 1


def test_a_newer_layout_ends_the_dispatcher_with_its_error(connection: Connection) -> None:
    """What a newer distq wrote is not for this one: it stops instead of guessing."""
    connection.execute("HSET", QueueStore(connection, "foos").key("meta"), "layout", 99)
    errors: list[BaseException] = []
    with running(Controller(Queue("foos", connection), lambda _: None), on_failure=errors.append):
        eventually(lambda: errors)
    assert isinstance(errors[0], LayoutTooNew)


@pytest.mark.first_contact(6)
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
@KINDS
def test_a_handler_that_wants_to_exit_fails_and_the_worker_goes_on(
    connection: Connection, kind: str, error: BaseException
) -> None:
    """It is counted, backed off and shown as any other; nothing but its item is touched."""
    attempts, errors = list[int](), list[BaseException]()

    def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if request.attempt <= 2:
            raise error

    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, handler(kind, reconcile), concurrency=1), on_failure=errors.append):
        eventually(lambda: not left_over(connection, "foos"))
    assert attempts == [1, 2, 3]
    assert errors == []


@pytest.mark.first_contact(6)
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_task_of_a_handler_that_wants_to_exit_fails_it_and_the_loop_goes_on(
    connection: Connection, error: BaseException
) -> None:
    """The library lets these two out of its loop, whichever task raised them."""
    attempts: list[int] = []

    async def leave() -> None:
        raise error

    async def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if request.attempt <= 2:
            await asyncio.create_task(leave())

    queue = Queue("foos", connection)
    queue.add("default/web")
    with running(Controller(queue, reconcile, concurrency=1)):
        eventually(lambda: not left_over(connection, "foos"))
    assert attempts == [1, 2, 3]


async def do_nothing(request: Request) -> None:
    """Be an ``async def`` whose caller has to await it."""


async def forget_to_await(request: Request) -> Any:
    """Return what should have been awaited."""
    return do_nothing(request)


@pytest.mark.parametrize("reconcile", [lambda request: do_nothing(request), forget_to_await])  # noqa: PLW0108
def test_a_coroutine_that_is_never_awaited_ends_the_worker_and_its_item_waits(
    connection: Connection, reconcile: Any
) -> None:
    """It would be so for each item: the first one is enough, and no failure of any."""
    errors: list[BaseException] = []
    queue = Queue("foos", connection)
    queue.add(*map(str, range(20)))
    with running(Controller(queue, reconcile, concurrency=2), on_failure=errors.append) as dispatcher:
        eventually(dispatcher.has_ended)
        assert dispatcher.problem() == ""
    assert left_over(connection, "foos") == {"ready": 20}
    assert [type(error) for error in errors] == [ConfigError]
    assert str(errors[0]) == (
        "cannot run foos: its reconcile function returned a coroutine, which distq does not await. "
        "Make it async def and await what it calls; decorators need functools.wraps."
    )


def test_a_decorator_may_answer_for_its_async_def(connection: Connection) -> None:
    """What it returns instead of a coroutine is the result."""
    seen: list[tuple[str, int]] = []

    async def reconcile(request: Request) -> None:
        seen.append((request.key, request.attempt))

    @functools.wraps(reconcile)
    def when_asked(request: Request) -> Any:
        if request.attempt == 1:
            raise RetryAfter(0)
        return reconcile(request) if request.key == "asked" else None

    queue = Queue("foos", connection)
    queue.add("asked", "other")
    with running(Controller(queue, when_asked, reconciliation_timeout=60)):
        eventually(lambda: not left_over(connection, "foos"))
    assert seen == [("asked", 2)]


class TestStop:
    """SIGTERM's part in one process: stop claiming, finish, release the rest."""

    def test_running_handlers_finish_and_the_rest_goes_back_at_once(self, connection: Connection) -> None:
        """Within the grace period what runs ends as usual; the others' items are free before that."""
        started, go, seen = threading.Semaphore(0), threading.Event(), []

        def reconcile(request: Request) -> None:
            started.release()
            go.wait(20)
            seen.append(request.key)

        queue = Queue("foos", connection)
        queue.add(*map(str, range(10)))
        with running(Controller(queue, reconcile, concurrency=2)) as dispatcher:
            for _ in range(2):
                assert started.acquire(timeout=20)
            dispatcher.shut_down(20)
            eventually(lambda: left_over(connection, "foos") == {"processing": 2, "claims": 2, "ready": 8})
            assert dispatcher.in_progress == 2
            go.set()
            eventually(dispatcher.has_ended)
        assert sorted(seen) == ["0", "1"]
        assert left_over(connection, "foos") == {"ready": 8}

    def test_items_that_were_claimed_ahead_go_back_at_once(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A running handler keeps its own item only, not those that wait behind it."""
        monkeypatch.setattr("distq.controller.worker.claim_pace.STALE", 1000.0)
        blocked, go = threading.Event(), threading.Event()

        def reconcile(request: Request) -> None:
            if request.key == "slow":
                blocked.set()
                go.wait(20)

        queue = Queue("foos", connection)
        queue.add(*map(str, range(900)))
        queue.add("slow")
        queue.add(*(f"behind-{number}" for number in range(100)))
        with running(Controller(queue, reconcile, concurrency=1)) as dispatcher:
            assert blocked.wait(20)
            dispatcher.shut_down(20)
            eventually(lambda: left_over(connection, "foos") == {"processing": 1, "claims": 1, "ready": 100})
            go.set()
            eventually(dispatcher.has_ended)

    def test_past_the_grace_period_handlers_are_cancelled_and_their_items_released(
        self, connection: Connection
    ) -> None:
        """An async handler is cancelled, a plain one asked to stop; no item waits for its claim to lapse."""
        started, stopped, cancelled = threading.Semaphore(0), threading.Event(), threading.Event()

        def plain(request: Request) -> None:
            started.release()
            request.cancelled.wait(20)
            stopped.set()

        async def asynchronous(request: Request) -> None:
            started.release()
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()

        for name, reconcile in (("plain", plain), ("async", asynchronous)):
            queue = Queue(name, connection)
            queue.add("default/web")
            with running(Controller(queue, reconcile)) as dispatcher:
                assert started.acquire(timeout=20)
                stop(dispatcher, 0.05)
        assert cancelled.is_set()
        assert left_over(connection, "async") == {"ready": 1}
        assert stopped.is_set()
        assert left_over(connection, "plain") == {}

    def test_a_handler_that_never_ends_does_not_hold_the_process(self, connection: Connection) -> None:
        """Its item is released by closing the queue, and runs elsewhere."""
        started, go = threading.Event(), threading.Event()

        def reconcile(request: Request) -> None:
            started.set()
            go.wait(60)

        queue = Queue("foos", connection)
        queue.add("default/web")
        with running(Controller(queue, reconcile)) as dispatcher:
            assert started.wait(20)
            stop(dispatcher, 0.0)
            assert left_over(connection, "foos") == {"ready": 1}
        go.set()

    def test_an_idle_worker_stops_at_once(self, connection: Connection) -> None:
        """Waiting for work ends with the shutdown, not with the timeout of the wait."""
        with running(Controller(Queue("foos", connection), lambda _: None)) as dispatcher:
            began = time.monotonic()
            stop(dispatcher, 60)
            assert time.monotonic() - began < 5


def test_a_queue_that_is_shut_down_ends_its_dispatcher(connection: Connection) -> None:
    """Running items are settled, nothing spins, and that is no failure: the program asked for it."""
    started, go = threading.Event(), threading.Event()

    def reconcile(request: Request) -> None:
        started.set()
        go.wait(20)

    queue = Queue("foos", connection)
    queue.add("running")
    dispatcher = Dispatcher(Controller(queue, reconcile, concurrency=2))
    dispatcher.start()
    try:
        assert started.wait(20)
        queue.add("left to others")
        queue.shut_down()
        go.set()
        eventually(dispatcher.has_ended)
        assert dispatcher.problem() == ""
    finally:
        stop(dispatcher, 0)
    assert connection.execute("HLEN", "distq:{foos}:workers") == 0
