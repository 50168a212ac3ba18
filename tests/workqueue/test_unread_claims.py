"""A turn that claims many leaves them to the next turn of its worker: they are read while Redis works."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from distq.errors import RedisUnavailable
from distq.inspector import Inspector
from distq.metrics import QUEUE_DURATION
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.keys import queue_key
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.claim_ledger import FEW
from distq.workqueue.interface import Settlement, Success, Turn
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics
from tests.workqueue.conftest import SteppedClock, beat

MANY = FEW + 4
KEYS = [f"item-{number:02}" for number in range(MANY)]


class Turns(Connection):
    """A connection that notes its turns, and loses the reply of one when asked to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.got: list[Request] = []
        self.at_turns = list[int]()
        """How many requests were handed out when Redis had begun a turn, and was asked for its reply."""
        self.loses = False

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Let the server do it."""
        if sha != scripts.load("turn").sha:
            return super().evaluate(source, sha, arguments, *meanwhile)

        def note() -> None:
            if meanwhile and meanwhile[0] is not None:
                meanwhile[0]()
            self.at_turns.append(len(self.got))

        reply = super().evaluate(source, sha, arguments, note)
        if self.loses:
            self.loses = False
            raise RedisUnavailable("the reply was lost")
        return reply


@pytest.fixture
def turns(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Turns]:
    """Give a connection that notes turns, to the emptied database."""
    del connection
    turns = Turns(redis_server.url)
    yield turns
    turns.close()


@pytest.fixture
def queue(turns: Turns) -> Iterator[Queue]:
    """Give a queue whose last turn left as many claims as there are ``KEYS``."""
    queue = Queue("foos", turns)
    queue.add(*KEYS)
    turn = queue.turn([], MANY, turns.got.extend)
    assert (turn.requests, turn.spare, turns.got) == ([], MANY, [])
    turns.at_turns.clear()
    yield queue
    queue.close()


def _claims(connection: Connection) -> int:
    return int(connection.execute("HLEN", queue_key("foos", "claims")))


def _keys(requests: Sequence[Request]) -> list[str]:
    return [request.key for request in requests]


def test_the_next_turn_hands_them_out_while_redis_works(queue: Queue, turns: Turns) -> None:
    """In their order, and settled as any other; what that turn claims is left to the one after."""
    queue.add(*(f"next-{number:02}" for number in range(MANY)))
    turn = queue.turn([], 2 * MANY, turns.got.extend)
    assert (turns.at_turns, _keys(turns.got)) == ([MANY], KEYS)
    assert (turn.requests, turn.spare) == ([], MANY)
    settlements = [Settlement(request, Success()) for request in turns.got]
    ended = queue.turn(settlements, MANY, turns.got.extend)
    assert {each.kind for each in ended.dispositions} == {"ended"}
    assert len(turns.got) == 2 * MANY


def test_a_worker_that_makes_no_turn_gets_them_without_redis(queue: Queue, turns: Turns) -> None:
    """They are claimed already."""
    turn = queue.turn([], MANY, turns.got.extend)
    assert (_keys(turn.requests), turns.at_turns, turn.spare) == (KEYS, [], 0)


def test_few_are_returned_at_once(turns: Turns) -> None:
    """They cost little to read, and their handlers are idle."""
    queue = Queue("foos", turns)
    queue.add(*KEYS[:FEW])
    turn = queue.turn([], MANY, turns.got.extend)
    assert (_keys(turn.requests), turn.spare, turns.got) == (KEYS[:FEW], 0, [])


def test_any_other_call_gets_them_too(queue: Queue, turns: Turns) -> None:
    """No claim waits for a worker that does not come back."""
    assert queue.get(0).key == KEYS[0]
    assert _keys(queue.turn([], MANY).requests) == KEYS[1:]
    assert turns.got == []


def test_a_worker_gets_what_another_call_left(queue: Queue, turns: Turns) -> None:
    """The other one has read all of them."""
    queue.get(0)
    turns.got.extend(queue.turn([], MANY).requests)
    assert _keys(turns.got) == KEYS[1:]


def test_they_count_as_held(queue: Queue) -> None:
    """So a drain does not end before they are given back."""
    assert queue.held() == MANY


@pytest.mark.parametrize("end", ["shut_down", "close"])
def test_they_are_given_back_at_the_end(queue: Queue, connection: Connection, end: str) -> None:
    """In their order; no handler ever had them."""
    getattr(queue, end)()
    assert (_claims(connection), queue.held()) == (0, 0)
    other = Queue("foos", connection)
    assert _keys(other.turn([], MANY).requests) == KEYS
    other.close()


def test_a_drain_ends_once_they_are_given_back(queue: Queue, connection: Connection) -> None:
    """At once, since no handler has one."""
    assert queue.shut_down_with_drain(20)
    assert _claims(connection) == 0


def test_the_heartbeat_gives_back_what_a_worker_does_not_fetch(queue: Queue, connection: Connection) -> None:
    """At its second look: the thread may have died."""
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    heartbeat.release_unwanted(queue._session)
    assert _claims(connection) == MANY
    heartbeat.release_unwanted(queue._session)
    assert (_claims(connection), queue.held()) == (0, 0)


def test_a_comparison_with_redis_keeps_them(queue: Queue, turns: Turns, connection: Connection) -> None:
    """It gives back claims that no caller has, and cancels none that are in order."""
    turns.got.extend(queue.turn([], MANY).requests)
    queue.add(*(f"next-{number:02}" for number in range(MANY)))
    assert queue.turn([], MANY, turns.got.extend).spare == MANY
    assert queue._session.recount()
    assert (_claims(connection), queue.held()) == (MANY, MANY)
    assert not any(request.cancelled.is_set() for request in turns.got)


def test_none_runs_once_its_session_is_lost(queue: Queue, turns: Turns, connection: Connection) -> None:
    """Those handed out in the turn that finds out are cancelled."""
    connection.execute("FLUSHALL")
    queue.turn([], MANY + 1, turns.got.extend)
    assert _keys(turns.got) == KEYS
    assert all(request.cancelled.is_set() for request in turns.got)
    assert queue.held() == 0


def test_none_is_handed_out_once_another_call_found_its_session_lost(
    queue: Queue, turns: Turns, connection: Connection
) -> None:
    """They ended with the session."""
    connection.execute("FLUSHALL")
    queue.add_rate_limited("failing")
    turn = queue.turn([], MANY, turns.got.extend)
    assert turns.got == []
    assert {*_keys(turn.requests)} <= {"failing"}
    assert queue.held() == len(turn.requests)


def test_those_that_a_restored_redis_still_has_are_handed_out(
    queue: Queue, turns: Turns, connection: Connection
) -> None:
    """It has forgotten a turn since; they are compared with its claims first."""
    last_turn = queue_key("foos", "meta"), queue._session.id.partition("-")[0]
    before = connection.execute("HGET", *last_turn)
    queue.add_rate_limited("failing")
    connection.execute("HSET", *last_turn, before)
    queue.add_rate_limited("failing")
    turns.got.extend(queue.turn([], MANY).requests)
    assert _keys(turns.got) == KEYS
    assert _claims(connection) == MANY
    assert not any(request.cancelled.is_set() for request in turns.got)


def test_none_is_handed_out_after_the_deadline(turns: Turns, connection: Connection) -> None:
    """Another worker may have them soon; once the time to cancel is over, they are given back."""
    clock = SteppedClock()
    queue = Queue("foos", turns, clock=clock)
    queue.add(*KEYS)
    queue.turn([], MANY, turns.got.extend)
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    clock.ahead += 28
    heartbeat.fence_if_late(queue._session)
    queue.turn([], MANY, turns.got.extend)
    assert turns.got == []
    clock.ahead += 5
    beat(queue)
    assert (_claims(connection), queue.held()) == (0, 0)
    queue.close()


def test_a_lost_reply_changes_nothing_about_them(queue: Queue, turns: Turns) -> None:
    """They were handed out once; the claims of the turn in doubt come with the next one."""
    queue.add(*(f"next-{number:02}" for number in range(MANY)))
    turns.loses = True
    with pytest.raises(RedisUnavailable):
        queue.turn([], 2 * MANY, turns.got.extend)
    assert _keys(turns.got) == KEYS
    turns.got.extend(queue.turn([], MANY).requests)
    assert len({*_keys(turns.got)}) == len(turns.got) == 2 * MANY


def test_an_item_that_cannot_be_read_is_dead(turns: Turns, connection: Connection) -> None:
    """The others are handed out."""
    queue = Queue("foos", turns)
    queue.add(*KEYS)
    connection.execute("ZADD", queue_key("foos", "ready"), 1, b"\xff")
    queue.turn([], MANY + 1, turns.got.extend)
    turns.got.extend(queue.turn([], MANY).requests)
    assert _keys(turns.got) == KEYS
    assert Inspector(connection).queues("foos")[0].dead == 1
    queue.close()


def test_an_item_that_cannot_be_read_is_given_back_where_redis_does_not_answer(
    turns: Turns, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """The next worker that claims it makes it dead."""
    queue = Queue("foos", turns)
    queue.add(*KEYS)
    connection.execute("ZADD", queue_key("foos", "ready"), 1, b"\xff")
    queue.turn([], MANY + 1, turns.got.extend)
    turns.loses = True
    with pytest.raises(RedisUnavailable):
        queue.turn([], MANY + 2, turns.got.extend)
    assert queue._session.recount()
    assert _claims(connection) == MANY
    queue.turn([], 0)
    assert "is dead" not in caplog.text
    queue.close()


def _travels_along(queue: Queue, turns: Turns, want: int) -> Turn:
    """Return a worker's turn that another call travelled with."""
    session, added = queue._session, threading.Thread(target=queue.add_rate_limited, args=("failing",))
    made = list[Turn]()
    session._turn_lock.acquire()
    worker = threading.Thread(target=lambda: made.append(queue.turn([], want, turns.got.extend)))
    worker.start()
    eventually(lambda: len(session._combiner._calls) == 1)
    added.start()
    eventually(lambda: len(session._combiner._calls) == 2)
    session._turn_lock.release()
    worker.join(20)
    added.join(20)
    return made[0]


