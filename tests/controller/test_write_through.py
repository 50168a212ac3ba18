"""What a process writes by a Client, its fleet's cached reads show as soon as the call returns."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest

from distq.client.client import Client
from distq.client.objects import Object
from distq.client.writes import Write, observed
from distq.controller.cached import write_through
from distq.controller.cached.caches import Caches
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.cached.write_through import WriteThrough, writing_through
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.errors import ApiError, RedisError
from distq.informer.lister import Lister
from distq.metrics import CACHE_UNWRITTEN
from distq.redisio.connection import Connection
from distq.testing import EmbeddedValkey, EmulatedApiServer
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.caching import (
    CONFIG_MAPS,
    EMULATED,
    ON_TWO_SERVERS,
    cached,
    caches,
    entries,
    lister,
    names,
)
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_manager import managing
from tests.support.counting_connection import CountingConnection
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.recording import RecordingClient
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy


@contextmanager
def writing(scene: Scene, watch: For | None = None) -> Iterator[tuple[RecordingClient, Lister]]:
    """Give a Client and a lister of a process whose leader has stopped: no event brings what it writes."""
    watch = watch or cached(scene)
    with scene.leading(watch):
        pass
    client = RecordingClient(scene.kubeconfig)
    with observed(WriteThrough([caches(scene, watch)], client)):
        yield client, lister(scene, watch)


@EMULATED
def test_the_connection_of_a_process_for_writes_goes_with_its_controllers(scene: Scene) -> None:
    """A Manager that has ended leaves no connection to Redis; another one in the process opens its own."""
    kept = caches(scene, cached(scene))
    with scene.leading(cached(scene)):
        pass
    client = RecordingClient(scene.kubeconfig)
    before = clients(scene)
    for name in "ab":
        with writing_through([kept], client, None):
            client.create(config_map(scene.namespace, name))
            assert name in names(lister(scene, cached(scene)).list())
            assert clients(scene) > before
        eventually(lambda: clients(scene) == before)


@EMULATED
def test_the_first_writes_of_two_threads_leave_no_connection(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may make one for writes; only the one that all go on with connects."""
    with_timeout, both = Connection.with_timeout, threading.Barrier(2, timeout=20)

    def at_once(connection: Connection, timeout: float, *, repeats: bool = False) -> Connection:
        made = with_timeout(connection, timeout, repeats=repeats)
        both.wait()
        return made

    with scene.leading(cached(scene)):
        pass
    kept, client = caches(scene, cached(scene)), RecordingClient(scene.kubeconfig)
    lister(scene).list()
    before = clients(scene)
    monkeypatch.setattr(Connection, "with_timeout", at_once)
    with writing_through([kept], client, None):
        writers = [
            threading.Thread(target=client.create, args=(config_map(scene.namespace, name),)) for name in "ab"
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert names(lister(scene).list()) == {"a", "b"}
    eventually(lambda: clients(scene) == before)


def clients(scene: Scene) -> int:
    """Return how many connections the server has."""
    return len(scene.connection.execute("CLIENT", "LIST").splitlines())


def ping(connection: Connection) -> None:
    """Ask Redis, in vain."""
    with suppress(RedisError):
        connection.execute("PING")


@ON_TWO_SERVERS
def test_a_cached_read_shows_each_kind_of_write_before_its_event(scene: Scene) -> None:
    """Create, update, patch, apply and delete, by key, by index and in lists; without managedFields."""
    key = scene.key("a")
    with writing(scene) as (client, reader):
        written = client.create(config_map(scene.namespace, "a", color="red"))
        assert names(reader.by_index("color", "red")) == {"a"}
        assert names(reader.list()) == {"a"}
        written["data"]["color"] = "blue"
        written = client.update(written)
        assert names(reader.by_index("color", "blue")) == {"a"}
        assert reader.by_index("color", "red") == []
        client.patch(CONFIG_MAPS, key, {"data": {"color": "green"}})
        assert names(reader.by_index("color", "green")) == {"a"}
        applied = client.apply(config_map(scene.namespace, "a", color="white"))
        applied["metadata"].pop("managedFields", None)
        assert reader.get(key) == applied
        assert client.delete(CONFIG_MAPS, key)
        assert client.asked == ["look"]
        assert reader.get(key) is None
        assert reader.list() == []
        assert reader.by_index("color", "white") == []
        client.create(config_map(scene.namespace, "a", color="red"))
        assert names(reader.by_index("color", "red")) == {"a"}
    with scene.leading(cached(scene), epoch="2") as leader:
        eventually(lambda: scene.has("a"))
        assert leader.stream.lists == 1 or leader.client.lists() == 0
        assert names(reader.list()) == {"a"}
        client.delete(CONFIG_MAPS, key)
        eventually(lambda: entries(scene) == {})


@ON_TWO_SERVERS
def test_a_deletion_that_waits_for_a_finalizer_is_shown_as_such(scene: Scene) -> None:
    """The answer shows it, without a request; once the last finalizer is removed one look shows it gone."""
    key = scene.key("a")
    with writing(scene) as (client, reader):
        held = config_map(scene.namespace, "a")
        held["metadata"]["finalizers"] = ["example.com/bucket"]
        client.create(held)
        client.delete(CONFIG_MAPS, key)
        found = reader.get(key)
        assert found is not None
        assert found["metadata"]["deletionTimestamp"]
        assert client.asked == []
        found["metadata"]["finalizers"] = []
        client.update(found)
        assert client.get(CONFIG_MAPS, key) is None
        assert reader.get(key) is None
        assert client.asked == ["look"]


@ON_TWO_SERVERS
def test_a_write_of_the_status_alone_is_shown(scene: Scene) -> None:
    """With the whole object around it."""
    watch = For("apps/v1/Deployment", namespaces=[scene.namespace], cached=True)
    client = RecordingClient(scene.kubeconfig)
    reading = caches(scene, watch)
    with scene.leading(watch), observed(WriteThrough([reading], client)):
        labels = {"app": "a"}
        pod = {"containers": [{"name": "a", "image": "a"}]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        client.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "a", "namespace": scene.namespace},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            }
        )
        client.patch(watch.resource, scene.key("a"), {"status": {"observedGeneration": 1}}, status=True)
        found = reading.lister(watch.resource).get(scene.key("a"))
        assert found is not None
        assert found["status"]["observedGeneration"] == 1
        assert found["spec"]["template"]["metadata"]["labels"] == labels


