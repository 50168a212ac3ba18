"""Retries, and what becomes of items that retrying does not help, on every server."""

from collections.abc import Callable
from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.errors import ConfigError, RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.dispatchers import running
from tests.support.eventually import eventually
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import back_off, due_in, fail, item_of, nothing_to_claim, raised
from tests.workqueue.test_session import Unheard

Make = Callable[..., Queue]


@pytest.fixture
def inspector(connection: Connection) -> Inspector:
    """Look at the test's queue as people do."""
    return Inspector(connection)


@pytest.mark.usefixtures("server_time")
class TestMaxRetries:
    """A queue's bound on failures, after which an item is dead."""

    @pytest.mark.parametrize("most", [0, 1, 4])
    def test_an_item_is_dead_with_the_failure_after_its_last_retry(
        self, make_queue: Make, inspector: Inspector, server_time: ServerTime, most: int
    ) -> None:
        """With its last error, the time of it and the count, and it comes back by no clock."""
        queue = make_queue(max_retries=most)
        for attempt in range(1, most + 1):
            assert fail(queue, "a", ValueError(f"attempt {attempt}")).kind == "delayed"
            server_time.advance(1)
        assert fail(queue, "a", raised(ValueError("the last"))).kind == "dead"
        item = item_of(inspector, "a")
        assert (item.state, item.failures, item.reason) == ("dead", most + 1, "retries")
        assert item.last_error == "ValueError: the last"
        assert item.last_error_at == item.since == inspector.now()
        server_time.advance(1e7)
        assert nothing_to_claim(queue)
        assert queue.depth() == 0

    def test_without_a_bound_an_item_is_retried_for_ever(self, queue: Queue) -> None:
        """A thousand failures are no reason to give up."""
        for _ in range(1000):
            queue.add_rate_limited("a")
        assert fail(queue, "a").kind == "delayed"

    def test_a_delay_that_the_error_asks_for_is_a_retry_like_others(self, make_queue: Make) -> None:
        """RetryAfter says when, not how often."""
        queue = make_queue(max_retries=1)
        assert back_off(queue, "a", RetryAfter(60)) == 60
        assert fail(queue, "a", RetryAfter(60)).kind == "dead"

    def test_coming_back_later_is_no_retry(self, make_queue: Make) -> None:
        """requeue_after forgets the failures each time."""
        queue = make_queue(max_retries=1)
        for _ in range(5):
            assert fail(queue, "a").kind == "delayed"
            queue.add("a")
            assert queue.settle(queue.get(0), Result(requeue_after=10))
            assert queue.num_requeues("a") == 0

    @anywhere
    def test_coming_back_later_with_the_failures_kept_is_neither_a_retry_nor_a_success(
        self, make_queue: Make, server_time: ServerTime
    ) -> None:
        """The count stays: the next failure backs off further, and may be the last."""
        queue = make_queue(max_retries=2)
        later = Result(requeue_after=10, priority=3, keep_failures=True)
        for _ in range(2):
            assert fail(queue, "a").kind == "delayed"
        for _ in range(3):
            queue.add("a")
            assert queue.settle(queue.get(0), later)
            assert queue.num_requeues("a") == 2
        server_time.advance(9.9)
        assert nothing_to_claim(queue)
        server_time.advance(0.1)
        request = queue.get(0)
        assert (request.attempt, request.priority) == (3, 3)
        assert queue.release(request)
        assert fail(queue, "a").kind == "dead"

    def test_a_newer_event_is_served_before_an_item_is_given_up(self, make_queue: Make) -> None:
        """The failure was about the old state; after the next failure the item is dead."""
        queue = make_queue(max_retries=0)
        queue.add("a")
        request = queue.get(0)
        queue.add("a")
        queue.settle(request, ValueError("of what was"))
        request = queue.get(0)
        assert request.attempt == 2
        queue.settle(request, ValueError("of what is"))
        assert nothing_to_claim(queue)

    def test_a_delay_asked_for_meanwhile_is_kept_too(self, make_queue: Make) -> None:
        """An item that becomes dead would lose it."""
        queue = make_queue(max_retries=0)
        queue.add("a")
        request = queue.get(0)
        queue.add_after("a", 60)
        queue.settle(request, ValueError("now"))
        assert due_in(queue, "a") == 60

    def test_add_rate_limited_parks_nothing(self, make_queue: Make) -> None:
        """It is an add: an own loop decides by num_requeues, as with client-go."""
        queue = make_queue(max_retries=1)
        for _ in range(5):
            queue.add_rate_limited("a")
        assert queue.num_requeues("a") == 5
        assert due_in(queue, "a") == 0.005

    def test_the_bound_is_of_the_handle_that_settles(self, make_queue: Make) -> None:
        """A rollout that changes it takes effect with each new worker."""
        patient, strict = make_queue(), make_queue(max_retries=2)
        for _ in range(5):
            assert fail(patient, "a").kind == "delayed"
        assert fail(strict, "a").kind == "dead"

    def test_a_failure_that_was_resent_parks_once(
        self, redis_server: EmbeddedValkey, inspector: Inspector
    ) -> None:
        """The repeated answer is the same: parked, after one failure."""
        unheard = Unheard(redis_server.url)
        queue = Queue("foos", unheard, max_retries=0)
        queue.add("a")
        request = queue.get(0)
        unheard.lost = 1
        with pytest.raises(Exception, match="the reply was lost"):
            queue.settle(request, ValueError("once"))
        assert queue.settle(request, ValueError("once"))
        item = item_of(inspector, "a")
        assert (item.state, item.failures) == ("dead", 1)
        queue.close()
        unheard.close()

    @pytest.mark.parametrize("most", [-1, 2.5, float("nan"), True, "3"])
    def test_a_bound_that_is_none_is_refused(self, connection: Connection, most: Any) -> None:
        """At construction."""
        with pytest.raises(ConfigError, match="bad max_retries"):
            Queue("foos", connection, max_retries=most)


