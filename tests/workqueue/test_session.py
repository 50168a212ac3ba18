"""Lost replies, lost sessions, silence: what a handle does when it gets no reply."""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from distq.errors import Empty, RedisUnavailable, Unanswered
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.call_combiner import PendingCall
from distq.workqueue.heartbeat import NEWS_INTERVAL, Heartbeat
from distq.workqueue.interface import Release, Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.tcp_proxy import TcpProxy
from tests.workqueue.conftest import ServerTime, SteppedClock, beat

Make = Callable[..., Queue]


class Unheard(Connection):
    """A connection on which replies of scripts get lost when asked to."""

    lost = 0
    losing: Iterator[bool] = iter(())
    """Which of the next replies get lost."""

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Let the server do it, and perhaps lose the reply."""
        reply = super().evaluate(source, sha, arguments, *meanwhile)
        if self.lost or next(self.losing, False):
            self.lost = max(0, self.lost - 1)
            raise RedisUnavailable("the reply was lost")
        return reply

    def with_timeout(self, timeout: float, *, repeats: bool = False) -> Connection:
        """Let replies get lost at a close, too."""
        return self if repeats else super().with_timeout(timeout)


class Slow(Connection):
    """A connection whose next script is answered when a test wants it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.slowly = False
        self.under_way = threading.Event()
        self.go_on = threading.Event()

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Let the server do it, and wait."""
        reply = super().evaluate(source, sha, arguments, *meanwhile)
        if self.slowly:
            self.slowly = False
            self.under_way.set()
            self.go_on.wait(10)
        return reply


@pytest.fixture
def unheard(redis_server: EmbeddedValkey, connection: Connection) -> Unheard:
    """Give a connection whose replies can get lost, to the emptied database."""
    unheard = Unheard(redis_server.url)
    unheard.server_time = connection.server_time
    return unheard


def _queue(connection: Connection) -> Queue:
    queue = Queue("foos", connection)
    queue.turn([], 0)
    return queue


def test_a_claim_whose_reply_was_lost_is_handed_out_by_the_next_get(unheard: Unheard) -> None:
    """The turn is asked for again, and claims nothing more."""
    queue = _queue(unheard)
    queue.add("a", "b")
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.get(0)
    assert queue.get(0).key == "a"
    assert queue.get(0).key == "b"
    queue.close()


def test_a_settlement_whose_reply_was_lost_is_answered_when_it_is_repeated(unheard: Unheard) -> None:
    """It took effect once: the failure counts once, and repeating it answers True."""
    queue = _queue(unheard)
    queue.add("a")
    request = queue.get(0)
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.settle(request, ValueError("once"))
    assert queue.settle(request, ValueError("once"))
    assert queue.num_requeues("a") == 1
    assert not queue.settle(request, ValueError("twice"))
    queue.close()


def test_a_caller_may_change_its_list_though_the_reply_was_lost(unheard: Unheard) -> None:
    """The turn is asked for again with the settlements that were sent."""
    queue = _queue(unheard)
    queue.add("a", "b")
    settlements = [Settlement(request, Success()) for request in queue.turn([], 2).requests]
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.turn(settlements, 0)
    second = settlements.pop()
    assert [each.kind for each in queue.turn(settlements, 0).dispositions] == ["ended"]
    assert queue.settle(second.request)
    queue.close()


def test_a_settlement_is_answered_though_two_replies_were_lost(unheard: Unheard) -> None:
    """That to the settlement, and that to a turn after it was asked for again, when the handle was closed."""
    queue = _queue(unheard)
    queue.add("a")
    request = queue.get(0)
    queue.shut_down()
    unheard.losing = iter([True, False, True])
    with pytest.raises(RedisUnavailable):
        queue.settle(request)
    while True:
        try:
            assert queue.settle(request)
            break
        except RedisUnavailable:
            continue
    assert not queue.settle(request), "answered once"


@pytest.mark.parametrize("how", ["lapsed", "closed"])
def test_a_settlement_of_unknown_end_is_not_called_refused(
    unheard: Unheard, connection: Connection, how: str
) -> None:
    """Sent, not answered, and then the session is gone: that may have been settled, or may not."""
    queue = _queue(unheard)
    queue.add("a")
    request = queue.get(0)
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.settle(request)
    if how == "lapsed":
        connection.execute("DEL", "distq:{foos}:meta")
    else:
        unheard.lost = 1
        with pytest.raises(RedisUnavailable):
            queue.close()
    with pytest.raises(Unanswered, match="unknown whether a was settled"):
        queue.settle(request)
    queue.close()


def test_a_close_asks_again_for_a_turn_that_is_in_doubt(unheard: Unheard) -> None:
    """A later call for it gets the answer; a claim without a caller is given back."""
    queue, other = _queue(unheard), Queue("foos", unheard)
    queue.add("a", "b")
    request = queue.get(0)
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.turn([Settlement(request, Success())], 1)
    queue.close()
    assert queue.settle(request)
    assert other.get(0).key == "b"
    other.close()
    queue.close()


def test_claims_that_no_call_came_back_for_are_released(unheard: Unheard) -> None:
    """A get that was given up leaves nothing claimed for ever: the heartbeat finds the surplus."""
    queue = _queue(unheard)
    queue.add("a")
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.get(0)
    beat(queue)
    beat(queue)
    assert queue.held() == 0
    other = Queue("foos", unheard)
    assert other.get(0).key == "a"
    other.close()
    queue.close()


@pytest.mark.conformance("WQ-18", "PQ-16")
def test_a_handle_that_shuts_down_releases_claims_that_no_call_came_for(unheard: Unheard) -> None:
    """No get comes back for a claim whose reply was lost, and a drain must not wait for it."""
    queue = _queue(unheard)
    queue.add("a", "b")
    request = queue.get(0)
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.get(0)
    queue.shut_down()
    assert queue.settle(request)
    assert queue.shut_down_with_drain(timeout=10)
    other = Queue("foos", unheard)
    assert other.get(0).key == "b"
    other.close()


@pytest.mark.parametrize("busy", [False, True])
def test_a_claim_that_the_server_does_not_know_is_cancelled(
    make_queue: Make, connection: Connection, monkeypatch: pytest.MonkeyPatch, *, busy: bool
) -> None:
    """As after a failover that lost it: the heartbeat's count shows it, and the handler is informed."""
    queue = make_queue()
    if busy:  # a turn comes between each heartbeat and its reply
        monkeypatch.setattr(queue._session, "at_rest", lambda: None)
    heard: list[Request] = []
    queue.on_cancel = heard.append
    queue.add("a", "b")
    gone, kept = queue.turn([], 2).requests
    connection.execute("HDEL", "distq:{foos}:claims", "a")
    connection.execute("ZREM", "distq:{foos}:processing", "a")
    beat(queue)
    assert gone.cancelled.is_set()
    assert heard == [gone]
    assert not kept.cancelled.is_set()
    assert queue.settle(kept)