@ON_TWO_SERVERS
def test_selectors_say_whether_a_write_is_shown(scene: Scene) -> None:
    """An object that no longer matches is gone; a field selector costs a list of one, labels nothing."""
    by_label = cached(scene, label_selector="app in (web)")
    with writing(scene, by_label) as (client, reader):
        labelled = config_map(scene.namespace, "a", color="red")
        labelled["metadata"]["labels"] = {"app": "web"}
        client.create(labelled)
        client.create(config_map(scene.namespace, "b", color="red"))
        assert names(reader.list()) == {"a"}
        client.patch(CONFIG_MAPS, scene.key("a"), {"metadata": {"labels": {"app": "db"}}})
        assert reader.list() == []
        client.patch(CONFIG_MAPS, scene.key("b"), {"metadata": {"labels": {"app": "web"}}})
        assert names(reader.by_index("color", "red")) == {"b"}
        assert client.asked == []
    scene.connection.execute("FLUSHALL")
    by_field = cached(scene, field_selector="metadata.name=a")
    with writing(scene, by_field) as (client, reader):
        client.patch(CONFIG_MAPS, scene.key("a"), {"data": {"color": "green"}})
        client.patch(CONFIG_MAPS, scene.key("b"), {"data": {"color": "green"}})
        assert names(reader.by_index("color", "green")) == {"a"}
        assert client.asked == ["look", "look"]


@ON_TWO_SERVERS
def test_metadata_alone_is_kept_of_a_write_where_the_watch_has_only_metadata(scene: Scene) -> None:
    """As for the objects of the watch."""
    with writing(scene, cached(scene, metadata_only=True, indexers={})) as (client, reader):
        client.create(config_map(scene.namespace, "a", color="red"))
        found = reader.get(scene.key("a"))
        assert found is not None
        assert found.keys() == {"apiVersion", "kind", "metadata"}


@ON_TWO_SERVERS
def test_other_writes_cost_nothing(scene: Scene) -> None:
    """Of other resources and namespaces, and where no leader caches: not a request more."""
    with writing(scene) as (client, _):
        other = f"{scene.namespace}-other"
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
        client.create(config_map(other, "a"))
        client.delete(CONFIG_MAPS, f"{other}/a")
        client.delete("v1/Namespace", other)
        assert client.asked == []
        assert entries(scene) == {}
    client.create(config_map(scene.namespace, "a"))
    assert entries(scene) == {}


@pytest.mark.parametrize(("api_server", "redis_server"), [("real", "valkey9")], indirect=True)
def test_another_version_of_the_resource_is_written_through(scene: Scene) -> None:
    """A list of the one object brings it in the version of the watch."""
    watch = For("autoscaling/v2/HorizontalPodAutoscaler", namespaces=[scene.namespace], cached=True)
    client = RecordingClient(scene.kubeconfig)
    reading = caches(scene, watch)
    with scene.leading(watch):
        pass
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    with observed(WriteThrough([reading], client)):
        client.create(
            {
                "apiVersion": "autoscaling/v1",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "a", "namespace": scene.namespace},
                "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
            }
        )
        found = reading.lister(watch.resource).get(scene.key("a"))
        assert found is not None
        assert (found["apiVersion"], "metrics" in found["spec"]) == ("autoscaling/v2", True)


