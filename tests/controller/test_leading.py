"""What a leader starts ends with its term, and while the term still lasts where it stops by itself."""

import threading
from pathlib import Path

import pytest

from distq.client import Client
from distq.config import Settings
from distq.controller import term_work
from distq.controller.controller import Controller
from distq.controller.leading import Candidate
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, Owns
from distq.metrics import REDIS_UP, STREAM_SYNCED
from distq.redisio.connection import Connection
from distq.redisio.stream_store import stream_records
from distq.testing import EmbeddedValkey, EmulatedApiServer, FakeClock
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import QueueOwnerships
from tests.support.eventually import eventually
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
SETTINGS = Settings(lease_duration=5.0, renew_deadline=4.0, retry_period=0.3)
"""Of a process that withdraws within seconds of an outage, and that a busy machine gives time to renew."""


def wait_for_the_end(_: StreamSource, stop: threading.Event) -> None:
    """Do nothing, as a stream of what never changes."""
    stop.wait()


def test_a_stream_does_not_outlive_a_term_in_which_another_stream_failed_to_begin(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a thread cannot be started, for example, the lease is free again, and the reason is logged."""
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_one(thread: threading.Thread) -> None:
        if thread.name.startswith("distq-foos: "):
            if started:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    monkeypatch.setattr(StreamSource, "run", wait_for_the_end)
    failures: list[BaseException] = []
    with EmulatedApiServer() as server:
        client = Client(server.kubeconfig(tmp_path / "kubeconfig"))
        queue = Queue("foos", connection)
        candidate = Candidate(
            [Controller(queue, print, watches=[For("v1/ConfigMap"), Owns("v1/Secret")])],
            client=client,
            lease=("default", "foos"),
            settings=Settings(),
            on_failure=failures.append,
        )
        candidate.start()
        eventually(lambda: failures)
        candidate.join()
        assert [str(failure) for failure in failures] == ["can't start new thread"]
        assert [thread.is_alive() for thread in started] == [False]
        lease = client.get("coordination.k8s.io/v1/Lease", "default/foos")
    assert lease is not None
    assert not lease["spec"]["holderIdentity"]


def test_a_leader_that_stops_is_shown_as_gone_at_once(connection: Connection, tmp_path: Path) -> None:
    """Its streams say so while its term still lasts, with the elector that a process really has."""
    failures: list[BaseException] = []
    with EmulatedApiServer() as server:
        queue = Queue("foos", connection)
        candidate = Candidate(
            [Controller(queue, print, watches=[For("v1/ConfigMap"), Owns("v1/Secret")])],
            client=Client(server.kubeconfig(tmp_path / "kubeconfig")),
            lease=("default", "foos"),
            settings=Settings(lease_duration=600.0),
            on_failure=failures.append,
        )
        candidate.start()
        eventually(lambda: len(leaders(connection)) == 2)
        assert leaders(connection) == [None, None]
        candidate.stop()
        candidate.join()
    assert not failures
    assert None not in leaders(connection)


def test_a_process_that_withdrew_reports_that_redis_is_away(
    connection: Connection, redis_server: EmbeddedValkey, tmp_path: Path
) -> None:
    """Perhaps no leader reports it in its metrics; the process is not ready, and leads again by itself."""
    failures: list[BaseException] = []
    away = REDIS_UP, ("foos",), 0.0
    with EmulatedApiServer() as server, TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        behind = Connection(f"redis://127.0.0.1:{proxy.port}")
        client = Client(server.kubeconfig(tmp_path / "kubeconfig"))
        candidate = Candidate(
            [Controller(Queue("foos", behind), print, watches=[For("v1/ConfigMap")])],
            client=client,
            lease=("default", "foos"),
            settings=SETTINGS,
            on_failure=failures.append,
        )
        candidate.start()
        eventually(lambda: leaders(connection) == [None])
        assert away not in list(candidate.gauges())
        proxy.mode = "refuse"
        eventually(lambda: away in list(candidate.gauges()))
        assert candidate.unready() == "default/foos: left to others until a Redis answers"
        eventually(lambda: not holder(client))
        proxy.mode = "pass"
        eventually(lambda: candidate.is_leader() and not candidate.unready())
        assert away not in list(candidate.gauges())
        candidate.stop()
        candidate.join()
        behind.close()
    assert not failures


def test_a_term_that_ends_late_hides_nothing_of_the_next_one(
    connection: Connection, redis_server: EmbeddedValkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waited for an answer of Redis when this process withdrew: the next term's gauges stay."""
    failures: list[BaseException] = []
    answered, terms = threading.Event(), list[threading.Thread]()

    def may_feed(_: QueueOwnerships) -> bool:
        if (term := threading.current_thread()).name.startswith("distq-leading-") and term not in terms:
            terms.append(term)
            if len(terms) == 1:
                answered.wait(60)
        return True

    monkeypatch.setattr(QueueOwnerships, "may_feed", may_feed)
    with EmulatedApiServer() as server, TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        behind = Connection(f"redis://127.0.0.1:{proxy.port}")
        candidate = Candidate(
            [Controller(Queue("foos", behind), print, watches=[For("v1/ConfigMap")])],
            client=Client(server.kubeconfig(tmp_path / "kubeconfig")),
            lease=("default", "foos"),
            settings=SETTINGS,
            on_failure=failures.append,
        )
        candidate.start()
        eventually(lambda: terms)
        proxy.mode = "refuse"
        eventually(lambda: candidate.unready().endswith("left to others until a Redis answers"))
        proxy.mode = "pass"
        synced = STREAM_SYNCED, ("foos", "v1/ConfigMap"), 1.0
        eventually(lambda: synced in list(candidate.gauges()))
        answered.set()
        terms[0].join(10)
        assert synced in list(candidate.gauges())
        candidate.stop()
        candidate.join()
        behind.close()
    assert not failures


def test_the_time_to_sync_begins_when_the_queue_is_free(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may work on the queue for longer than a controller's watches may take to sync."""
    failures: list[BaseException] = []
    clock, looks = FakeClock(), list[str]()

    def may_feed(_: QueueOwnerships) -> bool:
        if threading.current_thread().name.startswith("distq-leading-"):
            clock.step(100)
            looks.append("closed")
        return not 0 < len(looks) < 4

    monkeypatch.setattr(QueueOwnerships, "may_feed", may_feed)
    monkeypatch.setattr(term_work, "time", clock)
    monkeypatch.setattr(term_work, "LOOK_EVERY", 0.01)
    with EmulatedApiServer() as server:
        candidate = Candidate(
            [Controller(Queue("foos", connection), print, watches=[For("v1/ConfigMap")])],
            client=Client(server.kubeconfig(tmp_path / "kubeconfig")),
            lease=("default", "foos"),
            settings=Settings(lease_duration=600.0),
            on_failure=failures.append,
        )
        candidate.start()
        synced = STREAM_SYNCED, ("foos", "v1/ConfigMap"), 1.0
        eventually(lambda: failures or synced in list(candidate.gauges()))
        candidate.stop()
        candidate.join()
    assert failures == []
    assert len(looks) == 4


def holder(client: Client) -> str:
    """Return who holds the Lease."""
    lease = client.get("coordination.k8s.io/v1/Lease", "default/foos")
    assert lease is not None
    return str(lease["spec"]["holderIdentity"])


def leaders(connection: Connection) -> list[float | None]:
    """Return of each stream since when its leader is gone."""
    now = connection.now()
    return [record.gone_since(now) for record in stream_records(connection, "foos").values()]