def test_they_are_shared_with_a_call_that_travels_along(queue: Queue, turns: Turns) -> None:
    """Then the turn returns them as any other does."""
    turn = _travels_along(queue, turns, MANY)
    assert (_keys(turn.requests), turn.spare, turns.got) == (KEYS, 0, [])


def test_a_worker_learns_that_they_are_left_where_another_call_travelled_along(
    queue: Queue, turns: Turns
) -> None:
    """Else it would sleep while it holds them."""
    assert _travels_along(queue, turns, 0).spare == MANY
    assert _keys(queue.turn([], MANY).requests) == KEYS


def test_their_waits_are_measured_once(turns: Turns) -> None:
    """When they are handed out."""
    metrics = RecordedMetrics()
    queue = Queue("foos", turns, metrics=metrics)
    queue.add(*KEYS)
    queue.turn([], MANY, turns.got.extend)
    turns.got.extend(queue.turn([], MANY).requests)
    assert len(metrics.observed[QUEUE_DURATION, ("foos", "foos")]) == MANY
    queue.close()


def test_claims_of_a_turn_in_doubt_are_among_those_that_its_worker_wants(
    turns: Turns, connection: Connection
) -> None:
    """It did not learn of them, and has no slot for more."""
    queue = Queue("foos", turns)
    queue.add(*(f"item-{number:02}" for number in range(3 * MANY)))
    queue.turn([], 0)
    turns.loses = True
    with pytest.raises(RedisUnavailable):
        queue.turn([], MANY, turns.got.extend)
    turn = queue.turn([], MANY, turns.got.extend)
    assert (turns.got, _keys(turn.requests), turn.spare) == ([], KEYS, 0)
    assert _claims(connection) == MANY
    queue.close()


def test_an_item_that_cannot_be_read_is_not_called_dead_where_its_claim_was_lost(
    turns: Turns, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Its session has ended, so nothing was done about it."""
    queue = Queue("foos", turns)
    queue.add(*KEYS)
    connection.execute("ZADD", queue_key("foos", "ready"), 1, b"\xff")
    queue.turn([], MANY + 1, turns.got.extend)
    connection.execute("FLUSHALL")
    queue.turn([], MANY, turns.got.extend)
    assert "is dead" not in caplog.text
    queue.close()


def test_they_are_handed_out_though_redis_cannot_be_reached(
    queue: Queue, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are as good as before; else their handlers would be idle for the outage, and get them late."""

    def refuse(*_: object) -> None:
        raise RedisUnavailable("nothing listens there")

    monkeypatch.setattr(turns, "evaluate", refuse)
    with pytest.raises(RedisUnavailable):
        queue.turn([], MANY + 1, turns.got.extend)
    assert _keys(turns.got) == KEYS
