"""The thread that keeps claims alive outlives every error of a heartbeat."""

import logging
import time

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.queue import Queue
from distq.workqueue.redis_session import RedisSession
from tests.support.eventually import eventually
from tests.workqueue.conftest import SteppedClock, beat


@pytest.mark.parametrize("step", ["beat", "release_unwanted"])
def test_no_error_ends_the_heartbeat(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    """As an answer of no shape that it knows; the log has its traceback, and the claim lives on."""
    take_step, calls = getattr(Heartbeat, step), list[None]()

    def fail_once(*arguments: object) -> object:
        calls.append(None)
        if len(calls) == 1:
            raise IndexError("an odd answer")
        return take_step(*arguments)

    monkeypatch.setattr(Heartbeat, step, fail_once)
    queue = Queue("foos", connection, claim_duration=9)
    queue.add("a")
    request = queue.get(0)
    eventually(lambda: len(calls) > 2, "it goes on")
    assert queue.is_kept_alive()
    assert "heartbeat failed" in caplog.text
    assert "IndexError: an odd answer" in caplog.text
    assert queue.settle(request)
    queue.close()


@pytest.mark.parametrize("lost", ["claims", "meta"])
def test_a_heartbeat_asks_through_its_own_connection(connection: Connection, lost: str) -> None:
    """That of the turns may hang, and would hold up the next beats until the claims had ended."""
    queue = Queue("foos", connection)
    queue.add("a")
    request = queue.get(0)
    connection.execute("DEL", f"distq:{{foos}}:{lost}")
    if lost == "claims":
        connection.execute("DEL", "distq:{foos}:processing")
    store = queue._session.store
    store.connection = Connection("redis://127.0.0.1:1/0")  # no answer
    beat(queue)
    assert request.cancelled.is_set()
    store.connection = connection
    queue.close()


def test_a_turn_that_hangs_holds_up_no_heartbeat(connection: Connection) -> None:
    """Cancelled claims that the server still has are given back by a later one."""
    clock = SteppedClock()
    queue = Queue("foos", connection, claim_duration=3, clock=clock)
    queue.add("a")
    request, session = queue.get(0), queue._session
    assert session._heartbeat is not None
    clock.ahead = 2.7
    session._heartbeat.fence_if_late(session)
    assert request.cancelled.is_set()
    clock.ahead = 3.5
    with session._turn_lock:
        began = time.monotonic()
        assert beat(queue)
        assert time.monotonic() - began < 3
    assert queue.held() == 0
    eventually(lambda: connection.execute("ZCARD", "distq:{foos}:ready") == 1, "it is given back")
    queue.close()


@pytest.mark.parametrize("step", ["beat", "release_unwanted"])
def test_heartbeats_that_fail_for_long_are_reported_once_and_at_their_end(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    """A fleet without Redis would write a line a second for each queue of each worker."""
    caplog.set_level(logging.INFO, "distq.queue")
    take_step, calls = getattr(Heartbeat, step), list[None]()

    def fail_three_times(heartbeat: Heartbeat, session: RedisSession) -> object:
        if session.store.name != "outages":  # a handle of another test
            return take_step(heartbeat, session)
        calls.append(None)
        if len(calls) <= 3:
            raise RedisUnavailable("no Redis at redis:6379: connection refused.")
        return take_step(heartbeat, session)

    monkeypatch.setattr(Heartbeat, step, fail_three_times)
    queue = Queue("outages", connection, claim_duration=3)
    queue.add("a")
    request = queue.get(0)
    eventually(lambda: len(calls) > 3 and "works again" in caplog.text, "it reports the end")
    assert queue.settle(request)
    queue.close()
    begin, end = [line for line in caplog.messages if line.startswith("queue outages: heartbeat")]
    assert begin == "queue outages: heartbeat: no Redis at redis:6379: connection refused. Trying again."
    assert end.startswith("queue outages: heartbeat: works again after ")
