"""Retries, and what becomes of items that retrying does not help, on every server."""

from collections.abc import Callable
from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.errors import ConfigError, Empty, RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.inspector.info import ItemInfo
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Request, Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemFastSlowRateLimiter
from tests.controller.eventually import eventually
from tests.controller.running import running
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import back_off, due_in, fail
from tests.workqueue.test_session import Unheard

Make = Callable[..., Queue]


@pytest.fixture
def inspector(connection: Connection) -> Inspector:
    """Look at the test's queue as people do."""
    return Inspector(connection)


def _item(inspector: Inspector, key: str = "a") -> ItemInfo:
    item = inspector.item("foos", key)
    assert item is not None
    return item


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error):
        return error


def _nothing_to_claim(queue: Queue) -> bool:
    try:
        queue.get(timeout=0)
    except Empty:
        return True
    return False


@pytest.mark.usefixtures("server_time")
class TestMaxRetries:
    """A queue's bound on failures, after which an item is parked."""

    @pytest.mark.parametrize("most", [0, 1, 4])
    def test_an_item_is_parked_by_the_failure_after_its_last_retry(
        self, make_queue: Make, inspector: Inspector, server_time: ServerTime, most: int
    ) -> None:
        """With its last error, the time of it and the count, and it comes back by no clock."""
        queue = make_queue(max_retries=most)
        for attempt in range(1, most + 1):
            assert fail(queue, "a", ValueError(f"attempt {attempt}")).kind == "delayed"
            server_time.advance(1)
        assert fail(queue, "a", _raised(ValueError("the last"))).kind == "parked"
        item = _item(inspector)
        assert (item.state, item.failures, item.reason) == ("dead", most + 1, "retries")
        assert item.last_error == "ValueError: the last"
        assert item.last_error_at == item.since == inspector.now()
        server_time.advance(1e7)
        assert _nothing_to_claim(queue)
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
        assert fail(queue, "a", RetryAfter(60)).kind == "parked"

    def test_coming_back_later_is_no_retry(self, make_queue: Make) -> None:
        """requeue_after forgets the failures, however often it is returned."""
        queue = make_queue(max_retries=1)
        for _ in range(5):
            assert fail(queue, "a").kind == "delayed"
            queue.add("a")
            assert queue.settle(queue.get(0), Result(requeue_after=10))
            assert queue.num_requeues("a") == 0

    def test_a_newer_event_is_served_before_an_item_is_given_up(self, make_queue: Make) -> None:
        """What failed was the old state; the next failure parks."""
        queue = make_queue(max_retries=0)
        queue.add("a")
        request = queue.get(0)
        queue.add("a")
        queue.settle(request, ValueError("of what was"))
        request = queue.get(0)
        assert request.attempt == 2
        queue.settle(request, ValueError("of what is"))
        assert _nothing_to_claim(queue)

    def test_a_delay_asked_for_meanwhile_is_kept_too(self, make_queue: Make) -> None:
        """Parking would take it away."""
        queue = make_queue(max_retries=0)
        queue.add("a")
        request = queue.get(0)
        queue.add_after("a", 60)
        queue.settle(request, ValueError("now"))
        assert due_in(queue, "a") == 60

    def test_add_rate_limited_parks_nothing(self, make_queue: Make) -> None:
        """It is an add: whoever makes his own loop decides by num_requeues, as with client-go."""
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
        assert fail(strict, "a").kind == "parked"

    def test_a_failure_that_was_resent_parks_once(
        self, redis_server: EmbeddedValkey, inspector: Inspector
    ) -> None:
        """The repeated answer tells the same: parked, after one failure."""
        unheard = Unheard(redis_server.url)
        queue = Queue("foos", unheard, max_retries=0)
        queue.add("a")
        request = queue.get(0)
        unheard.lost = 1
        with pytest.raises(Exception, match="the reply was lost"):
            queue.settle(request, ValueError("once"))
        assert queue.settle(request, ValueError("once"))
        item = _item(inspector)
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
        """Park an item after two failures, with a bound of one retry."""
        queue = make_queue(max_retries=1)
        fail(queue, "a", _raised(ValueError("first")))
        assert fail(queue, "a", _raised(ValueError("second"))).kind == "parked"
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
        item = _item(inspector)
        assert (item.state == "dead", item.failures, item.last_error) == (False, 2, "ValueError: second")
        server_time.advance(1)
        request = dead.get(0)
        assert request.attempt == 3
        dead.settle(request, ValueError("third"))
        item = _item(inspector)
        assert (item.state, item.failures, item.last_error) == ("dead", 3, "ValueError: third")

    def test_a_failure_counted_without_a_claim_revives_too(
        self, dead: Queue, inspector: Inspector, connection: Connection
    ) -> None:
        """add_rate_limited is an add; what is kept of the error is a line, as of all that live."""
        dead.add_rate_limited("a")
        item = _item(inspector)
        assert (item.state, item.failures, item.last_error) == ("delayed", 3, "ValueError: second")
        assert item.traceback is None
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
        stream.commit(epoch="1", after="", new="1", batch="b1", keys=["a"], priority=-100, keep_pending=True)
        assert _nothing_to_claim(dead)
        stream.commit(epoch="1", after="b1", new="2", batch="b2", keys=["a"])
        assert dead.get(0).attempt == 3

    @pytest.mark.parametrize("everything", [False, True])
    def test_requeue_begins_anew(self, dead: Queue, inspector: Inspector, *, everything: bool) -> None:
        """One item or all: pending now, at priority 0, with all its retries."""
        fail(dead, "b", TerminalError("never"))
        requeued = (
            inspector.requeue("foos", state="dead") if everything else inspector.requeue("foos", "a", "b")
        )
        assert requeued == 2
        item = _item(inspector)
        assert (item.state, item.failures, item.last_error, item.priority) == ("ready", 0, None, 0)
        assert [dead.get(0).attempt, dead.get(0).attempt] == [1, 1]

    def test_requeue_of_one_leaves_the_others_dead(self, dead: Queue, inspector: Inspector) -> None:
        """Only what was named."""
        fail(dead, "b", TerminalError("never"))
        assert inspector.requeue("foos", "b") == 1
        assert _item(inspector).state == "dead"

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


