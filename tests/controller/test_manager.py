"""A Manager runs controllers from the first event to an orderly end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from distq.client.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.event_queue import ONE_REQUEST, EventQueue
from distq.controller.manager import Manager, _raise_first
from distq.controller.watches import Every, For, Owns, Watch
from distq.errors import ApiError, ConfigError, LeaseLost, NotFound, QueueTaken, RedisUnavailable
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.stream_store import stream_records
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.leading import Scene
from tests.controller.test_dispatcher import left_over
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy

LEASE = "coordination.k8s.io/v1/Lease"
CONFIG_MAP = "v1/ConfigMap"
one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


class Running:
    """A Manager in a thread, and how it ended."""

    def __init__(self, manager: Manager, **sides: bool) -> None:
        self.manager = manager
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, kwargs=sides, daemon=True)
        self._thread.start()

    def _run(self, **sides: bool) -> None:
        try:
            self.manager.run(**sides)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def ended(self) -> bool:
        """Return whether ``run`` returned."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop gracefully and wait."""
        self.manager.stop()
        self._thread.join(30)
        assert self.ended()


@contextmanager
def managing(manager: Manager, **sides: bool) -> Iterator[Running]:
    """Run a manager until the block ends."""
    running = Running(manager, **sides)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def settings(namespace: str) -> Settings:
    """Give settings with a short lease in the test's namespace."""
    return Settings(
        lease_name="distq-test",
        lease_namespace=namespace,
        lease_duration=4.0,
        renew_deadline=3.0,
        retry_period=0.5,
        grace_period=10.0,
    )


def holder(client: Client, namespace: str) -> str:
    """Return the holder of the Lease; "" without one."""
    lease = client.get(LEASE, f"{namespace}/distq-test")
    return (lease["spec"].get("holderIdentity") or "") if lease else ""


def watching(queue: str, namespace: str, reconcile: Any, **options: Any) -> Controller:
    """Return a controller of the namespace's ConfigMaps called a, b, ..."""
    watch = For(CONFIG_MAP, namespaces=[namespace], label_selector="distq=test")
    return Controller(queue, reconcile, watches=[watch], **options)