@pytest.mark.usefixtures("server_time")
class TestRevival:
    """How the dead come back."""

    @pytest.fixture
    def dead(self, make_queue: Make) -> Queue:
        """Make an item dead by two failures, with a bound of one retry."""
        queue = make_queue(max_retries=1)
        fail(queue, "a", raised(ValueError("first")))
        assert fail(queue, "a", raised(ValueError("second"))).kind == "dead"
        return queue

    @pytest.mark.parametrize(
        "revive",
        [
            lambda queue: queue.add("a"),
            lambda queue: queue.add_after("a", 1),
            lambda queue: queue.add("a", priority=-100),
        ],
    )
    def test_a_new_event_gives_one_attempt(
        self, dead: Queue, inspector: Inspector, server_time: ServerTime, revive: Callable[[Queue], object]
    ) -> None:
        """The count is kept, so that a flapping object is not retried over and over."""
        revive(dead)
        item = item_of(inspector, "a")
        assert (item.state == "dead", item.failures, item.last_error) == (False, 2, "ValueError: second")
        server_time.advance(1)
        request = dead.get(0)
        assert request.attempt == 3
        dead.settle(request, ValueError("third"))
        item = item_of(inspector, "a")
        assert (item.state, item.failures, item.last_error) == ("dead", 3, "ValueError: third")

    @pytest.mark.first_contact(7)
    @pytest.mark.parametrize("event", [lambda queue: queue.add("a"), lambda queue: queue.add_after("a", 1)])
    def test_an_item_that_was_revived_no_longer_shows_why_it_was_dead(
        self, dead: Queue, inspector: Inspector, server_time: ServerTime, event: Callable[[Queue], object]
    ) -> None:
        """Waiting or held: a reason is that of the dead. Its last error is still its last error."""
        assert item_of(inspector, "a").reason == "retries"
        event(dead)
        item = item_of(inspector, "a")
        assert (item.reason, item.failures, item.last_error) == (None, 2, "ValueError: second")
        server_time.advance(1)
        request = dead.get(0)
        assert item_of(inspector, "a").reason is None
        dead.settle(request, TerminalError("never"))
        assert item_of(inspector, "a").reason == "terminal"

    @pytest.mark.first_contact(7)
    def test_the_reason_of_an_operator_is_gone_with_the_parking(
        self, make_queue: Make, inspector: Inspector
    ) -> None:
        """It is no error of the item, nor the time of one; a failure without an error keeps it away."""
        queue = make_queue()
        queue.add("a")
        inspector.park("foos", "a", reason="waits for INC-7")
        assert item_of(inspector, "a").last_error == "waits for INC-7"
        queue.add("a")
        item = item_of(inspector, "a")
        assert (item.reason, item.last_error, item.last_error_at, item.failures) == (None, None, None, 0)
        inspector.park("foos", "a", reason="waits for INC-8")
        queue.add_rate_limited("a")
        item = item_of(inspector, "a")
        assert (item.reason, item.last_error, item.failures) == (None, None, 1)
        assert item.last_error_at is not None

    def test_a_failure_counted_without_a_claim_revives_too(
        self, dead: Queue, inspector: Inspector, connection: Connection
    ) -> None:
        """add_rate_limited is an add without an error, so the last error and traceback stay."""
        dead.add_rate_limited("a")
        item = item_of(inspector, "a")
        assert (item.state, item.failures, item.last_error) == ("delayed", 3, "ValueError: second")
        assert (item.traceback or "").endswith("ValueError: second\n")
        assert connection.execute("ZCARD", "distq:{foos}:dead") == 0

    def test_success_after_a_new_event_forgets_everything(self, dead: Queue, inspector: Inspector) -> None:
        """The next failure, whenever it comes, is the first."""
        dead.add("a")
        assert dead.settle(dead.get(0))
        assert inspector.item("foos", "a") is None
        assert back_off(dead, "a") == 0.005

    def test_a_list_leaves_the_dead_alone(self, dead: Queue, connection: Connection) -> None:
        """Unless their objects changed, which is what the leader commits without keeping them."""
        stream = StreamStore(connection, "foos", "pods")
        stream.commit(
            Commit(epoch="1", after="", new="1", batch="b1", keys=["a"], priority=-100, keep_pending=True)
        )
        assert nothing_to_claim(dead)
        stream.commit(Commit(epoch="1", after="b1", new="2", batch="b2", keys=["a"]))
        assert dead.get(0).attempt == 3

    @pytest.mark.parametrize("everything", [False, True])
    def test_requeue_begins_anew(self, dead: Queue, inspector: Inspector, *, everything: bool) -> None:
        """One item or all: pending now, at priority 0, with all its retries."""
        fail(dead, "b", TerminalError("never"))
        requeued = (
            inspector.requeue("foos", state="dead") if everything else inspector.requeue("foos", "a", "b")
        )
        assert requeued == 2
        item = item_of(inspector, "a")
        assert (item.state, item.failures, item.last_error, item.priority) == ("ready", 0, None, 0)
        assert [dead.get(0).attempt, dead.get(0).attempt] == [1, 1]

    def test_requeue_of_one_leaves_the_others_dead(self, dead: Queue, inspector: Inspector) -> None:
        """Only what was named."""
        fail(dead, "b", TerminalError("never"))
        assert inspector.requeue("foos", "b") == 1
        assert item_of(inspector, "a").state == "dead"

    def test_delete_ends_it(self, dead: Queue, inspector: Inspector, connection: Connection) -> None:
        """With its record; an event makes it a new item."""
        assert inspector.delete("foos", "a") == 1
        assert connection.execute("HLEN", "distq:{foos}:failures") == 0
        dead.add("a")
        assert dead.get(0).attempt == 1

    def test_nothing_trims_the_dead(
        self, make_queue: Make, inspector: Inspector, server_time: ServerTime
    ) -> None:
        """A thousand of them stay for a year."""
        queue = make_queue()
        keys = [f"k{number:03}" for number in range(1000)]
        queue.add(*keys)
        for _ in keys:
            queue.settle(queue.get(0), TerminalError("never"))
        server_time.advance(365 * 86400)
        queue.turn([], 1)
        assert inspector.count("foos", state="dead") == 1000


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_controller_gives_up_parks_and_goes_on_after_a_requeue(
    connection: Connection, inspector: Inspector, kind: str
) -> None:
    """From the handler to people and back: failures, the dead with their errors, requeue, success."""
    attempts: dict[str, list[int]] = {"flaky": [], "broken": [], "hopeless": []}
    mended = False

    def work(request: Request) -> None:
        attempts[request.key].append(request.attempt)
        if mended or (request.key == "flaky" and request.attempt == 3):
            return
        raise TerminalError("hopeless") if request.key == "hopeless" else ValueError(f"{request.attempt}")

    async def work_async(request: Request) -> None:
        work(request)

    queue = Queue("foos", connection, max_retries=2, rate_limiter=lambda failure: failure.attempt / 1000)
    with running(Controller(queue, work if kind == "plain" else work_async)):
        queue.add(*attempts)
        eventually(lambda: inspector.count("foos", state="dead") == 2 and not inspector.item("foos", "flaky"))
        assert attempts == {"flaky": [1, 2, 3], "broken": [1, 2, 3], "hopeless": [1]}
        broken, hopeless = item_of(inspector, "broken"), item_of(inspector, "hopeless")
        assert (broken.last_error, broken.failures, broken.reason) == ("ValueError: 3", 3, "retries")
        assert (hopeless.last_error, hopeless.reason) == ("TerminalError: hopeless", "terminal")
        assert broken.traceback is not None
        assert "in work" in broken.traceback
        mended = True
        queue.add("hopeless")
        eventually(lambda: attempts["hopeless"] == [1, 2])
        assert inspector.requeue("foos", state="dead") == 1
        eventually(lambda: attempts["broken"] == [1, 2, 3, 1])
        eventually(lambda: not inspector.items("foos") and not inspector.queues("foos")[0].failing)
