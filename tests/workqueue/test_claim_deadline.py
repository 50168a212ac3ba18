"""Claims end here before they end in Redis: counted from when what was answered had been sent."""

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from distq.errors import Empty
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.cancellation import Cancelled, ClaimPeriod
from distq.workqueue.claim_deadline import ClaimDeadline
from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.workqueue.conftest import SteppedClock, beat


class Frozen(Connection):
    """A connection on which a reply comes late: the process is frozen before it reads it."""

    def __init__(self, url: str, clock: SteppedClock) -> None:
        super().__init__(url)
        self._clock = clock
        self.late: dict[str, float] = {}

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Let the server do it, and then let time pass here."""
        reply = super().evaluate(source, sha, arguments, *meanwhile)
        (script,) = [name for name in scripts.names() if scripts.load(name).sha == sha]
        self._clock.ahead += self.late.pop(script, 0.0)
        return reply


@pytest.fixture
def clock() -> SteppedClock:
    """Give a clock of this process."""
    return SteppedClock()


@pytest.fixture
def frozen(redis_server: EmbeddedValkey, connection: Connection, clock: SteppedClock) -> Frozen:
    """Give a connection whose replies can come late, to the emptied database."""
    frozen = Frozen(redis_server.url, clock)
    frozen.server_time = 1_795_000_000_000_000  # the server counts nothing meanwhile: it cannot report this
    return frozen


@pytest.mark.parametrize(("claim_duration", "lasts"), [(30.0, 26.9), (1.0, 0.8), (300.0, 294.9)])
def test_it_leaves_time_to_cancel_and_the_time_that_the_server_may_have_counted_before(
    clock: SteppedClock, claim_duration: float, lasts: float
) -> None:
    """A tenth of the claim duration, 5 s at most, and a tick of the claim clock."""
    deadline = ClaimDeadline(claim_duration, clock)
    assert not deadline.is_over()
    assert deadline.left() == math.inf
    deadline.begin(clock.monotonic())
    assert deadline.left() == pytest.approx(lasts, abs=0.1)


@pytest.mark.parametrize("answer", [ClaimDeadline.extend, ClaimDeadline.begin])
def test_an_answer_after_it_was_missed_brings_no_claim_back(
    clock: SteppedClock, answer: Callable[[ClaimDeadline, float], None]
) -> None:
    """In a process that was frozen, the heartbeat may come first: before a thread cancels or begins."""
    deadline = ClaimDeadline(30.0, clock)
    deadline.begin(clock.monotonic())
    before = Cancelled(deadline.period())
    clock.ahead += 10.0
    deadline.extend(clock.monotonic())
    assert not before.is_set()
    clock.ahead += 27.0
    answer(deadline, clock.monotonic())
    after = Cancelled(deadline.period())
    assert deadline.left() > 0
    assert before.is_set()
    assert not after.is_set()


class Raced(ClaimDeadline):
    """Another thread finds the deadline over while its watcher looks."""

    races = False

    def period(self) -> ClaimPeriod:
        """Return it; the other thread was quicker once."""
        period = super().period()
        self._missed, self.races = self._missed or self.races, False
        return period


def test_a_deadline_that_a_thread_missed_is_known_to_the_watcher_in_the_end(clock: SteppedClock) -> None:
    """Else nothing of it would be cancelled, and its claims be kept for ever."""
    deadline = Raced(30.0, clock)
    deadline.begin(clock.monotonic())
    deadline.races = True
    assert [deadline.take_missed(), deadline.take_missed(), deadline.take_missed()].count(True) == 1


def test_all_are_cancelled_before_the_first_callback() -> None:
    """Callbacks take time, in which another thread may open a session, and so move the deadline."""
    requests = [Request("a", fence=1), Request("b", fence=2)]
    seen: list[bool] = []

    def note(_: Request) -> None:
        seen.append(requests[1].cancelled.is_set())

    ledger = ClaimLedger("foos", on_cancel=note, interrupt=lambda: None)
    ledger.held = {request.key: request for request in requests}
    assert ledger.cancel_all("no heartbeat reached Redis in time") == requests
    assert seen == [True, True]


def test_a_claim_that_came_after_a_freeze_is_not_handed_out(frozen: Frozen, clock: SteppedClock) -> None:
    """The server made it long ago, and another worker may have it by now."""
    queue = Queue("foos", frozen, clock=clock)
    queue.turn([], 0)
    queue.add("a")
    frozen.late = {"turn": 27.0}
    with pytest.raises(Empty):
        queue.get(0)
    assert beat(queue)
    clock.ahead += 3.0
    assert beat(queue)
    assert queue.get(0).key == "a", "the server had not counted on, and has it back"
    queue.close()


def test_nothing_is_claimed_between_the_deadline_and_the_next_heartbeat(
    frozen: Frozen, connection: Connection, clock: SteppedClock
) -> None:
    """It could not be handed out, and would be kept from others."""
    queue = Queue("foos", frozen, clock=clock)
    queue.turn([], 0)
    queue.add("a")
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    heartbeat.stop()
    clock.ahead = 27.0
    turn = queue.turn([], 1)
    assert not turn.requests
    assert turn.wait > 0.1
    assert connection.execute("ZCARD", "distq:{foos}:processing") == 0
    assert beat(queue)
    assert queue.get(0).key == "a"
    queue.close()


@pytest.mark.parametrize("sent_at", [0.0, 22.0])
def test_it_counts_from_when_the_request_was_sent(
    frozen: Frozen, clock: SteppedClock, sent_at: float
) -> None:
    """The server may have counted from then; when its answer came does not matter, nor do turns."""
    queue = Queue("foos", frozen, clock=clock)
    frozen.late = {"open": 20.0}
    queue.add("a")
    request = queue.get(0)
    if sent_at:
        heartbeat = queue._session._heartbeat
        assert heartbeat is not None
        heartbeat._store.connection, frozen.late = frozen, {"heartbeat": 4.0}
        clock.ahead = sent_at
        assert beat(queue)
    clock.ahead = sent_at + 26.0
    queue.turn([], 0)
    assert not request.cancelled.is_set()
    clock.ahead = sent_at + 27.0
    assert request.cancelled.is_set()
    queue.close()


def test_a_thread_that_waits_for_cancelled_is_woken_at_the_deadline(connection: Connection) -> None:
    """No thread has to ask for a turn; in an outage, too."""
    queue = Queue("foos", connection, claim_duration=1.0)
    queue.add("a")
    request = queue.get(0)
    heard = threading.Event()
    queue.on_cancel = lambda _: heard.set()
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    options = heartbeat._store.connection._address.options
    port, options["port"] = options["port"], 1
    heartbeat._store.connection.close()
    assert request.cancelled.wait(30)
    assert heard.wait(30)
    assert queue.held() == 0
    options["port"] = port
    queue.close()


def test_claims_that_were_found_lapsed_too_late_are_given_back_once_their_handlers_had_time_to_end(
    frozen: Frozen, clock: SteppedClock
) -> None:
    """One that saw the deadline pass settles nothing, even if a heartbeat came through just then."""
    queue, other = Queue("foos", frozen, clock=clock), Queue("foos", frozen)
    queue.add("a")
    request = queue.get(0)
    session = queue._session
    assert session._heartbeat is not None
    session._heartbeat.stop()  # it beats when the test says so
    for thread in session._heartbeat._threads:
        thread.join(20)
    clock.ahead = 27.0
    assert request.cancelled.is_set()
    session.client.deadline.extend(session.clock.monotonic())
    for _ in range(3):
        assert beat(queue)
        assert queue.held() == 0
        with pytest.raises(Empty):
            other.get(0)
    clock.ahead += 3.0
    assert beat(queue)
    assert other.get(0).key == "a"
    other.close()
    queue.close()
