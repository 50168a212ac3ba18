"""The thread that keeps claims alive outlives every error of a heartbeat."""

import pytest

from distq.redisio.connection import Connection
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.queue import Queue
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
