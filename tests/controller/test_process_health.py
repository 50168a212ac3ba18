"""When a process is alive, and when it is ready: what each probe finds out and what it leaves alone."""

import socket
import threading
from pathlib import Path

import pytest

from distq.client.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.leading import Candidate
from distq.controller.process_health import ProcessHealth
from distq.controller.watches import For
from distq.controller.worker.dispatcher import Dispatcher
from distq.leaderelection import LeaderElector
from distq.metrics import Sample
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.workqueue.queue import Queue
from tests.support.dispatchers import running, stop
from tests.support.eventually import eventually

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


def health(
    connection: Connection, *dispatchers: Dispatcher, candidate: Candidate | None = None
) -> ProcessHealth:
    """Return the health of a process made of these parts."""
    return ProcessHealth(connection=connection, dispatchers=dispatchers, candidate=candidate, queues=[])


def ended_thread() -> threading.Thread:
    """Return a thread that has ended."""
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return thread


def test_a_dispatcher_that_ended_is_a_reason_to_start_again(connection: Connection) -> None:
    """Not before it started, nor once it is stopping."""
    dispatcher = Dispatcher(Controller(Queue("foos", connection), lambda _: None))
    whole = health(connection, dispatcher)
    assert whole.health() == []
    dispatcher.start()
    assert (whole.health(), whole.readiness()) == ([], [])
    eventually(lambda: dispatcher._thread)
    running_thread, dispatcher._thread = dispatcher._thread, ended_thread()
    assert whole.health() == ["foos: its dispatcher ended"]
    assert whole.readiness() == whole.health()
    dispatcher._thread = running_thread
    stop(dispatcher, 5.0)
    assert whole.health() == []


def test_a_worker_that_has_not_begun_answers_probes(connection: Connection) -> None:
    """It may wait for caches to be in step, with a timeout of its reconciles or without."""
    for timeout in None, 5.0:
        controller = Controller(Queue("foos", connection), lambda _: None, reconciliation_timeout=timeout)
        whole = health(connection, Dispatcher(controller))
        assert (whole.health(), whole.readiness()) == ([], [])


def test_a_heartbeat_that_ended_is_a_reason_to_start_again(connection: Connection) -> None:
    """Else the process would work on claims that are no longer its own."""
    queue = Queue("foos", connection)
    with running(Controller(queue, lambda _: None)) as dispatcher:
        whole = health(connection, dispatcher)
        eventually(lambda: queue._session.id)
        assert whole.health() == []
        assert queue._session._heartbeat is not None
        queue._session._heartbeat._threads = [ended_thread()]
        assert whole.health() == ["foos: its heartbeat ended"]


def test_a_process_that_stops_is_alive_but_not_ready(connection: Connection) -> None:
    """So that nothing ends it before its handlers are done."""
    whole = health(connection)
    whole.stopping = True
    assert (whole.health(), whole.readiness()) == ([], ["stopping"])


def hang(_: LeaderElector, stop: threading.Event) -> bool:
    """Renew nothing until the end, and then pretend that the lease is held."""
    return stop.wait()


def test_a_lease_held_past_its_end_is_a_reason_to_start_again(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The elector hangs: it should have given up long before. Before that the leader is not ready."""
    monkeypatch.setattr(LeaderElector, "_renew", hang)
    with EmulatedApiServer() as server:
        client = Client(server.kubeconfig(tmp_path / "kubeconfig"))
        settings = Settings(lease_duration=30.0, renew_deadline=25.0, retry_period=20.0)
        controller = Controller(Queue("foos", connection), print, watches=[For("v1/ConfigMap")])
        candidate = Candidate(
            [controller], client=client, lease=("default", "foos"), settings=settings, on_failure=print
        )
        whole = health(connection, candidate=candidate)
        assert whole.health() == []
        assert whole.readiness() != []
        candidate.start()
        eventually(candidate.is_leader)  # ready it is already when the watch reports the leader first
        assert whole.readiness() == []
        candidate._elector._renewed_at -= 26
        assert (whole.health(), len(whole.readiness())) == ([], 1)
        candidate._elector._renewed_at -= 40
        (problem,) = whole.health()
        assert "not renewed for" in problem
        candidate._elector._renewed_at += 66
        candidate.stop()
        candidate.join()
        assert whole.health() == []


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return True
    return False


@pytest.mark.usefixtures("redis_server")
def test_a_silent_redis_is_waited_for_by_all_queues_at_once() -> None:
    """Else a scrape of many queues would be given up before it says that Redis is away."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        queues = [Queue(name, Connection(url)) for name in ("foos", "bars")]
        whole = ProcessHealth(connection=None, dispatchers=[], candidate=None, queues=queues)
        samples: list[Sample] = []
        look = threading.Thread(target=lambda: samples.extend(whole.gauges()))
        look.start()
        first, second = silent.accept()[0], silent.accept()[0]
        with first, second:
            assert _is_open(first)
            look.join(20)
    assert [(metric.name, labels, value) for metric, labels, value in samples] == [
        ("distq_redis_up", ("foos",), 0.0),
        ("distq_redis_up", ("bars",), 0.0),
    ]