@pytest.mark.conformance("RD-19")
class TestTerminalError:
    """Retrying cannot help."""

    def test_it_parks_at_once_with_its_reason(self, queue: Queue, inspector: Inspector) -> None:
        """Whatever the bound on retries is."""
        assert fail(queue, "a", _raised(TerminalError("no such image"))).kind == "parked"
        item = _item(inspector)
        assert (item.state, item.failures, item.reason) == ("dead", 1, "terminal")
        assert item.last_error == "TerminalError: no such image"
        assert item.traceback is not None
        assert item.traceback.endswith("TerminalError: no such image\n")

    def test_a_class_of_ones_own_is_terminal_too(self, queue: Queue, inspector: Inspector) -> None:
        """By inheritance."""

        class NoSuchImage(TerminalError):
            pass

        assert fail(queue, "a", NoSuchImage("web:9")).kind == "parked"
        assert _item(inspector).last_error == "NoSuchImage: web:9"

    def test_its_record_stays_until_success(self, queue: Queue, inspector: Inspector) -> None:
        """Somebody may want to know why, as long as it is not mended."""
        fail(queue, "a", TerminalError("never"))
        queue.add("a")
        assert (_item(inspector).state, _item(inspector).last_error) == ("ready", "TerminalError: never")
        request = queue.get(0)
        assert (request.attempt, _item(inspector).last_error) == (2, "TerminalError: never")
        queue.forget("b")
        assert queue.release(request)
        assert _item(inspector).last_error == "TerminalError: never"
        assert queue.settle(queue.get(0))
        assert inspector.item("foos", "a") is None

    def test_a_newer_event_keeps_the_item_alive(self, queue: Queue, inspector: Inspector) -> None:
        """What is terminal is the state that was seen; the failure is counted."""
        queue.add("a")
        request = queue.get(0)
        queue.add("a")
        queue.settle(request, TerminalError("of what was"))
        item = _item(inspector)
        assert (item.state, item.failures, item.reason) == ("ready", 1, None)


