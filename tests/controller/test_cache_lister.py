"""A controller's lister reads what its watches cache, in every process of a fleet."""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import FrameType
from typing import Any

import pytest

from distq.client.objects import Object
from distq.config import Settings
from distq.controller.cached import stream_cache
from distq.controller.cached.caches import Caches
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import Every, For, Owns, Watches
from distq.errors import ApiError, CacheNotSynced, ConfigError
from distq.informer.lister import Lister
from distq.informer.wire import RawObject
from distq.metrics import CACHE_OVERSIZED
from distq.redisio import limits
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.stream_store import stream_records
from distq.workqueue.current import enter
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller import test_manager
from tests.controller.caching import (
    CONFIG_MAPS,
    EMULATED,
    ON_TWO_SERVERS,
    by_color,
    cached,
    caches,
    lister,
    names,
)
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_stream import create
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.recording import RecordingClient
from tests.support.samples import config_map


def nothing(request: Request) -> None:
    """Reconcile nothing."""


def no_keys(obj: Object) -> list[str]:
    """Return no keys."""
    return []


def managing(scene: Scene, controller: Controller, **sides: bool) -> AbstractContextManager[object]:
    """Run a controller until the block ends."""
    settings = Settings(lease_name="distq-test", lease_namespace=scene.namespace, grace_period=10.0)
    manager = Manager([controller], redis=scene.connection, client=scene.leader().client, settings=settings)
    return test_manager.managing(manager, **sides)


def controller_of(*watches: Any, queue: Any = QUEUE) -> Controller:
    """Return a controller of these watches."""
    return Controller(queue, nothing, watches=watches, cache_sync_timeout=5.0)


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"indexers": {"color": by_color}}, "nothing is kept to index. Add cached=True"),
        ({"transform": None}, "nothing is kept to index. Add cached=True"),
        ({"cached": True, "indexers": [by_color]}, "bad indexers of v1/ConfigMap: a list. Give functions"),
        ({"cached": True, "indexers": {"a b": by_color}}, "bad index 'a b' of v1/ConfigMap. Use 1 to 63"),
        ({"cached": True, "indexers": {"namespace": by_color}}, "it is always there. Leave it out"),
        ({"cached": True, "indexers": {"color": "data.color"}}, "bad index color of .* not callable"),
        ({"cached": True, "transform": list[str].append}, "bad transform of v1/ConfigMap: "),
    ],
)
def test_a_watch_that_cannot_be_cached_is_refused_when_it_is_declared(
    options: dict[str, Any], message: str
) -> None:
    """On each kind of watch, with the remedy."""
    for make in (
        partial(For, CONFIG_MAPS),
        partial(Owns, CONFIG_MAPS),
        partial(Watches, CONFIG_MAPS, no_keys),
    ):
        with pytest.raises(ConfigError, match=message):
            make(**options)


def test_a_resource_is_cached_by_one_watch() -> None:
    """Of two a lister could not know which is meant."""
    twice = [For("v1/Pod", cached=True), Watches("v1/Pod", no_keys, cached=True)]
    with pytest.raises(ConfigError, match=r"v1/Pod is cached by two watches of foos. Cache it in one"):
        controller_of(*twice)
    once = controller_of(For("v1/Pod"), Watches("v1/Pod", no_keys, cached=True), Every(60, list))
    assert isinstance(once.lister("v1/Pod"), Lister)


def test_a_queue_in_memory_caches_nothing() -> None:
    """Nor could it be watched for."""
    with pytest.raises(ConfigError, match=r"cannot cache v1/Pod: foos is not in Redis. Use a Queue"):
        controller_of(For("v1/Pod", cached=True), queue=MemoryQueue("foos"))


def test_only_a_cached_resource_has_a_lister(connection: Connection) -> None:
    """Other resources, indices and namespaces are a ConfigError, which says what there is."""
    queue = Queue(QUEUE, connection)
    pods = For("v1/Pod", cached=True, namespaces=["prod"], indexers={"color": by_color})
    controller = controller_of(pods, Owns("v1/Secret"), queue=queue)
    for resource in ("v1/Secret", "v1/Node", "Pod"):
        with pytest.raises(ConfigError, match=rf"no lister of {resource}: foos caches v1/Pod. Add cached"):
            controller.lister(resource)
    with pytest.raises(ConfigError, match=r"no lister of v1/Pod: foos watches nothing"):
        controller_of(queue=queue).lister("v1/Pod")
    reader = controller.lister("v1/Pod")
    with pytest.raises(ConfigError, match=r'no index "size" of v1/Pod \(has: color, namespace\)\. Add it'):
        reader.by_index("size", "2")
    for read in (lambda: reader.get("dev/a"), lambda: reader.list("dev")):
        with pytest.raises(ConfigError, match=r'no v1/Pod of namespace "dev" is cached: .* prod. Add it'):
            read()
    with pytest.raises(ConfigError, match=r"bad label selector"):
        reader.list(label_selector="app ~ web")