@EMULATED
def test_a_write_is_valid_where_redis_does_not_answer(
    scene: Scene, redis_server: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """The call returns what the API server answered; it is counted, and logged once."""
    with scene.leading(cached(scene)):
        pass
    metrics = RecordedMetrics()
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        connection = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        reading = Caches([cached(scene)], Queue(QUEUE, connection), timeout=5.0)
        reading.bind(RecordingClient(scene.kubeconfig), metrics)
        client = RecordingClient(scene.kubeconfig)
        with observed(WriteThrough([reading], client)):
            client.create(config_map(scene.namespace, "a"))
            proxy.mode = "refuse"
            for name in "bc":
                assert client.create(config_map(scene.namespace, name))["metadata"]["name"] == name
            assert metrics.counters == {(CACHE_UNWRITTEN, (QUEUE, CONFIG_MAPS)): 2}
            (line,) = [line for line in caplog.messages if "cached reads" in line]
            assert line.startswith(f"cached reads of {CONFIG_MAPS}: ")
            proxy.mode = "pass"
            eventually(lambda: connection.execute("PING"))
            client.create(config_map(scene.namespace, "d"))
        connection.close()
    assert names(lister(scene).list()) == {"a", "d"}


@EMULATED
def test_one_kind_of_write_that_fails_is_logged_once_beside_others_that_succeed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a worker may not list: its deletions are not shown at once, while its other writes are."""

    def refuse(cache: StreamCache, write: Write) -> None:
        raise ApiError(f"list {write.key}: forbidden.", status=403, reason="Forbidden")

    monkeypatch.setattr(write_through, "_look", refuse)
    caplog.set_level("INFO", "distq")
    with writing(scene) as (client, _):
        for _ in range(3):
            client.create(config_map(scene.namespace, "a"))
            client.delete(CONFIG_MAPS, scene.key("a"))
    assert [line for line in caplog.messages if "cached reads" in line] == [
        f"cached reads of {CONFIG_MAPS}: list {scene.key('a')}: forbidden. Trying again."
    ]


@EMULATED
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_while_another_thread_reports_a_write_waits_for_no_lock(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock that the thread holds at the fork is not released in the child."""
    reports, goes_on, parent = threading.Event(), threading.Event(), os.getpid()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "cached reads" in record.getMessage() and os.getpid() == parent:
                reports.set()
                goes_on.wait()

    handler = Slow()
    monkeypatch.setattr(logging.getLogger("distq"), "handlers", [handler])
    with writing(scene) as (client, reader):
        client.create(config_map(scene.namespace, "a"))
        with monkeypatch.context() as patch:
            patch.setattr(write_through, "_look", lambda *_: 1 / 0)
            thread = threading.Thread(target=client.delete, args=(CONFIG_MAPS, scene.key("a")))
            thread.start()
            reports.wait()
        if not (child := os.fork()):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            with suppress(BaseException):
                client.create(config_map(scene.namespace, "b"))
                os._exit(0)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        goes_on.set()
        thread.join()
        assert status == 0
        assert "b" in names(reader.list())


@EMULATED
def test_a_write_waits_less_for_redis_than_other_calls(scene: Scene, redis_server: EmbeddedValkey) -> None:
    """While Redis hangs it has returned, known cache or not, when a call that began with it still waits."""
    with scene.leading(cached(scene)):
        pass
    for is_known in (False, True):
        with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
            connection = Connection(f"redis://127.0.0.1:{proxy.port}/0")
            connection.execute("PING")
            reading = Caches([cached(scene)], Queue(QUEUE, connection), timeout=5.0)
            client = RecordingClient(scene.kubeconfig)
            with observed(WriteThrough([reading], client)):
                if is_known:
                    client.create(config_map(scene.namespace, "known"))
                proxy.mode = "hang"
                other = threading.Thread(target=ping, args=(connection,))
                other.start()
                client.create(config_map(scene.namespace, f"a-{is_known}".lower()))
                assert other.is_alive()
                proxy.mode = "pass"
            other.join()
            connection.close()


@EMULATED
def test_a_read_waits_for_redis_as_other_calls_do(scene: Scene, redis_server: EmbeddedValkey) -> None:
    """It has no other source: only writes give up early."""
    with scene.leading(cached(scene)):
        pass
    counting = CountingConnection(redis_server.url)
    reading = Caches([cached(scene)], Queue(QUEUE, counting), timeout=5.0)
    client = RecordingClient(scene.kubeconfig)
    reading.bind(client, None)
    with observed(WriteThrough([reading], client)):
        client.create(config_map(scene.namespace, "a"))
        written = counting.round_trips
        assert names(reading.lister(CONFIG_MAPS).list()) == {"a"}
        assert counting.round_trips > written
        client.create(config_map(scene.namespace, "b"))
        written = counting.round_trips
        assert names(reading.lister(CONFIG_MAPS).list()) == {"a", "b"}
        assert counting.round_trips == written + 1  # what the write found is not looked for again


@EMULATED
def test_a_worker_of_the_release_before_leaves_nothing_behind(scene: Scene) -> None:
    """If the leader no longer caches, or its stream is gone, no leader would delete what it writes."""
    with writing(scene) as (client, reader):
        client.create(config_map(scene.namespace, "a"))
        assert names(reader.list()) == {"a"}
        with scene.leading(For(CONFIG_MAPS), epoch="2"):
            client.create(config_map(scene.namespace, "b"))
            assert entries(scene) == {}
        scene.connection.execute("FLUSHALL")
        client.create(config_map(scene.namespace, "c"))
        assert scene.connection.execute("KEYS", "*cache*") == []


@EMULATED
def test_an_index_function_that_fails_fails_no_write(scene: Scene) -> None:
    """What it wrote is shown; the watch will say what is wrong."""
    watch = cached(scene, indexers={"color": lambda obj: [obj["data"]["color"]]})
    with scene.leading(watch):
        pass
    metrics = RecordedMetrics()
    client = RecordingClient(scene.kubeconfig)
    reading = caches(scene, watch)
    reading.bind(client, metrics)
    with observed(WriteThrough([reading], client)):
        client.create(config_map(scene.namespace, "a"))
    assert metrics.counters == {}
    assert names(reading.lister(CONFIG_MAPS).list()) == {"a"}


@EMULATED
def test_an_answer_with_an_odd_name_fails_no_write(scene: Scene) -> None:
    """Whatever the answer has for a name: the write is done, of a cached resource or of another one."""
    client = RecordingClient(scene.kubeconfig)
    write_through = WriteThrough([caches(scene, cached(scene))], client)
    for resource in (CONFIG_MAPS, "v1/Namespace"):
        write_through(Write(client, client.resolve(resource), cast("Any", 5), {}, b"{}"))


@EMULATED
def test_a_write_to_another_cluster_is_none_of_ours(scene: Scene) -> None:
    """A Client of the same process may reach several; the same one may be reached by two addresses."""
    with EmulatedApiServer() as elsewhere, writing(scene) as (_, reader):
        foreign = Client(elsewhere.kubeconfig(scene.kubeconfig.with_name("elsewhere")))
        foreign.create(config_map("default", "a"))
        foreign.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.namespace}})
        foreign.create(config_map(scene.namespace, "a"))
        assert reader.list() == []
        port = int(str(scene.api_server.url if scene.api_server else "").rpartition(":")[2])
        with TcpProxy(("127.0.0.1", port)) as proxy:
            kubeconfig = scene.kubeconfig.with_name("by-proxy")
            kubeconfig.write_text(scene.kubeconfig.read_text().replace(f":{port}", f":{proxy.port}"))
            Client(kubeconfig).create(config_map(scene.namespace, "b"))
            assert names(reader.list()) == {"b"}


@EMULATED
def test_a_manager_writes_through_while_it_runs(scene: Scene) -> None:
    """By any Client of the process, made anywhere; and no longer."""
    seen: list[Object | None] = []
    client = Client(scene.kubeconfig)

    def reconcile(request: Request) -> None:
        client.patch(CONFIG_MAPS, request.key, {"data": {"color": "green"}})
        seen.append(controller.lister(CONFIG_MAPS).get(request.key))

    queue = Queue(QUEUE, scene.connection)
    controller = Controller(queue, reconcile, watches=[cached(scene)])
    with scene.leading(cached(scene)):
        client.create(config_map(scene.namespace, "a"))
        eventually(lambda: scene.has("a"))
    manager = Manager([controller], redis=scene.connection, client=RecordingClient(scene.kubeconfig))
    with managing(manager, informer=False):
        eventually(lambda: seen)
    assert seen[0] is not None
    assert seen[0]["data"] == {"color": "green"}
    client.patch(CONFIG_MAPS, scene.key("a"), {"data": {"color": "blue"}})
    assert names(lister(scene).by_index("color", "green")) == {"a"}
