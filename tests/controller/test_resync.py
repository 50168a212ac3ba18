"""A resync hands over every object again while the watch goes on, and fixes gaps of the known set."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from distq.controller.event import Event
from distq.controller.predicate import labels_changed
from distq.controller.stream import relist
from distq.controller.watches import For, Watches
from distq.errors import ApiError, Expired, TooManyRequests
from distq.informer import pager
from distq.informer.listwatch import ListWatch
from distq.informer.wire import Page
from distq.redisio.checkpoints import is_listing
from distq.redisio.commit import Commit
from distq.redisio.stream_store import StreamStore, stream_records
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from tests.controller.leading import QUEUE, Leader, Scene
from tests.controller.test_stream import CONFIG_MAPS, LOW, change, create, delete
from tests.support.eventually import eventually

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

PERIOD = 100.0


@pytest.fixture(autouse=True)
def pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make resyncs of few objects take several steps."""
    monkeypatch.setattr(pager, "PAGE_SIZE", 2)


@contextmanager
def leading(scene: Scene, clock: FakeClock, *args: Any, **options: Any) -> Iterator[Leader]:
    """Run a leader for whom a resync becomes due when the clock is stepped."""
    with scene.leading(*args, clock=clock, resync_period=PERIOD, **options) as leader:
        yield leader


def due(clock: FakeClock) -> None:
    """Let a resync become due, and begin."""
    clock.step(1.11 * PERIOD)


def finish(leader: Leader, clock: FakeClock, *, lists: int) -> None:
    """Let time pass until the resync is whole."""

    def whole() -> bool:
        clock.step(0.25)
        return leader.stream.lists == lists

    eventually(whole)


def test_events_go_first_while_a_resync_is_under_way(scene: Scene) -> None:
    """The watch stays open: what happens between two pages is handed over between them, at its priority."""
    create(scene, *"abcde")
    clock = FakeClock()
    with leading(scene, clock) as leader:
        scene.take()
        due(clock)
        eventually(lambda: scene.pending() == {scene.key("a"): LOW, scene.key("b"): LOW})
        create(scene, "new")
        delete(scene, "e")
        change(scene, "c")
        happened = {scene.key(name): 0 for name in ("new", "e", "c")}
        eventually(lambda: happened.items() <= scene.pending().items())
        assert len(scene.pending()) == 5, "the resync went on by itself"
        finish(leader, clock, lists=2)
        assert scene.take() == {**{scene.key(name): LOW for name in "abd"}, **happened}
        assert set(scene.known()) == {scene.key(name) for name in ("a", "b", "c", "d", "new")}
        assert leader.client.watches() == 1


def test_a_resync_fixes_the_gaps_of_the_known_set(scene: Scene) -> None:
    """Should an API server ever lose an event, it is made up for: an addition, a change, a deletion."""
    create(scene, "same", "missed", "older")
    clock = FakeClock()
    with leading(scene, clock):
        right = scene.known()
    scene.take()
    (name,) = stream_records(scene.connection, QUEUE)
    scene.connection.execute("HDEL", f"distq:{{{QUEUE}}}:known:{name}", scene.key("missed"))
    wrong = [scene.key("older"), "1", scene.key("ghost"), "1"]
    scene.connection.execute("HSET", f"distq:{{{QUEUE}}}:known:{name}", *wrong)
    queue = Queue(QUEUE, scene.connection)
    queue.add_after(scene.key("same"), 1000)
    with leading(scene, clock, epoch="2") as leader:
        assert leader.stream.lists == 0
        due(clock)
        finish(leader, clock, lists=1)
        assert scene.take() == {scene.key(each): LOW for each in ("missed", "older", "ghost")}
        assert scene.known() == right
    queue.close()


def test_a_resync_that_a_leader_left_begins_anew(scene: Scene) -> None:
    """Only a whole one counts, of any leader; and then it counts for all."""
    create(scene, *"abcde")
    clock = FakeClock()
    with leading(scene, clock):
        scene.take()
        due(clock)
        eventually(scene.pending)
    scene.take()
    with leading(scene, clock, epoch="2") as leader:
        finish(leader, clock, lists=1)
        assert scene.take() == {scene.key(name): LOW for name in "abcde"}
    with leading(scene, clock, epoch="3") as leader:
        clock.step(0.8 * PERIOD)
        assert scene.pending() == {}
        assert leader.stream.lists == 0