def labelled(namespace: str, name: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap that ``watching`` watches."""
    obj = config_map(namespace, name, **data)
    obj["metadata"]["labels"] = {"distq": "test"}
    return obj


class TestEndToEnd:
    """API server, lease, stream, Redis, dispatcher, handler."""

    pytestmark = one_redis

    def test_every_change_reaches_the_handler(
        self, api_server: ApiServer, connection: Connection, namespace: str, settings: Settings
    ) -> None:
        """Creation, update and deletion are reconciled; a graceful stop releases the lease and all claims."""
        client, seen = api_server.client(), {}

        def reconcile(request: Request) -> None:
            obj = client.get(CONFIG_MAP, request.key)
            seen[request.name] = obj["data"]["color"] if obj else None

        manager = Manager(
            [watching("foos", namespace, reconcile)], redis=connection, client=client, settings=settings
        )
        with managing(manager) as running:
            for name in "abc":
                client.create(labelled(namespace, name, color="red"))
            eventually(lambda: seen == dict.fromkeys("abc", "red"))
            client.patch(CONFIG_MAP, f"{namespace}/a", {"data": {"color": "green"}})
            client.delete(CONFIG_MAP, f"{namespace}/b")
            eventually(lambda: seen == {"a": "green", "b": None, "c": "red"})
            assert holder(client, namespace)
        assert running.error is None
        assert holder(client, namespace) == ""
        assert left_over(connection, "foos") == {}

    def test_another_process_takes_over_without_a_list(
        self,
        api_server: ApiServer,
        connection: Connection,
        namespace: str,
        settings: Settings,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The follower leads as soon as the leader stopped, and resumes where it ended."""
        client, seen = api_server.client(), set()

        def manager() -> Manager:
            return Manager(
                [watching("foos", namespace, lambda request: seen.add(request.name))],
                redis=connection,
                client=api_server.client(),
                settings=settings,
            )

        with caplog.at_level("INFO", logger="distq"), managing(manager()) as first:
            client.create(labelled(namespace, "a"))
            eventually(lambda: seen == {"a"})
            leader = holder(client, namespace)
            with managing(manager()):
                eventually(lambda: caplog.text.count(f"the leader is {leader}") == 2)
                first.stop()
                client.create(labelled(namespace, "b"))
                eventually(lambda: seen == {"a", "b"})
                assert holder(client, namespace) not in {"", leader}
                eventually(lambda: f"synced   {CONFIG_MAP} resumed at " in caplog.text)

    def test_losing_the_lease_ends_the_process_after_its_handlers(
        self, api_server: ApiServer, connection: Connection, namespace: str, settings: Settings
    ) -> None:
        """A rival's record ends the term; what runs is finished, then ``run`` raises LeaseLost."""
        client = api_server.client()
        started, go, finished = threading.Event(), threading.Event(), threading.Event()

        def reconcile(request: Request) -> None:
            started.set()
            go.wait(20)
            finished.set()

        manager = Manager(
            [watching("foos", namespace, reconcile)], redis=connection, client=client, settings=settings
        )
        with managing(manager) as running:
            client.create(labelled(namespace, "a"))
            assert started.wait(20)
            rival = {"spec": {"holderIdentity": "rival", "acquireTime": "2026-01-01T00:00:00.000000Z"}}
            client.patch(LEASE, f"{namespace}/distq-test", rival)
            eventually(lambda: not manager.is_leader())
            go.set()
            eventually(running.ended)
        assert isinstance(running.error, LeaseLost)
        assert finished.is_set()
        assert left_over(connection, "foos") == {}
        assert holder(client, namespace) == "rival"

    def test_losing_the_lease_to_silence_is_logged_once(
        self,
        proxied: Client,
        proxy: TcpProxy,
        scene: Scene,
        settings: Settings,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """That it was not released, and expires by itself, has the same cause."""
        manager = Manager(
            [watching("foos", scene.namespace, print)],
            redis=scene.connection,
            client=proxied,
            settings=settings,
        )
        with managing(manager, workers=False) as running:
            eventually(lambda: Inspector(scene.connection).streams("foos"))
            proxy.mode = "hang"
            eventually(running.ended, timeout=60)
            proxy.mode = "pass"
        assert isinstance(running.error, LeaseLost)
        assert "had another cause" not in caplog.text
        assert "stopped before all was settled" not in caplog.text

    def test_an_unknown_resource_ends_it_and_frees_the_lease(
        self, api_server: ApiServer, connection: Connection, namespace: str, settings: Settings
    ) -> None:
        """A leader that cannot watch names the resource, and does not block another leader."""
        client = api_server.client()
        controller = Controller("foos", lambda _: None, watches=[For("example.com/v1/Nothing")])
        manager = Manager([controller], redis=connection, client=client, settings=settings)
        with pytest.raises(NotFound, match=r"cannot watch example.com/v1/Nothing: .* Apply its CRD first"):
            manager.run()
        assert holder(client, namespace) == ""

    @pytest.mark.first_contact(11)
    def test_a_missing_crd_is_one_line_under_its_own_kind(
        self,
        api_server: ApiServer,
        connection: Connection,
        namespace: str,
        settings: Settings,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The watches of its owned objects wait, and do not fail; a chain of causes would not help."""
        watches: list[Watch] = [For("example.com/v1/Nothing"), Owns(CONFIG_MAP), Owns("apps/v1/Deployment")]
        controller = Controller("foos", lambda _: None, watches=watches)
        client = api_server.client()
        manager = Manager([controller], redis=connection, client=client, settings=settings)
        with pytest.raises(NotFound, match=r"watch example\.com/v1/Nothing") as caught:
            manager.run()
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []
        assert holder(client, namespace) == ""

    def test_watches_that_do_not_sync_in_time_end_it(
        self,
        api_server: ApiServer,
        redis_server: EmbeddedValkey,
        connection: Connection,
        namespace: str,
        settings: Settings,
    ) -> None:
        """A leader whose queue cannot be reached leaves, so that another may try, and names the cause."""
        client, address = api_server.client(), urlsplit(redis_server.url)
        with TcpProxy((address.hostname or "", address.port or 0)) as proxy:
            proxy.mode = "refuse"
            queue = Queue("foos", Connection(f"redis://127.0.0.1:{proxy.port}/0"))
            watch = For(CONFIG_MAP, namespaces=[namespace])
            controller = Controller(queue, lambda _: None, watches=[watch], cache_sync_timeout=0.5)
            manager = Manager([controller], redis=connection, client=client, settings=settings)
            words = f"cannot sync v1/ConfigMap: not listed in time. no Redis at 127.0.0.1:{proxy.port}: "
            with pytest.raises(ApiError, match=words):
                manager.run(workers=False)
        assert holder(client, namespace) == ""

    def test_a_list_that_is_refused_is_named_at_the_end(
        self, api_server: ApiServer, connection: Connection, namespace: str, settings: Settings
    ) -> None:
        """The last words of a leader that may not list are the refusal, and no guess."""
        watch = For(CONFIG_MAP, namespaces=[namespace], field_selector="spec.no=field")
        controller = Controller("foos", lambda _: None, watches=[watch], cache_sync_timeout=1.0)
        manager = Manager([controller], redis=connection, client=api_server.client(), settings=settings)
        with pytest.raises(ApiError, match=r"not listed in time\. v1/ConfigMap: GET .*: 400 "):
            manager.run(workers=False)

    def test_a_timer_feeds_the_queue_while_leading(
        self, api_server: ApiServer, connection: Connection, settings: Settings
    ) -> None:
        """Every enqueues its keys, also without any resource to watch."""
        seen: list[str] = []
        controller = Controller(
            "foos", lambda request: seen.append(request.key), watches=[Every(0.1, lambda: ["report"])]
        )
        with managing(Manager([controller], redis=connection, client=api_server.client(), settings=settings)):
            eventually(lambda: len(seen) >= 3)

    def test_a_controller_without_watches_any_more_is_cleaned_up(
        self, api_server: ApiServer, connection: Connection, namespace: str, settings: Settings
    ) -> None:
        """The watches of another controller make a process lead, which ends the streams of the first."""
        client = api_server.client()
        client.create(labelled(namespace, "a"))

        def feeds(queue: str) -> bool:
            return any(record.about["synced"] for record in stream_records(connection, queue).values())

        bars = watching("bars", namespace, print)
        for foos in watching("foos", namespace, print), Controller("foos", print):
            manager = Manager([foos, bars], redis=connection, client=client, settings=settings)
            with managing(manager, workers=False):
                watched = [each.name for each in (foos, bars) if each.watches]
                eventually(lambda: list(filter(feeds, ("foos", "bars"))) == watched)  # noqa: B023 - used within the loop
        assert len(connection.execute("KEYS", "*known:*")) == 1

    def test_the_informer_alone_reconciles_nothing(
        self, api_server: ApiServer, connection: Connection, namespace: str, settings: Settings
    ) -> None:
        """Keys wait for workers elsewhere."""
        client, seen = api_server.client(), list[Request]()
        manager = Manager(
            [watching("foos", namespace, seen.append)], redis=connection, client=client, settings=settings
        )
        with managing(manager, workers=False):
            client.create(labelled(namespace, "a"))
            eventually(lambda: left_over(connection, "foos") == {"ready": 1})
        assert seen == []


class TestRefusals:
    """Arguments that cannot work are refused before anything starts."""

    def test_redis_that_is_not_there(self) -> None:
        """The error is the one of the first use, at the start."""
        manager = Manager([Controller("foos", lambda _: None)], redis="redis://127.0.0.1:1/0")
        with pytest.raises(RedisUnavailable, match=r"no Redis at 127\.0\.0\.1:1"):
            manager.run()

    @one_redis
    def test_a_cluster_that_is_not_there(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Watches need one, so the informer side says so; workers alone do not."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        controller = Controller("foos", lambda _: None, watches=[For(CONFIG_MAP)])
        with pytest.raises(ConfigError, match="no cluster"):
            Manager([controller], redis=connection).run()
        with managing(Manager([controller], redis=connection), informer=False) as running:
            eventually(lambda: connection.execute("HLEN", "distq:{foos}:workers") == 1)
        assert running.error is None

    def test_two_controllers_of_one_queue(self) -> None:
        """Each would get a part of the other's items."""
        controllers = [Controller("foos", lambda _: None), Controller("foos", lambda _: None)]
        with pytest.raises(ConfigError, match="2 controllers of the queue foos"):
            Manager(controllers)

    def test_no_controller_at_all(self) -> None:
        """Nothing would ever happen."""
        with pytest.raises(ConfigError, match="nothing to run"):
            Manager([])

    def test_a_kubeconfig_in_place_of_a_client_is_refused(self) -> None:
        """Where ``redis`` takes a URL, a path looks right."""
        with pytest.raises(ConfigError, match=r"bad client 'config'. Give a Client: Client\('config'\)"):
            Manager([Controller("foos", print)], client="config")  # type: ignore[arg-type]  # the mistake

    def test_a_value_that_is_no_controller_is_refused(self) -> None:
        """A list in a list, say: run_until_idle takes them one by one, a Manager in a list."""
        controller: Any = [Controller("foos", lambda _: None)]
        with pytest.raises(ConfigError, match=r"bad controllers: \[.* is no Controller"):
            Manager([controller])

    def test_an_informer_without_watches(self) -> None:
        """It would lead and do nothing."""
        with pytest.raises(ConfigError, match="nothing to watch"):
            Manager([Controller("foos", lambda _: None)]).run(workers=False)

    @one_redis
    def test_a_queue_that_a_user_made_unfair(self, connection: Connection) -> None:
        """A worker whose code says otherwise does not start; one that runs goes on."""
        controller = Controller("foos", lambda _: None, fair_by="namespace")
        with managing(Manager([controller], redis=connection), informer=False) as running:
            eventually(lambda: connection.execute("HLEN", "distq:{foos}:workers") == 1)
            assert Inspector(connection).fair_by("foos", None) == "namespace"
            Queue("foos", connection).add("ns/a")
            eventually(lambda: connection.execute("ZCARD", "distq:{foos}:ready") == 0)
            with pytest.raises(ConfigError, match="the queue foos is fair by none"):
                Manager([Controller("foos", lambda _: None, fair_by="namespace")], redis=connection).run(
                    informer=False
                )
        assert running.error is None

    @one_redis
    def test_running_it_twice(self, connection: Connection) -> None:
        """A Manager that ended stays ended (controller-runtime: started more than once)."""
        manager = Manager([Controller("foos", lambda _: None)], redis=connection)
        manager.stop()
        manager.run()
        with pytest.raises(ConfigError, match="was run before"):
            manager.run()


class TestWorkers:
    """The worker side, without a cluster."""

    pytestmark = one_redis

    def test_queues_with_a_connection_of_their_own_keep_it(
        self, redis_server: EmbeddedValkey, connection: Connection
    ) -> None:
        """The manager's connection is for the others."""
        own = Connection(redis_server.url.replace("/0", "/1"))
        seen: list[str] = []
        first, second = Queue("first"), Queue("second", own)
        controllers = [
            Controller(queue, lambda request: seen.append(request.key)) for queue in (first, second)
        ]
        with managing(Manager(controllers, redis=connection)):
            Queue("first", connection).add("a")
            Queue("second", own).add("b")
            eventually(lambda: sorted(seen) == ["a", "b"])

    @pytest.mark.usefixtures("connection")
    def test_a_controller_may_run_again_elsewhere(self, redis_server: EmbeddedValkey) -> None:
        """The next Manager's connection counts: a module's controller serves one test after another."""
        seen: list[str] = []
        controller = Controller("foos", lambda request: seen.append(request.key))
        for database in "01":
            elsewhere = Connection(redis_server.url.replace("/0", f"/{database}"))
            with managing(Manager([controller], redis=elsewhere)):
                Queue("foos", elsewhere).add(database)
                eventually(lambda: not left_over(elsewhere, "foos"))  # noqa: B023 - used within the loop
            elsewhere.close()
        assert seen == ["0", "1"]

    def test_the_settings_concurrency_wins(self, connection: Connection) -> None:
        """A deployment may say how many run at a time."""
        started, go = threading.Semaphore(0), threading.Event()

        def reconcile(request: Request) -> None:
            started.release()
            go.wait(20)

        Queue("foos", connection).add(*map(str, range(5)))
        manager = Manager(
            [Controller("foos", reconcile, concurrency=8)], redis=connection, settings=Settings(concurrency=2)
        )
        with managing(manager):
            eventually(lambda: left_over(connection, "foos") == {"processing": 2, "claims": 2, "ready": 3})
            go.set()


def test_all_controllers_and_the_candidate_share_a_client() -> None:
    """Where none is given it is made once: it learns what the API server has, and has a pool of its own."""
    manager = Manager([Controller("foos", lambda _: None)])
    assert manager._parts.client is manager._parts.client
    own = Client()
    assert Manager([Controller("foos", lambda _: None)], client=own)._parts.client is own


def test_a_client_of_length_zero_is_no_other_client() -> None:
    """A program's own Client may count something: it is not taken for none, and its cluster for another."""

    class Counting(Client):
        def __len__(self) -> int:
            return 0

    own = Counting()
    assert Manager([Controller("foos", lambda _: None)], client=own)._parts.client is own


def test_nohup_is_heeded() -> None:
    """A process that ignores SIGHUP goes on, and one with a handler for it is called."""
    before = signal.getsignal(signal.SIGHUP)
    try:
        for handler in (signal.SIG_IGN, lambda *_: None):
            signal.signal(signal.SIGHUP, handler)
            with EventQueue().receiving_signals():
                assert signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_two_signals_at_almost_the_same_time_are_one_however_late_they_are_taken() -> None:
    """A main thread that gets no processor for a while must not take the second for impatience."""
    clock = FakeClock()
    event_queue = EventQueue(clock)
    with event_queue.receiving_signals():
        for later in (0.0, 0.4, 0.2):
            clock.step(later)
            signal.raise_signal(signal.SIGTERM)
    assert [event_queue.next_within(0) for _ in range(3)] == [signal.SIGTERM, signal.SIGTERM, None]


class TestSignals:
    """A real process and real signals."""

    pytestmark = one_redis

    @pytest.fixture
    def start(self, redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Callable[..., Any]]:
        """Give a function that starts the worker with items and a grace period."""
        processes: list[subprocess.Popen[str]] = []

        def start(*keys: str, grace: float) -> subprocess.Popen[str]:
            Queue("foos", connection).add(*keys)
            environment = os.environ | {
                "DISTQ_REDIS_URL": redis_server.url,
                "DISTQ_GRACE_PERIOD": str(grace),
            }
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.controller.sleepy_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            processes.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == f"started {keys[0]}\n"
            return process

        yield start
        for process in processes:
            process.kill()
            process.communicate()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_it_finishes_running_items_and_releases_the_rest(
        self, start: Callable[..., Any], connection: Connection, number: signal.Signals
    ) -> None:
        """Exit status 0; the item in progress is done, the others wait for the next worker."""
        process = start("stdin", "0.6", "0.7", grace=60)
        process.send_signal(number)
        assert f"{number.name}: no new work; 1 in progress\n" in process.stdout
        output, _ = process.communicate("\n", timeout=60)
        assert process.returncode == 0
        assert "finished stdin" in output
        assert "started 0.6" not in output
        assert left_over(connection, "foos") == {"ready": 2}

    def test_past_the_grace_period_it_leaves_and_the_item_is_free_at_once(
        self, start: Callable[..., Any], connection: Connection
    ) -> None:
        """A handler that does not end does not keep the process; no worker waits for its claim to lapse."""
        process = start("60", grace=0.2)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "finished" not in output
        assert left_over(connection, "foos") == {"ready": 1}

    def test_a_second_signal_ends_the_grace_period(
        self, start: Callable[..., Any], connection: Connection
    ) -> None:
        """A second request to stop does not wait."""
        process = start("60", grace=600)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline().startswith("SIGTERM: no new work")
        time.sleep(ONE_REQUEST + 0.1)  # a twin of the first would come sooner
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert time.monotonic() - began < 15
        assert left_over(connection, "foos") == {"ready": 1}

    def test_a_signal_that_does_not_wake_the_main_thread_ends_it_too(
        self, start: Callable[..., Any], connection: Connection
    ) -> None:
        """Another thread may receive it, or it comes just before the main one falls asleep."""
        process = start("SIGTERM", grace=10)
        assert process.wait(20) == 0
        output = process.stdout.read()  # communicate() does not have what was read with the first line
        assert "SIGTERM: no new work" in output
        assert left_over(connection, "foos") == {}

    def test_the_item_of_a_killed_worker_runs_elsewhere(
        self, start: Callable[..., Any], connection: Connection
    ) -> None:
        """A worker that dies in mid-reconcile loses nothing: its session lapses, and others take over."""
        start("60", grace=600).kill()
        assert left_over(connection, "foos") == {"processing": 1, "claims": 1}
        seen: list[str] = []
        controller = Controller("foos", lambda request: seen.append(request.key))
        with managing(Manager([controller], redis=connection)):
            eventually(lambda: not left_over(connection, "foos"))
        assert seen == ["60"]

    def test_ctrl_c_drains_and_then_is_an_interrupt(
        self, start: Callable[..., Any], connection: Connection
    ) -> None:
        """SIGINT ends as gracefully; the caller sees KeyboardInterrupt."""
        process = start("stdin", grace=60)
        process.send_signal(signal.SIGINT)
        assert "SIGINT: no new work; 1 in progress\n" in process.stdout
        output, _ = process.communicate("\n", timeout=60)
        assert "finished stdin" in output
        assert process.returncode == -signal.SIGINT
        assert left_over(connection, "foos") == {}


def test_a_cause_that_both_sides_meet_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A program whose queue was taken said so twice, the second time with a traceback."""
    taken, lost = QueueTaken("queue foos is taken"), LeaseLost("not in time")
    with pytest.raises(QueueTaken) as raised:
        _raise_first(taken, QueueTaken(str(taken)), lost)
    assert raised.value is taken
    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("the end had another cause, too: not in time", None)
    ]


def test_an_unforeseen_cause_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only typed errors say in one line what happened."""
    bug = KeyError("spec")
    with pytest.raises(LeaseLost):
        _raise_first(LeaseLost("lost"), bug)
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [bug]
