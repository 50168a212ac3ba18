"""A worker that has nothing to do says once what it waits for."""

import logging

import pytest

from distq.config import Settings
from distq.controller import manager as manager_module
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.process_health import waits_for
from distq.controller.watches import For
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.controller.test_manager import managing
from tests.support.eventually import eventually

pytestmark = pytest.mark.first_contact(13)

one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


def feed(connection: Connection, name: str, **about: object) -> None:
    """Leave the record that a stream's leader leaves."""
    StreamStore(connection, "foos", name).commit(Commit(epoch="1", after="", new="7", batch="b", about=about))


@one_redis
def test_the_cause_of_a_workers_wait_is_named(connection: Connection) -> None:
    """An informer, an event, or a person who resumes the queue."""
    queue = Queue("foos", connection)
    now = connection.now()
    assert waits_for(queue, watched=False) == "nothing to do"
    assert waits_for(queue, watched=True) == "nothing to do; no informer has led yet"
    feed(connection, "dead", seen=now - 80, lease=15, fed=now - 100)
    assert waits_for(queue, watched=True).startswith("nothing to do; no leader for 1m")
    feed(connection, "quiet", seen=now, lease=15)
    assert waits_for(queue, watched=True).startswith("nothing to do; last event 1m4")
    feed(connection, "busy", seen=now, lease=15, fed=now - 40)
    assert waits_for(queue, watched=True).startswith("nothing to do; last event 4")
    feed(connection, "stuck", seen=now, lease=15, resource="v1/ConfigMap", synced=False)
    assert waits_for(queue, watched=True).startswith("nothing to do; v1/ConfigMap is not synced yet: ")
    queue.add("a")
    Inspector(connection).pause("foos")
    assert waits_for(queue, watched=True) == "the queue is paused, until: distq resume foos"


@one_redis
def test_a_worker_that_waits_says_so_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log shows that it is connected."""
    monkeypatch.setattr(manager_module, "WAITING_REPORT", 0.05)
    controller = Controller("foos", lambda _: None, watches=[For("v1/ConfigMap")])
    manager = Manager([controller], redis=connection, settings=Settings())
    line = "foos: connected; nothing to do; no informer has led yet"
    with caplog.at_level(logging.INFO), managing(manager, informer=False):
        eventually(lambda: line in caplog.messages)
    assert caplog.messages.count(line) == 1