def test_a_claim_that_the_server_lost_is_cancelled_as_its_item_is_claimed_again(
    make_queue: Make, connection: Connection
) -> None:
    """Also by the same handle, which would otherwise process the item twice at a time."""
    queue = make_queue()
    heard: list[Request] = []
    queue.on_cancel = heard.append
    queue.add("a")
    before = queue.get(0)
    connection.execute("DEL", "distq:{foos}:claims", "distq:{foos}:processing")
    queue.add("a")
    again = queue.get(0)
    assert (before.cancelled.is_set(), again.cancelled.is_set(), heard) == (True, False, [before])
    assert not queue.settle(before)
    assert queue.settle(again)


@pytest.mark.conformance("RD-14")
def test_a_lost_session_cancels_all_and_the_handle_goes_on_with_a_new_one(
    make_queue: Make, connection: Connection
) -> None:
    """After a wipe of Redis nothing old is settled, and new work is claimed."""
    queue = make_queue()
    queue.add("a")
    request = queue.get(0)
    connection.execute("FLUSHALL")
    queue.add("b")
    turn = queue.turn([Settlement(request, Success())], 1)
    assert [disposition.kind for disposition in turn.dispositions] == ["refused"]
    assert request.cancelled.is_set()
    assert [request.key for request in turn.requests] == ["b"]


@pytest.mark.conformance("RD-02")
def test_a_heartbeat_that_is_refused_cancels_at_once(make_queue: Make, connection: Connection) -> None:
    """A zombie learns of it from its next heartbeat, before its handlers end."""
    queue = make_queue()
    queue.add("a")
    request = queue.get(0)
    connection.execute("DEL", "distq:{foos}:meta")
    assert not beat(queue)
    assert request.cancelled.is_set()