# What is read


@ON_TWO_SERVERS
def test_a_lister_reads_by_namespace_labels_and_index(scene: Scene) -> None:
    """As that of a SharedInformer does, over the namespaces of the watch; the caller owns its objects."""
    client = scene.leader().client
    other = f"{scene.namespace}-other"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    for namespace, name, app in (
        (scene.namespace, "a", "web"),
        (scene.namespace, "b", "db"),
        (other, "c", "web"),
        (other, "d", ""),
    ):
        labelled = config_map(namespace, name, color="red")
        labelled["metadata"]["labels"] = {"app": app} if app else {}
        client.create(labelled)
    watch = cached(scene, namespaces=[scene.namespace, other], label_selector="app")
    controller = controller_of(watch, queue=Queue(QUEUE, scene.connection))
    with managing(scene, controller, workers=False):
        reader = controller.lister(CONFIG_MAPS)
        assert names(reader.list()) == {"a", "b", "c"}
        assert names(reader.list(other)) == {"c"}
        assert names(reader.list(label_selector="app in (web)")) == {"a", "c"}
        assert names(reader.list(scene.namespace, label_selector={"app": "web"})) == {"a"}
        assert names(reader.by_index("color", "red")) == {"a", "b", "c"}
        assert names(reader.by_index("namespace", other)) == {"c"}
        assert reader.by_index("color", "blue") == []
        found = reader.get(f"{other}/c")
        assert found is not None
        found["data"]["color"] = "spoilt"
        assert names(reader.by_index("color", "red")) == {"a", "b", "c"}
        assert reader.get(f"{other}/d") is None


@ON_TWO_SERVERS
def test_an_object_that_is_too_large_is_read_from_the_api_server(scene: Scene) -> None:
    """And counted; an index finds it as any other, and it looks as if it came out of the cache."""
    client = scene.leader().client
    client.create(config_map(scene.namespace, "small", color="red"))
    client.create(config_map(scene.namespace, "large", color="red", text="x" * (limits.CACHED_LIMIT + 1)))
    metrics = RecordedMetrics()
    reading = caches(scene)
    reading.bind(client, metrics)
    reader = reading.lister(CONFIG_MAPS)
    with scene.leading(cached(scene)):
        found = reader.get(scene.key("large"))
        assert found is not None
        assert "managedFields" not in found["metadata"]
        assert metrics.counters == {(CACHE_OVERSIZED, (QUEUE, CONFIG_MAPS)): 1}
        assert names(reader.by_index("color", "red")) == {"small", "large"}
        assert names(reader.list()) == {"small", "large"}
        assert metrics.counters == {(CACHE_OVERSIZED, (QUEUE, CONFIG_MAPS)): 3}


# The first sync


@EMULATED
def test_a_read_that_waits_in_vain_names_the_cause(scene: Scene) -> None:
    """No leader yet, none any longer, watched or cached otherwise: each error says what to do."""
    create(scene, "a")
    reader = lister(scene, timeout=0.2)
    with pytest.raises(
        CacheNotSynced, match=r"v1/ConfigMap: not synced after 200 ms: no process has led yet. Start"
    ) as caught:
        reader.get(scene.key("a"))
    assert caught.value.__context__ is None  # its traceback shows no error of the inside
    with (
        scene.leading(For(CONFIG_MAPS)),
        pytest.raises(CacheNotSynced, match=r"leader-1 does not watch it so"),
    ):
        reader.get(scene.key("a"))
    with (
        scene.leading(For(CONFIG_MAPS, cached=True), epoch="2"),
        pytest.raises(
            CacheNotSynced, match=r"leader-2 keeps transform=.*, not color=.*by_color, .*Run one ver"
        ),
    ):
        reader.by_index("color", "red")
    with pytest.raises(CacheNotSynced, match=r"no process leads since leader-2 did. Start an informer"):
        reader.by_index("color", "red")
    with scene.leading(cached(scene), epoch="3"):
        assert names(reader.list()) == {"a"}