def test_a_resync_asks_predicates_and_mapping_functions_anew(scene: Scene) -> None:
    """Their new answers count, and the keys that the old answers gave are enqueued, too."""
    word = "old"

    def keys(obj: dict[str, Any]) -> list[str]:
        return [f"{word}-{obj['metadata']['name']}"]

    def wanted(event: Event) -> bool:
        return event.name != "never" and (word == "new" or event.name == "a")

    create(scene, "a", "b", "never")
    clock = FakeClock()
    with leading(scene, clock, Watches(CONFIG_MAPS, keys, predicates=[wanted])) as leader:
        assert scene.take() == {"old-a": LOW}
        word = "new"
        due(clock)
        finish(leader, clock, lists=2)
        assert scene.take() == {"old-a": LOW, "new-a": LOW, "new-b": LOW}
        delete(scene, "b")
        eventually(lambda: scene.take() == {"new-b": 0})


def test_a_resync_that_fails_disturbs_no_watch(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes again later; events do not wait for it."""
    create(scene, "a")
    clock = FakeClock()
    page, broken = ListWatch.page, True

    def failing(list_watch: ListWatch, next_token: str = "", *, limit: int = 500) -> Page:
        if broken:
            raise ApiError("no", status=500)
        return page(list_watch, next_token, limit=limit)

    with leading(scene, clock) as leader:
        scene.take()
        monkeypatch.setattr(ListWatch, "page", failing)
        due(clock)
        create(scene, "b")
        eventually(lambda: scene.take() == {scene.key("b"): 0})
        broken = False
        clock.step(relist.RETRY)
        finish(leader, clock, lists=2)
        assert scene.pending() == {scene.key("a"): LOW, scene.key("b"): LOW}
        assert leader.client.watches() == 1


def test_a_resync_whose_token_expires_begins_anew_in_greater_pages(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a big cluster's would never end."""
    create(scene, *"abcdef")
    clock = FakeClock()
    page, limits = ListWatch.page, list[int]()

    def expiring(list_watch: ListWatch, next_token: str = "", *, limit: int = 500) -> Page:
        limits.append(limit)
        if len(limits) == 2:
            raise Expired("too old", status=410)
        return page(list_watch, next_token, limit=limit)

    with leading(scene, clock) as leader:
        scene.take()
        monkeypatch.setattr(ListWatch, "page", expiring)
        due(clock)
        finish(leader, clock, lists=2)
        assert limits == [2, 2, 8]
        assert scene.pending() == {scene.key(name): LOW for name in "abcdef"}


def test_a_resync_leaves_the_stream_at_its_position(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that takes over in its midst resumes the watch, and people see a version all the time."""
    create(scene, *"abcde")
    clock, commit, positions = FakeClock(), StreamStore.commit, list[str]()

    def noted(store: StreamStore, change: Commit) -> Any:
        positions.append(change.new)
        return commit(store, change)

    with leading(scene, clock) as leader:
        scene.take()
        delete(scene, "e")
        eventually(lambda: scene.key("e") not in scene.known())
        monkeypatch.setattr(StreamStore, "commit", noted)
        due(clock)
        finish(leader, clock, lists=2)
        assert len(scene.pending()) == 5
    assert not any(map(is_listing, positions))


def test_a_resync_goes_on_where_the_api_server_was_busy(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 429 between two pages costs the time that it asks for, and no page twice."""
    create(scene, *"abcdef")
    clock = FakeClock()
    page, tokens = ListWatch.page, list[str]()

    def busy(list_watch: ListWatch, next_token: str = "", *, limit: int = 500) -> Page:
        tokens.append(next_token)
        if len(tokens) == 2:
            raise TooManyRequests("busy", retry_after=30.0)
        return page(list_watch, next_token, limit=limit)

    def refused() -> bool:
        if len(tokens) < 2:  # its pause may begin only after a step
            clock.step(relist.PAUSE)
        return len(tokens) == 2

    with leading(scene, clock) as leader:
        scene.take()
        monkeypatch.setattr(ListWatch, "page", busy)
        due(clock)
        eventually(lambda: len(tokens) == 1 and scene.pending())
        eventually(refused)
        clock.step(29)
        create(scene, "new")
        eventually(lambda: scene.key("new") in scene.known())
        assert len(tokens) == 2
        clock.step(1)
        finish(leader, clock, lists=2)
        assert tokens[1] == tokens[2]
        assert len(tokens) == 4
        assert {scene.key(name) for name in "abcdef"} <= scene.pending().keys()


def test_a_resync_amid_random_changes_leaves_the_true_state(scene: Scene) -> None:
    """Any changes may happen between its steps: at the end all is known as it is, and all was enqueued."""
    clock = FakeClock()
    dice = random.Random(7)
    client = scene.leader().client
    names = [f"map-{number:02}" for number in range(12)]
    create(scene, *names)
    alive = set(names)
    with leading(scene, clock) as leader:
        for round_ in range(6):
            scene.take()
            before = set(alive)
            due(clock)
            for _ in range(25):
                name = dice.choice(names)
                if name not in alive:
                    create(scene, name)
                    alive.add(name)
                elif dice.random() < 0.5:
                    delete(scene, name)
                    alive.discard(name)
                else:
                    change(scene, name)
                if dice.random() < 0.5:
                    clock.step(0.25)
                    threading.Event().wait(0.005)
            finish(leader, clock, lists=round_ + 2)
            actual = {
                scene.key(obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
                for obj in client.list(CONFIG_MAPS, namespace=scene.namespace)
                if obj["metadata"]["name"] in names
            }
            eventually(lambda: {**scene.known(), **actual} == scene.known())  # noqa: B023 - used here
            gone = {scene.key(name) for name in names} - actual.keys()
            eventually(lambda: not gone & scene.known().keys())  # noqa: B023 - used here
            assert {scene.key(name) for name in before} <= scene.pending().keys()
        assert leader.client.watches() == 1


def test_a_scan_that_misses_vanished_objects_is_repeated(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor of Redis means nothing after its restart; the known set is counted, and looked at again."""
    create(scene, *"abc")
    with scene.leading(For(CONFIG_MAPS)):
        scene.take()
    delete(scene, "b")
    record = scene.record()
    assert record is not None
    store = StreamStore(scene.connection, QUEUE, scene.leader().stream.name())
    store.commit(Commit(epoch="1", after=record.batch, new="1~as:if", batch="as-if", about=record.about))
    known, scans = StreamStore.known_pages, list[int]()

    def missing(store: StreamStore) -> Iterator[list[tuple[str, str]]]:
        scans.append(1)
        return iter(()) if len(scans) == 1 else known(store)

    monkeypatch.setattr(StreamStore, "known_pages", missing)
    monkeypatch.setattr(ListWatch, "watch", _too_old_once(ListWatch.watch))
    with scene.leading(For(CONFIG_MAPS), epoch="2") as leader:
        eventually(lambda: leader.stream.lists == 1 and leader.stream.synced)
        assert scene.pending() == {scene.key("b"): LOW}
        assert len(scans) == 2


def _too_old_once(watch: Any) -> Any:
    asked: list[str] = []

    def watching(list_watch: ListWatch, version: str, **options: Any) -> Any:
        asked.append(version)
        if len(asked) == 1:
            raise Expired("too old", status=410)
        return watch(list_watch, version, **options)

    return watching


class _Held:
    """A watch that reports nothing until it may."""

    def __init__(self, lines: Any, go_on: threading.Event) -> None:
        self._lines = lines
        self._go_on = go_on

    def __enter__(self) -> Any:
        self._lines.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._lines.__exit__(*error)

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self._go_on.wait(30)
            yield line

    def close(self) -> None:
        self._go_on.set()
        self._lines.close()


def test_a_resync_ahead_of_the_watch_swallows_no_event(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A predicate compares the event with the state before it, not with the one that a resync already saw."""
    go_on, clock, watch = threading.Event(), FakeClock(), ListWatch.watch
    monkeypatch.setattr(ListWatch, "watch", lambda *args, **options: _Held(watch(*args, **options), go_on))
    create(scene, "a")
    with leading(scene, clock, For(CONFIG_MAPS, predicates=[labels_changed])) as leader:
        scene.take()
        leader.client.patch(CONFIG_MAPS, scene.key("a"), {"metadata": {"labels": {"app": "web"}}})
        due(clock)
        finish(leader, clock, lists=2)
        assert scene.take() == {scene.key("a"): LOW}
        go_on.set()
        eventually(lambda: scene.take() == {scene.key("a"): 0})
