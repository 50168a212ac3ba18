"""All that a leader runs for one controller: streams, periods, and the end of streams no longer watched."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from distq.client.objects import Object
from distq.controller.stream import batch
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.sources import PeriodicSource, Source, StreamCleanup, sources
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import Every, For, Watch, Watches
from distq.errors import LeaseLost
from distq.redisio.commit import Commit
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore, stream_records
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from tests.controller.leading import QUEUE, Scene, Term
from tests.support.eventually import eventually
from tests.support.samples import config_map

pytestmark = pytest.mark.parametrize("redis_server", ["redis7"], indirect=True)

LOW = -100


def config(
    scene: Scene, *, epoch: str = "1", owner: str = "default/distq-foos", **rest: object
) -> SourceConfig:
    """Return what the streams of one controller share."""
    return SourceConfig(
        queue=QUEUE,
        connection=scene.connection,
        client=scene.leader().client,
        leadership=Term(epoch, f"leader-{epoch}"),
        owner=owner,
        **rest,  # type: ignore[arg-type]  # a test's own
    )


@contextmanager
def led(scene: Scene, watches: Sequence[Watch], **options: object) -> Iterator[list[Source]]:
    """Run all sources of these watches until they are synced and cleaned up, and stop them at the end."""
    queue = Queue(QUEUE, scene.connection)
    found = sources(watches, queue, config(scene, **options))  # type: ignore[arg-type]  # a test's own
    stop = threading.Event()
    threads = {source: threading.Thread(target=source.run, args=(stop,), daemon=True) for source in found}
    for thread in threads.values():
        thread.start()
    try:
        eventually(
            lambda: (
                all(source.synced for source in found if isinstance(source, StreamSource))
                and not any(
                    threads[source].is_alive() for source in found if isinstance(source, StreamCleanup)
                )
            )
        )
        yield found
    finally:
        stop.set()
        for thread in threads.values():
            thread.join(15)
            assert not thread.is_alive()


def own_name(obj: Object) -> list[str]:
    """Return the key that a Secret means."""
    return [f"secret-of-{obj['metadata']['name']}"]


def secret(namespace: str, name: str) -> Object:
    """Return a Secret to be written."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}


def test_each_watch_and_namespace_is_a_stream(scene: Scene) -> None:
    """Two namespaces are two streams, and two watches of one resource do not share theirs."""
    client = scene.leader().client
    other = f"{scene.namespace}-b"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    both = [scene.namespace, other]
    watches: list[Watch] = [
        For("v1/ConfigMap", namespaces=both),
        Watches("v1/ConfigMap", own_name, namespaces=both),
    ]
    for namespace in both:
        client.create(config_map(namespace, "a"))
    with led(scene, watches) as found:
        streams = [source for source in found if isinstance(source, StreamSource)]
        assert len({stream.name() for stream in streams}) == 4
        assert scene.pending() == {f"{scene.namespace}/a": LOW, f"{other}/a": LOW, "secret-of-a": LOW}
        assert set(stream_records(scene.connection, QUEUE)) == {stream.name() for stream in streams}


def test_streams_no_longer_watched_are_cleaned_up(scene: Scene) -> None:
    """Their objects' keys come once more, then nothing is left of them; other owners' stay."""
    client = scene.leader().client
    client.create(config_map(scene.namespace, "a"))
    client.create(secret(scene.namespace, "s"))
    here = [scene.namespace]
    maps, secrets = For("v1/ConfigMap", namespaces=here), Watches("v1/Secret", own_name, namespaces=here)
    with led(scene, [maps, secrets]):
        assert set(scene.take()) == {scene.key("a"), "secret-of-s"}
    with led(scene, [For("v1/Secret", namespaces=here)], epoch="2", owner="default/distq-others"):
        scene.take()
    assert len(stream_records(scene.connection, QUEUE)) == 3
    with led(scene, [maps], epoch="3"):
        assert scene.take() == {"secret-of-s": LOW}
        records = stream_records(scene.connection, QUEUE)
        assert {record.about["owner"] for record in records.values()} == {
            "default/distq-foos",
            "default/distq-others",
        }
        known = scene.connection.execute("KEYS", "*known*")
        assert len(known) == len(records) == 2
    with led(scene, [secrets], epoch="4"):
        assert scene.take() == {scene.key("a"): LOW, "secret-of-s": LOW}