@EMULATED
def test_a_read_that_waits_names_the_cache(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, long before the time is over: a test that reads what no run has filled does not just hang."""
    monkeypatch.setattr(stream_cache, "LOGGED_AFTER", 0.1)
    with pytest.raises(CacheNotSynced, match=r"in a test, read it within run_until_idle, or after"):
        lister(scene, timeout=0.4).get(scene.key("a"))
    (record,) = [each for each in caplog.records if "waiting" in each.getMessage()]
    assert record.levelname == "WARNING"
    waits = "v1/ConfigMap: waiting up to 400 ms for its cache: no process has led"
    assert record.getMessage().startswith(waits)


@EMULATED
def test_any_text_in_the_record_is_tolerated(scene: Scene) -> None:
    """Another program may have written there, too: a value that is no list of indices counts as none."""
    with scene.leading(cached(scene)):
        (name,) = stream_records(scene.connection, QUEUE)
        watch = next(iter(caches(scene))).place.identity
    about = {"watch": watch, "namespace": scene.namespace, "synced": True, "cached": 5}
    record = f"1 5 batch {json.dumps(about)}"
    scene.connection.execute("HSET", queue_key(QUEUE, "streams"), name, record)
    with pytest.raises(CacheNotSynced, match="None keeps nothing, not color="):
        lister(scene, timeout=0.0).get(scene.key("a"))


@EMULATED
def test_a_read_that_waits_for_a_list_reports_the_list(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it takes long, or what the API server answers."""
    reader = lister(scene, timeout=0.2)
    leader = scene.leader(cached(scene))
    listing, go_on = threading.Event(), threading.Event()
    page = leader.stream.page

    def slow_page(objects: Sequence[RawObject]) -> None:
        listing.set()
        go_on.wait(30)
        page(objects)

    monkeypatch.setattr(leader.stream, "page", slow_page)
    leader.start()
    assert listing.wait(30)
    with pytest.raises(CacheNotSynced, match=r"leader-1 still lists it. Wait, or raise cache_sync_timeout"):
        reader.list()
    go_on.set()
    assert lister(scene).list() == []
    leader.stop()


@EMULATED
def test_a_read_that_waits_while_the_api_server_refuses_reports_the_refusal(scene: Scene) -> None:
    """The leader leaves it in its stream's record."""
    client = RefusedClient(scene.kubeconfig)
    leader = scene.leader(cached(scene), client=client)
    leader.start()
    eventually(lambda: (record := scene.record()) and record.about.get("failing_since"))
    with pytest.raises(CacheNotSynced, match=r"leader-1 cannot list it: configmaps is forbidden"):
        lister(scene, timeout=0.2).list()
    client.refuses = False
    assert lister(scene).list() == []
    eventually(lambda: (record := scene.record()) and "failing_since" not in record.about)
    leader.stop()


class RefusedClient(RecordingClient):
    """A Client that may not list ConfigMaps, for a while."""

    refuses = True

    def request(self, method: str, path: str, **rest: Any) -> bytes:
        """Refuse as the API server does."""
        if self.refuses and path.endswith("/configmaps"):
            raise ApiError("configmaps is forbidden", status=403, reason="Forbidden")
        return super().request(method, path, **rest)


@EMULATED
def test_a_reader_waits_for_the_first_list(scene: Scene) -> None:
    """It goes on as soon as that is there."""
    create(scene, "a")
    found: list[set[str]] = []
    thread = threading.Thread(target=lambda: found.append(names(lister(scene).list())))
    thread.start()
    with scene.leading(cached(scene)):
        thread.join(30)
    assert found == [{"a"}]


@EMULATED
def test_threads_that_wait_leave_each_other_their_caches(scene: Scene) -> None:
    """Whenever one of them looks anew, which cache it is, another that reads just then knows its own."""
    create(scene, "a")
    with scene.leading(cached(scene)):
        (cache,) = found = caches(scene)
        reader = found.lister(CONFIG_MAPS)

        def forget(frame: FrameType, event: str, value: object) -> Any:  # as another thread that waits
            if frame.f_code is StreamCache._cache.__code__:
                cache._found = None
            return forget

        before = sys.gettrace()
        sys.settrace(forget)
        try:
            assert names(reader.list()) == {"a"}
            assert names(reader.list()) == {"a"}
        finally:
            sys.settrace(before)


@EMULATED
def test_a_cancelled_reconcile_waits_no_longer(scene: Scene) -> None:
    """Its claim is no longer its own, or the process ends."""
    request = Request(scene.key("a"))
    errors: list[BaseException] = []

    def reconcile() -> None:
        enter((QUEUE, request))
        try:
            lister(scene).list()
        except CacheNotSynced as error:
            errors.append(error)

    thread = threading.Thread(target=reconcile)
    thread.start()
    request.cancelled.set()
    thread.join(20)
    assert [str(error) for error in errors] == [
        "v1/ConfigMap: not synced: no process has led yet. Start an informer."
    ]


# In predicates and mapping functions


@EMULATED
def test_a_mapping_function_sees_the_object_that_it_is_called_with(scene: Scene) -> None:
    """And those before it: in the first list, which is not over, and in events, also of one batch."""
    reader = lister(scene)
    seen: list[tuple[str, set[str], set[str], bool]] = []

    def look(obj: Object) -> list[str]:
        name, color = obj["metadata"]["name"], obj["data"]["color"]
        same = names(reader.by_index("color", color))
        seen.append((name, names(reader.list(scene.namespace)), same, reader.get(scene.key(name)) == obj))
        return [name]

    options: dict[str, Any] = {
        "namespaces": [scene.namespace],
        "cached": True,
        "indexers": {"color": by_color},
    }
    watch = Watches(CONFIG_MAPS, look, **options)
    reader = Caches([watch], Queue(QUEUE, scene.connection), timeout=30.0).lister(CONFIG_MAPS)
    client = scene.leader().client
    for name in "ab":
        client.create(config_map(scene.namespace, name, color="red"))
    with scene.leading(watch):
        assert seen == [("a", {"a"}, {"a"}, True), ("b", {"a", "b"}, {"a", "b"}, True)]
    seen.clear()
    client.patch(CONFIG_MAPS, scene.key("a"), {"data": {"color": "blue"}})
    client.create(config_map(scene.namespace, "c", color="blue"))
    client.delete(CONFIG_MAPS, scene.key("b"))
    with scene.leading(watch, epoch="2"):
        eventually(lambda: len(seen) == 4)
    assert seen == [
        ("a", {"a", "b"}, {"a"}, True),
        ("a", {"a", "b"}, {"b"}, False),  # as it was: the function is asked about that, too
        ("c", {"a", "b", "c"}, {"a", "c"}, True),
        ("b", {"a", "c"}, set(), False),
    ]


@EMULATED
def test_watches_that_wait_for_each_other_go_on(scene: Scene) -> None:
    """Each maps through the other's cache: one of them sees what is there, and none waits for ever."""
    owned: dict[str, str] = {}

    def through(resource: str) -> Callable[[Object], list[str]]:
        def look(obj: Object) -> list[str]:
            found = controller.lister(resource).list(scene.namespace)
            owned[obj["metadata"]["name"]] = resource
            return [each["metadata"]["name"] for each in found]

        return look

    options: dict[str, Any] = {"namespaces": [scene.namespace], "cached": True}
    controller = controller_of(
        Watches(CONFIG_MAPS, through("v1/Secret"), **options),
        Watches("v1/Secret", through(CONFIG_MAPS), **options),
        queue=Queue(QUEUE, scene.connection),
    )
    create(scene, "a")
    client = scene.leader().client
    client.create({**config_map(scene.namespace, "s"), "kind": "Secret", "data": {}})
    with managing(scene, controller, workers=False):
        eventually(lambda: {"a", "s"} <= owned.keys())
        assert names(controller.lister(CONFIG_MAPS).list()) >= {"a"}
        assert names(controller.lister("v1/Secret").list()) == {"s"}
        eventually(lambda: set(scene.pending()) & {"a", "s"})


@EMULATED
def test_a_mapping_function_waits_for_the_cache_of_another_watch(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it sees all of it, though the other list is slower; and the end of the term ends its waiting."""
    create(scene, "a", "b")
    reader = lister(scene)
    meant: list[set[str]] = []

    def look(obj: Object) -> list[str]:
        meant.append(names(reader.list()))
        return []

    leader = scene.leader(Watches("v1/Secret", look), epoch="1")
    client = scene.leader().client
    client.create({**config_map(scene.namespace, "s"), "kind": "Secret", "data": {}})
    leader.start()
    with scene.leading(cached(scene)):
        eventually(lambda: meant == [{"a", "b"}])
    leader.stop()
    scene.connection.execute("FLUSHALL")
    leader = scene.leader(Watches("v1/Secret", look), epoch="1")
    leader.start()
    eventually(scene.record)
    leader.stop()
    assert len(meant) == 1