def test_a_heartbeat_that_comes_after_the_close_opens_no_session(
    make_queue: Make, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, as if the session were lost, but its handle is closed."""
    queue = make_queue()
    queue.turn([], 0)
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    run_script = heartbeat._store.run

    def closed_before(script: str, **inputs: Any) -> Any:
        queue.close()
        return run_script(script, **inputs)

    monkeypatch.setattr(heartbeat._store, "run", closed_before)
    assert not heartbeat.beat(queue._session)
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 0


@pytest.mark.conformance("RD-02")
def test_a_process_that_cannot_reach_redis_fences_itself(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """Its requests are cancelled in time to end within the claim duration, without a message."""
    clock = SteppedClock()
    queue = Queue("foos", connection, clock=clock)
    queue.add("a")
    request = queue.get(0)
    session = queue._session
    heartbeat = session._heartbeat
    assert heartbeat is not None
    connection.server_time = -1  # the script cannot run: as good as unreachable
    heartbeat._store.connection._address.options["port"] = 1
    heartbeat._store.connection.close()
    clock.ahead = 26.0
    with pytest.raises(RedisUnavailable):
        beat(queue)
    assert not request.cancelled.is_set()
    clock.ahead = 28.0
    assert request.cancelled.is_set()
    heartbeat.fence_if_late(session)
    assert not queue.held()
    connection.server_time = 0
    assert not queue.settle(request)
    heartbeat._store.connection._address.options["port"] = redis_server.port  # of all connections to it
    queue.close()


class Pauses(threading.Event):
    """Notes how long a heartbeat means to rest, and ends it after some rests."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Note the rest, and do not take it."""
        assert timeout is not None
        self.noted.append(timeout)
        return len(self.noted) > 40


def test_a_process_that_was_frozen_while_it_looked_at_its_deadline_knows(
    make_queue: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only what interrupts the rest between two looks counts."""
    clock = SteppedClock()
    queue = make_queue(clock=clock)
    heartbeat = Heartbeat(queue._session)
    heartbeat._looks_at = clock.monotonic() + NEWS_INTERVAL

    def freeze(session: object) -> None:
        clock.ahead = 60.0

    monkeypatch.setattr(heartbeat, "_stopped", Pauses())
    monkeypatch.setattr(heartbeat, "fence_if_late", freeze)
    heartbeat._watch()
    assert heartbeat.stood_still() > 50


def test_a_process_that_was_frozen_for_the_rest_of_its_claims_reports_it(
    make_queue: Make,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A heartbeat was late, and it was frozen just after a look at its deadline: the rest is a second."""
    queue = make_queue(claim_duration=5.0)
    queue.add("a")
    queue.get(0)
    monkeypatch.setattr(queue._session._heartbeat, "stood_still", lambda: 1.0)
    connection.execute("DEL", "distq:{foos}:meta")
    assert not beat(queue)
    assert "this process did not run for " in caplog.text


def test_a_beat_that_was_answered_before_the_process_was_frozen_does_not_hide_that(
    make_queue: Make,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its reply lay in the socket while the process was frozen and its session lapsed."""
    clock = SteppedClock()
    queue = make_queue(clock=clock)
    queue.add("a")
    queue.get(0)
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    answer = heartbeat._store.run

    def answered_before_it_was_frozen(*args: Any, **named: Any) -> Any:
        reply = answer(*args, **named)
        clock.ahead = 60.0
        heartbeat._was_late = heartbeat.stood_still()  # the other thread runs first
        heartbeat._looks_at = clock.monotonic() + NEWS_INTERVAL
        return reply

    monkeypatch.setattr(heartbeat._store, "run", answered_before_it_was_frozen)
    assert beat(queue)
    monkeypatch.undo()
    connection.execute("DEL", "distq:{foos}:meta")
    assert not beat(queue)
    assert "queue foos: this process did not run for " in caplog.text


@pytest.mark.parametrize(("claim_duration", "again_after"), [(3.0, 0.25), (30.0, 1.0)])
def test_after_a_failure_heartbeats_come_well_before_the_claims_lapse(
    make_queue: Make, monkeypatch: pytest.MonkeyPatch, claim_duration: float, again_after: float
) -> None:
    """After an outage a third of the claim duration may be left, and several heartbeats fit into it."""
    queue = make_queue(claim_duration=claim_duration)
    heartbeat, pauses = Heartbeat(queue._session), Pauses()
    failed_after: list[int] = []

    def fail(session: object) -> bool:
        failed_after.append(len(pauses.noted))
        raise RedisUnavailable("no Redis")

    monkeypatch.setattr(heartbeat, "_stopped", pauses)
    monkeypatch.setattr(heartbeat, "beat", fail)
    heartbeat._run()
    rests = [sum(pauses.noted[a:b]) for a, b in pairwise(failed_after)]
    assert rests == pytest.approx([again_after] * len(rests))
    assert again_after <= claim_duration / 3 / 4


def test_the_items_of_a_fenced_process_are_given_back_though_its_session_is_busy(
    redis_server: EmbeddedValkey, make_queue: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage in which the server did not count on: the session lives, and so would its claims."""
    clock = SteppedClock()
    queue, other = make_queue(clock=clock), make_queue()
    queue.add("a")
    zombie = queue.get(0)
    session = queue._session
    heartbeat = session._heartbeat
    assert heartbeat is not None
    clock.ahead = 31.0
    heartbeat._store.connection._address.options["port"] = 1
    heartbeat._store.connection.close()
    with pytest.raises(RedisUnavailable):
        beat(queue)
    assert zombie.cancelled.is_set()
    heartbeat._store.connection._address.options["port"] = redis_server.port
    heartbeat._store.connection.close()
    monkeypatch.setattr(session, "at_rest", lambda: None)  # as if a turn were always under way
    assert beat(queue)
    clock.ahead += 3.0  # for handlers to end
    assert beat(queue)
    assert not queue.settle(zombie)
    assert other.get(0).key == "a"


def test_a_claim_that_came_late_is_not_handed_out_once_it_was_cancelled(unheard: Unheard) -> None:
    """Its handler would begin on a claim that is lost."""
    queue = _queue(unheard)
    queue.add("a")
    unheard.lost = 1
    with pytest.raises(RedisUnavailable):
        queue.get(0)
    session = queue._session
    session.client.resolve_doubt()
    session.ledger.cancel_all("no heartbeat reached Redis for the claim duration")
    with pytest.raises(Empty):
        queue.get(0)
    queue.close()


def test_a_failure_is_counted_though_the_session_was_lost(make_queue: Make, connection: Connection) -> None:
    """It needs no claim, so it goes on in the next session."""
    queue = make_queue()
    queue.add("a")
    request = queue.get(0)
    connection.execute("DEL", "distq:{foos}:meta")
    queue.add_rate_limited("b")
    assert request.cancelled.is_set()
    assert queue.num_requeues("b") == 1


@pytest.mark.usefixtures("connection")  # empties the database
def test_a_close_without_an_answer_ends_the_session_here(
    redis_server: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """Its heartbeat has stopped: its items are cancelled and lapse, and the next use opens another."""
    caplog.set_level(logging.ERROR)
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        queue = Queue("foos", f"redis://127.0.0.1:{proxy.port}")
        queue.add("a")
        request = queue.get(0)
        session = queue._session
        assert session is not None
        proxy.mode = "reset"
        with pytest.raises(RedisUnavailable):
            queue.close()
        assert request.cancelled.is_set()
        assert not session.id
        queue.shut_down()
        proxy.mode = "pass"


def test_while_a_suspect_is_held_its_handle_rests(make_queue: Make, connection: Connection) -> None:
    """It asks for nothing until the suspect ends, so there is nothing to be in a hurry for."""
    queue = make_queue()
    queue.add("suspect", "sibling")
    connection.execute("HSET", "distq:{foos}:failures", "suspect", "0 2 0 - ")
    (suspect,) = queue.turn([], 5).requests
    turn = queue.turn([], 5)
    assert not turn.requests
    assert turn.wait > 0.1
    queue.settle(suspect)
    assert queue.get(0).key == "sibling"


def test_a_handle_that_lost_its_suspect_takes_the_next_item(make_queue: Make, connection: Connection) -> None:
    """With the first turn after it, which opens another session."""
    queue = make_queue()
    queue.add("suspect", "next")
    connection.execute("HSET", "distq:{foos}:failures", "suspect", "0 2 0 - ")
    queue.turn([], 1)
    connection.execute("DEL", "distq:{foos}:meta")
    assert not beat(queue)
    assert [request.key for request in queue.turn([], 1).requests] == ["next"]


def test_a_handle_that_was_dropped_stops_its_heartbeat(
    make_queue: Make, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Its session lapses, as if the process had died, and its items come back."""
    caplog.set_level(logging.ERROR)
    gc.freeze()  # what other tests left is not collected, nor warned of, here
    queue = Queue("foos", connection)
    queue.add("a")
    queue.get(0)
    session = queue._session
    heartbeat = session._heartbeat
    assert heartbeat is not None
    heartbeat._period = 0.01
    del queue, session
    gc.collect()
    gc.unfreeze()
    assert heartbeat._session() is None


def test_the_calls_of_threads_meanwhile_travel_in_one_turn(make_queue: Make) -> None:
    """One script serves all threads that asked while another was under way."""
    queue = make_queue()
    queue.turn([], 0)
    queue.add(*(f"k{number}" for number in range(10)))
    session = queue._session
    calls = [PendingCall([], 1) for _ in range(10)]
    session._combiner._calls += calls
    turns = session.client.op
    session.turn([], 0)
    assert session.client.op == turns + 1
    claimed = [request.key for call in calls if call.turn for request in call.turn.requests]
    assert sorted(claimed) == [f"k{number}" for number in range(10)]


@pytest.mark.conformance("PQ-16")
def test_shut_down_leaves_a_claim_to_the_get_that_is_just_taking_it(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """The handle closes once that is settled; to release it would let a second worker have it."""
    slow = Slow(redis_server.url)
    queue = Queue("foos", slow)
    queue.turn([], 0)
    queue.add("a")
    got: list[Request] = []
    getting = threading.Thread(target=lambda: got.append(queue.get()))
    slow.slowly = True
    getting.start()
    slow.under_way.wait(10)
    closing = threading.Thread(target=queue.shut_down)
    closing.start()
    while not queue.shutting_down:
        time.sleep(0.001)
    slow.go_on.set()
    getting.join(10)
    closing.join(10)
    assert connection.execute("ZCARD", "distq:{foos}:processing") == 1
    assert queue.settle(got[0])
    assert connection.execute("ZCARD", "distq:{foos}:sessions") == 0


def test_close_gives_claims_back_at_once_and_counts_no_crash(
    make_queue: Make, connection: Connection
) -> None:
    """No other worker waits for one that closed its session."""
    leaving, other = make_queue(), make_queue()
    other.turn([], 0)
    leaving.add("a")
    leaving.get(0)
    leaving.close()
    assert other.get(0).attempt == 1
    assert connection.execute("HLEN", "distq:{foos}:failures") == 0


def test_a_handle_that_leaves_hands_over_the_watch_for_the_next_due_time(
    make_queue: Make, connection: Connection
) -> None:
    """It wakes another idle handle; otherwise the item would wait for the next poll of a session."""
    leaving = make_queue()
    leaving.add_after("a", 0.5)
    connection.execute("DEL", "distq:{foos}:wake")
    assert leaving.turn([], 1).wait < 0.6
    leaving.close()
    assert connection.execute("LLEN", "distq:{foos}:wake") == 1


def test_a_turn_takes_no_more_than_the_script_is_bounded_to(queue: Queue) -> None:
    """251 either way is a mistake of the caller."""
    with pytest.raises(ValueError, match="at most 250"):
        queue.turn([], 251)
    with pytest.raises(ValueError, match="at most 250"):
        queue.turn([Settlement(Request("a"), Release())] * 251, 0)


@pytest.mark.conformance("RD-07")
def test_a_server_clock_that_steps_expires_no_session(make_queue: Make, server_time: ServerTime) -> None:
    """An hour forward or back moves the claim clock by one look only."""
    queue, other = make_queue(), make_queue()
    queue.add("a")
    request = queue.get(0)
    for step in (3600, -7200, 86400):
        server_time.advance(step)
        other.turn([], 0)
    assert queue.settle(request)