def test_many_known_objects_are_cleaned_up_in_steps(scene: Scene) -> None:
    """More than a commit takes is no obstacle."""
    watch = Watches(
        "v1/ConfigMap",
        lambda obj: [f"{obj['metadata']['name']}-{number}" for number in range(400)],
        namespaces=[scene.namespace],
    )
    client = scene.leader().client
    for name in "abcdef":
        client.create(config_map(scene.namespace, name))
    with led(scene, [watch]):
        assert len(scene.take()) == 2400
    with led(scene, [For("v1/Secret", namespaces=[scene.namespace])], epoch="2"):
        assert len(scene.pending()) == 2400
        assert len(stream_records(scene.connection, QUEUE)) == 1


def test_a_stream_watched_again_in_mid_cleanup_knows_everything_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its known set is no longer whole, so that deletions would be missed: it is listed."""
    monkeypatch.setattr(batch, "BATCH_LIMIT", 2)
    here = [scene.namespace]
    watch = For("v1/ConfigMap", namespaces=here)
    client = scene.leader().client
    for name in "abc":
        client.create(config_map(scene.namespace, name))
    with led(scene, [watch]):
        scene.take()
    settings = config(scene, epoch="2")
    cleanup, term = StreamCleanup([], settings), settings.leadership
    assert isinstance(term, Term)
    commit = StreamStore.commit

    def last_commit(store: StreamStore, change: Commit) -> Any:
        term.lasts = not change.gone
        return commit(store, change)

    monkeypatch.setattr(StreamStore, "commit", last_commit)
    with pytest.raises(LeaseLost):
        cleanup.run(threading.Event())
    monkeypatch.undo()
    assert len(scene.known()) == 2
    with led(scene, [watch], epoch="3"):
        assert set(scene.known()) == {scene.key(name) for name in "abc"}


def test_cleaning_up_leaves_out_names_that_cannot_be_keys(scene: Scene) -> None:
    """A Role may have any name; the stream that knew of one goes nevertheless."""
    watch = For("rbac.authorization.k8s.io/v1/Role", namespaces=[scene.namespace])
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    for name in ("a\nb", "good"):
        scene.leader().client.create({**role, "metadata": {"namespace": scene.namespace, "name": name}})
    with led(scene, [watch]):
        scene.take()
        assert len(scene.known()) == 2
    StreamCleanup([], config(scene, epoch="2")).run(threading.Event())
    assert scene.has("good")
    assert scene.record() is None


def test_cleaning_up_misses_nothing_that_a_scan_misses(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis restarted in mid-scan shows less than it has; all of it is enqueued before the stream goes."""
    watch = For("v1/ConfigMap", namespaces=[scene.namespace])
    for name in "ab":
        scene.leader().client.create(config_map(scene.namespace, name))
    with led(scene, [watch]):
        scene.take()
    known, scans = StreamStore.known_pages, list[int]()

    def scan(store: StreamStore) -> Iterator[list[tuple[str, str]]]:
        scans.append(1)
        return iter(()) if len(scans) == 1 else known(store)

    monkeypatch.setattr(StreamStore, "known_pages", scan)
    StreamCleanup([], config(scene, epoch="2")).run(threading.Event())
    assert scene.has("a", "b")
    assert not scene.connection.execute("KEYS", "*known*")