@pytest.mark.usefixtures("server_time")
class TestForget:
    """client-go's Forget: the next failure is the first."""

    def test_of_a_delayed_item_the_delay_stays(self, queue: Queue) -> None:
        """It comes back when it was to, and then backs off from the beginning."""
        for _ in range(5):
            delay = back_off(queue, "a")
        queue.forget("a")
        assert (due_in(queue, "a"), queue.num_requeues("a")) == (delay, 0)
        assert back_off(queue, "a") == 0.005

    def test_of_a_held_item_its_failure_is_the_first(self, queue: Queue) -> None:
        """Although its attempt was another."""
        for _ in range(3):
            fail(queue, "a")
        queue.add("a")
        request = queue.get(0)
        assert request.attempt == 4
        queue.forget("a")
        assert queue.settle(request, ValueError("again"))
        assert (due_in(queue, "a"), queue.num_requeues("a")) == (0.005, 1)

    def test_of_a_dead_item_nothing_is_forgotten(self, queue: Queue, inspector: Inspector) -> None:
        """Its record says why it is dead; requeue and delete are for that."""
        fail(queue, "a", TerminalError("never"))
        queue.forget("a")
        item = _item(inspector)
        assert (item.state, item.failures, item.last_error) == ("dead", 1, "TerminalError: never")

    def test_of_an_item_that_is_not_there_is_nothing(self, queue: Queue, connection: Connection) -> None:
        """client-go's loop forgets at every success."""
        queue.forget("a")
        assert not connection.execute("KEYS", "distq:{foos}:[!m]*")


@pytest.mark.conformance("RD-10")
def test_back_off_outlives_processes_until_somebody_resets_it(
    make_queue: Make, inspector: Inspector, server_time: ServerTime
) -> None:
    """A deploy changes nothing; when what it mended has to be tried at once, an event or requeue does it."""
    before = make_queue()
    for _ in range(18):
        fail(before, "a")
    before.close()
    after = make_queue()
    assert back_off(after, "a") == 1000
    after.add("a")  # an event: now, and backing off further if it fails
    request = after.get(0)
    assert request.attempt == 20
    after.settle(request, ValueError("still"))
    assert due_in(after, "a") == 1000
    assert inspector.requeue("foos", "a") == 1
    assert after.get(0).attempt == 1


def test_another_limiter_goes_on_from_the_same_count(make_queue: Make, server_time: ServerTime) -> None:
    """Failures are the item's, not the limiter's."""
    first = make_queue()
    for _ in range(3):
        fail(first, "a")
    second = make_queue(rate_limiter=ItemFastSlowRateLimiter(1, 60, 4))
    assert [back_off(second, "a"), back_off(second, "a")] == [1, 60]


