"""The thread that keeps claims alive outlives every error of a heartbeat."""

import logging

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.queue import Queue
from distq.workqueue.redis_session import RedisSession
from tests.support.eventually import eventually


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


def test_heartbeats_that_fail_for_long_are_reported_once_and_at_their_end(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fleet without Redis would write a line a second for each queue of each worker."""
    caplog.set_level(logging.INFO, "distq.queue")
    beat, calls = Heartbeat.beat, list[None]()

    def fail_five_times(heartbeat: Heartbeat, session: RedisSession) -> bool:
        if session.store.name != "outages":  # a handle of another test
            return beat(heartbeat, session)
        calls.append(None)
        if len(calls) <= 5:
            raise RedisUnavailable("no Redis at redis:6379: connection refused.")
        return beat(heartbeat, session)

    monkeypatch.setattr(Heartbeat, "beat", fail_five_times)
    queue = Queue("outages", connection, claim_duration=3)
    queue.add("a")
    request = queue.get(0)
    eventually(lambda: "works again" in caplog.text, "it reports the end")
    assert queue.settle(request)
    queue.close()
    begin, end = [line for line in caplog.messages if line.startswith("queue outages: heartbeat")]
    assert begin == "queue outages: heartbeat: no Redis at redis:6379: connection refused. Trying again."
    assert end.startswith("queue outages: heartbeat: works again after ")