def test_every_enqueues_each_period(scene: Scene) -> None:
    """At once, then each period, at low priority, more keys than one add takes included."""
    clock = FakeClock()
    rounds: list[int] = []

    def keys() -> Iterator[str]:
        rounds.append(1)
        return (f"key-{number}" for number in range(1500))

    queue = Queue(QUEUE, scene.connection)
    period = PeriodicSource(Every(60, keys), queue, config(scene, clock=clock))
    stop = threading.Event()
    thread = threading.Thread(target=period.run, args=(stop,), daemon=True)
    thread.start()
    eventually(lambda: clock.waiters() == 1)
    assert set(scene.take().values()) == {LOW}
    clock.step(59)
    assert len(rounds) == 1
    clock.step(1)
    eventually(lambda: len(rounds) == 2 and clock.waiters() == 1)
    assert len(scene.pending()) == 1500
    stop.set()
    thread.join(10)


def test_every_outlives_its_function(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A function that raises is called again, sooner than the period."""
    clock = FakeClock()
    calls: list[int] = []

    def keys() -> list[str]:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("a bug")
        return ["a"]

    period = PeriodicSource(Every(3600, keys), Queue(QUEUE, scene.connection), config(scene, clock=clock))
    stop = threading.Event()
    thread = threading.Thread(target=period.run, args=(stop,), daemon=True)
    thread.start()
    eventually(lambda: clock.waiters() == 1)
    assert [record.getMessage() for record in caplog.records] == [f"{QUEUE}: {period} failed"]
    clock.step(2)
    eventually(lambda: scene.pending() == {"a": LOW})
    stop.set()
    thread.join(10)


def test_every_leaves_dead_items_alone(scene: Scene) -> None:
    """They stay so until their object changes, or a person requeues them; a plain add revives them."""
    clock, queue, store = FakeClock(), Queue(QUEUE, scene.connection), QueueStore(scene.connection, QUEUE)
    for key in ("parked", "alive"):
        queue.add(key)
    assert store.park(["parked"], "by hand") == 1
    scene.take()
    period = PeriodicSource(Every(60, lambda: ["parked", "alive"]), queue, config(scene, clock=clock))
    stop = threading.Event()
    thread = threading.Thread(target=period.run, args=(stop,), daemon=True)
    thread.start()
    for _ in range(2):
        eventually(lambda: clock.waiters() == 1 and scene.take() == {"alive": LOW})
        clock.step(60)
    assert store.requeue(["parked"]) == 1
    eventually(lambda: scene.pending().keys() == {"parked", "alive"})
    stop.set()
    clock.step(60)
    thread.join(10)


def test_every_refuses_a_text_for_a_list(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Its letters would be enqueued, without an error."""
    clock = FakeClock()
    period = PeriodicSource(
        Every(60, lambda: "abc"), Queue(QUEUE, scene.connection), config(scene, clock=clock)
    )
    stop = threading.Event()
    thread = threading.Thread(target=period.run, args=(stop,), daemon=True)
    thread.start()
    eventually(lambda: clock.waiters() == 1)
    assert [record.getMessage() for record in caplog.records] == [f"{QUEUE}: {period} failed"]
    assert scene.pending() == {}
    stop.set()
    thread.join(10)


def test_every_is_for_the_leader_alone(scene: Scene) -> None:
    """Without the lease nothing is enqueued."""
    settings = config(scene)
    assert isinstance(settings.leadership, Term)
    settings.leadership.lasts = False
    period = PeriodicSource(Every(60, lambda: ["a"]), Queue(QUEUE, scene.connection), settings)
    with pytest.raises(LeaseLost):
        period.run(threading.Event())
    assert scene.pending() == {}


def test_each_source_has_a_name_of_its_own(scene: Scene) -> None:
    """The log says by it what was left behind at the end of a term."""
    watches: list[Watch] = [
        For("v1/ConfigMap", namespaces=["a", "b"]),
        Watches("v1/ConfigMap", lambda _: [], label_selector="app=web"),
        Every(60, list),
    ]
    assert list(map(str, sources(watches, Queue(QUEUE, scene.connection), config(scene)))) == [
        "For v1/ConfigMap in a",
        "For v1/ConfigMap in b",
        "Watches v1/ConfigMap app=web",
        "Every 60 s",
        "streams no longer watched",
    ]