class TestCrashes:
    """Deaths of workers are counted apart from failures."""

    def _crash(self, make_queue: Make, server_time: ServerTime, living: Queue) -> None:
        dying = make_queue()
        assert dying.get(0).key == "a"
        server_time.lapse(living)
        living.turn([], 0)

    def test_they_are_no_failures(self, make_queue: Make, server_time: ServerTime) -> None:
        """They delay nothing, use up no retry, and a failure does not undo them."""
        living = make_queue(max_retries=1)
        living.turn([], 0)
        living.add("a")
        self._crash(make_queue, server_time, living)
        request = living.get(0)
        assert request.attempt == 1
        assert living.settle(request, ValueError("first"))
        server_time.advance(1)
        self._crash(make_queue, server_time, living)
        assert living.get(0).attempt == 2

    @pytest.mark.parametrize("reset", ["success", "requeue", "forget"])
    def test_success_and_people_forget_them(
        self, make_queue: Make, inspector: Inspector, server_time: ServerTime, reset: str
    ) -> None:
        """After that it takes three more to park the item."""
        living = make_queue()
        living.turn([], 0)
        living.add("a")
        for _ in range(2):
            self._crash(make_queue, server_time, living)
        if reset == "success":
            living.settle(living.get(0))
            living.add("a")
        elif reset == "requeue":
            inspector.requeue("foos", "a")
        else:
            living.forget("a")
        for _ in range(3):
            assert _item(inspector).state == "ready"
            self._crash(make_queue, server_time, living)
        item = _item(inspector)
        assert (item.state, item.reason, item.last_error) == ("dead", "crashes", "its workers died 3 times")

    def test_what_crashed_to_death_gets_one_attempt_by_an_event(
        self, make_queue: Make, inspector: Inspector, server_time: ServerTime
    ) -> None:
        """Alone, as before; one more death parks it again, success clears it."""
        living = make_queue()
        living.turn([], 0)
        living.add("a")
        for _ in range(3):
            self._crash(make_queue, server_time, living)
        living.add("a", "b")
        assert [request.key for request in living.turn([], 5).requests] == ["a"]
        living.release(Request("a", fence=living._turns.held()[0].fence))
        self._crash(make_queue, server_time, living)
        assert _item(inspector).last_error == "its workers died 4 times"
        living.add("a")
        while (request := living.get(0)).key != "a":
            living.settle(request)
        assert living.settle(request)
        assert inspector.item("foos", "a") is None


@pytest.mark.usefixtures("server_time")
class TestErrorText:
    """What is kept of an error."""

    @pytest.mark.parametrize(
        ("message", "shown"),
        [
            ("", "ValueError"),
            ("one\ntwo\x00\x1b[31m", "ValueError: one two\ufffd\ufffd[31m"),
            ("日本 " + "é" * 300, "ValueError: 日本 " + "é" * 118),
            ("- 5 3 terminal", "ValueError: - 5 3 terminal"),
            ("x" * 10_000_000, "ValueError: " + "x" * 244),
        ],
        ids=["empty", "unprintable", "long", "like a record", "huge"],
    )
    @pytest.mark.parametrize("most", [None, 0])
    def test_people_see_one_printable_line(
        self, make_queue: Make, inspector: Inspector, message: str, shown: str, most: int | None
    ) -> None:
        """Of the living and the dead, whatever the message is."""
        fail(make_queue(max_retries=most), "a", ValueError(message))
        assert _item(inspector).last_error == shown

    def test_the_traceback_is_kept_once_an_item_is_parked(
        self, make_queue: Make, inspector: Inspector, connection: Connection
    ) -> None:
        """Its last 4 KiB; failing items that live cost a line each."""
        queue = make_queue(max_retries=1)
        error = _raised(ValueError("x" * 10_000))
        fail(queue, "a", error)
        assert _item(inspector).traceback is None
        assert len(connection.execute("HGET", "distq:{foos}:failures", "a")) < 300
        fail(queue, "a", error)
        traceback = _item(inspector).traceback
        assert traceback == "x" * 4095 + "\n"

    def test_a_failure_without_an_error_keeps_the_last_one(self, queue: Queue, inspector: Inspector) -> None:
        """add_rate_limited has nothing to say about why."""
        fail(queue, "a", ValueError("why"))
        queue.add_rate_limited("a")
        item = _item(inspector)
        assert (item.failures, item.last_error) == (2, "ValueError: why")

    def test_the_time_is_that_of_the_last_failure(
        self, queue: Queue, inspector: Inspector, server_time: ServerTime
    ) -> None:
        """By the server's clock."""
        fail(queue, "a")
        first = _item(inspector).last_error_at
        server_time.advance(60)
        fail(queue, "a")
        last = _item(inspector).last_error_at
        assert first is not None
        assert last is not None
        assert last - first == 60


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
        broken, hopeless = _item(inspector, "broken"), _item(inspector, "hopeless")
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
