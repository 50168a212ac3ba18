"""What is remembered of an item's failures, for how long, and what makes it forgotten; on every server."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue import turn_client
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemFastSlowRateLimiter
from distq.workqueue.request import Request
from distq.workqueue.turns import TurnReply, decode
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import back_off, due_in, fail, item_of, raised

Make = Callable[..., Queue]


@pytest.fixture
def inspector(connection: Connection) -> Inspector:
    """Look at the test's queue as people do."""
    return Inspector(connection)


@pytest.mark.conformance("RD-19")
class TestTerminalError:
    """Retrying cannot help."""

    def test_it_parks_at_once_with_its_reason(self, queue: Queue, inspector: Inspector) -> None:
        """With any bound on retries."""
        assert fail(queue, "a", raised(TerminalError("no such image"))).kind == "dead"
        item = item_of(inspector, "a")
        assert (item.state, item.failures, item.reason) == ("dead", 1, "terminal")
        assert item.last_error == "TerminalError: no such image"
        assert item.traceback is not None
        assert item.traceback.endswith("TerminalError: no such image\n")

    def test_a_class_of_ones_own_is_terminal_too(self, queue: Queue, inspector: Inspector) -> None:
        """By inheritance."""

        class NoSuchImage(TerminalError):
            pass

        assert fail(queue, "a", NoSuchImage("web:9")).kind == "dead"
        assert item_of(inspector, "a").last_error == "NoSuchImage: web:9"

    def test_its_record_stays_until_success(self, queue: Queue, inspector: Inspector) -> None:
        """A person may want to read the reason until the item succeeds."""
        fail(queue, "a", TerminalError("never"))
        queue.add("a")
        assert (item_of(inspector, "a").state, item_of(inspector, "a").last_error) == (
            "ready",
            "TerminalError: never",
        )
        request = queue.get(0)
        assert (request.attempt, item_of(inspector, "a").last_error) == (2, "TerminalError: never")
        queue.forget("b")
        assert queue.release(request)
        assert item_of(inspector, "a").last_error == "TerminalError: never"
        assert queue.settle(queue.get(0))
        assert inspector.item("foos", "a") is None

    def test_a_newer_event_keeps_the_item_alive(self, queue: Queue, inspector: Inspector) -> None:
        """The state that was seen is terminal, not a newer one; the failure is counted."""
        queue.add("a")
        request = queue.get(0)
        queue.add("a")
        queue.settle(request, TerminalError("of what was"))
        item = item_of(inspector, "a")
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
        item = item_of(inspector, "a")
        assert (item.state, item.failures, item.last_error) == ("dead", 1, "TerminalError: never")

    def test_of_an_item_that_is_not_there_is_nothing(self, queue: Queue, connection: Connection) -> None:
        """client-go's loop forgets at every success."""
        queue.forget("a")
        assert not connection.execute("KEYS", "distq:{foos}:[!m]*")


@pytest.mark.conformance("RD-10")
def test_back_off_outlives_processes_until_a_person_resets_it(
    make_queue: Make, inspector: Inspector, server_time: ServerTime
) -> None:
    """A deploy changes nothing; an event or requeue tries an item at once, for example after a fix."""
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
        """After that it takes three more until the item is dead."""
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
            assert item_of(inspector, "a").state == "ready"
            self._crash(make_queue, server_time, living)
        item = item_of(inspector, "a")
        assert (item.state, item.reason, item.last_error) == ("dead", "crashes", "its workers died 3 times")

    def test_an_item_that_is_dead_by_crashes_gets_one_attempt_by_an_event(
        self, make_queue: Make, inspector: Inspector, server_time: ServerTime
    ) -> None:
        """Alone, as before; after one more death it is dead again, success clears it."""
        living = make_queue()
        living.turn([], 0)
        living.add("a")
        for _ in range(3):
            self._crash(make_queue, server_time, living)
        living.add("a", "b")
        assert [request.key for request in living.turn([], 5).requests] == ["a"]
        living.release(Request("a", fence=living._session.ledger.held["a"].fence))
        self._crash(make_queue, server_time, living)
        assert item_of(inspector, "a").last_error == "its workers died 4 times"
        living.add("a")
        while (request := living.get(0)).key != "a":
            living.settle(request)
        assert living.settle(request)
        assert inspector.item("foos", "a") is None


@pytest.mark.usefixtures("server_time")
class TestErrorText:
    """The parts of an error that are kept."""

    @pytest.mark.parametrize(
        ("message", "shown"),
        [
            ("", "ValueError"),
            ("one\ntwo\x00\x1b[31m", "ValueError: one two\ufffd\ufffd[31m"),
            ("日本 " + "é" * 600, "ValueError: 日本 " + "é" * 245 + "…"),
            ("- 5 3 terminal", "ValueError: - 5 3 terminal"),
            ("x" * 10_000_000, "ValueError: " + "x" * 497 + "…"),
        ],
        ids=["empty", "unprintable", "long", "like a record", "huge"],
    )
    @pytest.mark.parametrize("most", [None, 0])
    def test_people_see_one_printable_line(
        self, make_queue: Make, inspector: Inspector, message: str, shown: str, most: int | None
    ) -> None:
        """For living and dead items, and for any message."""
        fail(make_queue(max_retries=most), "a", ValueError(message))
        assert item_of(inspector, "a").last_error == shown

    @pytest.mark.first_contact(9)
    def test_the_last_traceback_of_failing_and_dead_items_is_kept(
        self, make_queue: Make, inspector: Inspector
    ) -> None:
        """Its last 4 KiB, through every way in which an item may fail, until it succeeds."""
        queue = make_queue(max_retries=1)
        fail(queue, "a", raised(ValueError("x" * 10_000)))
        assert item_of(inspector, "a").state == "delayed"
        assert item_of(inspector, "a").traceback == "x" * 4095 + "\n"
        queue.add_rate_limited("a")
        assert item_of(inspector, "a").traceback == "x" * 4095 + "\n"
        fail(queue, "a", raised(ValueError("y" * 10_000)))
        assert item_of(inspector, "a").state == "dead"
        assert item_of(inspector, "a").traceback == "y" * 4095 + "\n"
        queue.add("a")
        queue.settle(queue.get(0))
        assert inspector.item("foos", "a") is None

    def test_a_claim_carries_no_traceback(self, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        """A claim needs the count alone: tracebacks of 250 failing items would be a megabyte."""
        fail(queue, "a", raised(ValueError("x" * 10_000)))
        queue.add("a")
        replies = list[str]()

        def note(reply: Sequence[Any], *more: Any) -> TurnReply:
            replies.append(repr(reply))
            return decode(reply, *more)

        monkeypatch.setattr(turn_client, "decode", note)
        assert queue.get(0).attempt == 2
        assert "ValueError" in replies[-1]
        assert len(replies[-1]) < 1000

    def test_a_failure_without_an_error_keeps_the_last_one(self, queue: Queue, inspector: Inspector) -> None:
        """add_rate_limited has nothing to say about why."""
        fail(queue, "a", ValueError("why"))
        queue.add_rate_limited("a")
        item = item_of(inspector, "a")
        assert (item.failures, item.last_error) == (2, "ValueError: why")

    def test_the_time_is_that_of_the_last_failure(
        self, queue: Queue, inspector: Inspector, server_time: ServerTime
    ) -> None:
        """By the server's clock."""
        fail(queue, "a")
        first = item_of(inspector, "a").last_error_at
        server_time.advance(60)
        fail(queue, "a")
        last = item_of(inspector, "a").last_error_at
        assert first is not None
        assert last is not None
        assert last - first == 60
