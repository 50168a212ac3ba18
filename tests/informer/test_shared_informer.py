"""A cache that follows a resource, and its handlers (client-go tools/cache SharedIndexInformer)."""

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from distq.errors import ApiError, ConfigError, NotFound, ShutDown
from distq.informer import (
    Registration,
    ResourceEventHandlerFuncs,
    SharedInformer,
    registration,
    strip_managed_fields,
)
from distq.informer.reflector import TICK
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import Notes, pod, stored, until

Start = Callable[..., SharedInformer]


@pytest.fixture
def source() -> FakeListWatch:
    """Give a resource without an API server."""
    return FakeListWatch()


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test steps."""
    return FakeClock()


@pytest.fixture
def stop() -> threading.Event:
    """Give the event that ends the informers of the test."""
    return threading.Event()


@pytest.fixture
def make(source: FakeListWatch, clock: FakeClock) -> Start:
    """Give a maker of informers that follow the source."""
    return lambda **options: SharedInformer(source, clock=clock, **options)


@pytest.fixture
def run(stop: threading.Event) -> Iterator[Callable[..., threading.Thread]]:
    """Give a function that runs an informer until the test's end."""
    threads = []

    def begin(informer: SharedInformer, *, synced: bool = False) -> threading.Thread:
        thread = threading.Thread(target=informer.run, args=(stop,), daemon=True)
        thread.start()
        threads.append(thread)
        if synced:
            until(informer.has_synced)
        return thread

    yield begin
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


Run = Callable[..., threading.Thread]


def _names(objects: list[dict[str, Any]]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in objects)


@pytest.mark.conformance("SI-01", "SI-03", "RF-08", "RF-23")
def test_what_is_listed_and_watched_is_cached_and_told(source: FakeListWatch, make: Start, run: Run) -> None:
    """First the list, then each change, in order."""
    source.add(pod("a"))
    informer, notes = make(), Notes()
    handler = informer.add_event_handler(notes)
    assert not informer.has_synced()
    assert not handler.has_synced()
    run(informer)
    until(handler.has_synced)
    assert informer.has_synced()
    source.add(pod("b"))
    source.modify(pod("b", app="web"))
    source.delete(pod("a"))
    notes.hears("add a@1 first", "add b@2", "update b@2-3", "delete a@4")
    assert _names(informer.lister.list()) == ["b"]
    assert informer.last_sync_resource_version == "4"


@pytest.mark.conformance("SI-02", "SI-03")
def test_a_late_handler_hears_of_everything_first(source: FakeListWatch, make: Start, run: Run) -> None:
    """As if it had been there when the first list came; and only then it has synced."""
    informer, early = make(), Notes()
    source.add(pod("a"))
    source.add(pod("b"))
    informer.add_event_handler(early)
    run(informer)
    until(lambda: len(early.heard) == 2)
    late = Notes()
    late.go_on.clear()
    handler = informer.add_event_handler(late)
    source.add(pod("c"))
    early.hears("add a@1 first", "add b@2 first", "add c@3")
    assert not handler.has_synced()
    assert handler.pending >= 2
    late.go_on.set()
    late.hears("add a@1 first", "add b@2 first", "add c@3")
    until(handler.has_synced)


@pytest.mark.conformance("SI-02", "SI-15")
def test_a_handler_that_comes_while_another_holds_the_informer_up_hears_of_each_object_once(
    source: FakeListWatch, make: Start, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the cache by then is not told again as news."""
    monkeypatch.setattr(registration, "CAPACITY", 1)
    informer, slow, late = make(), Notes(), Notes()
    informer.add_event_handler(slow)
    run(informer, synced=True)
    slow.go_on.clear()
    for name in ("a", "b", "c"):  # one is being told, one waits, with one the informer waits
        source.add(pod(name))
    until(lambda: len(informer.indexer) == 3)
    informer.add_event_handler(late)
    slow.go_on.set()
    source.add(pod("d"))
    late.hears("add a@1 first", "add b@2 first", "add c@3 first", "add d@4")
    slow.hears("add a@1", "add b@2", "add c@3", "add d@4")


@pytest.mark.conformance("SI-01")
def test_a_handler_registered_twice_hears_twice(source: FakeListWatch, make: Start, run: Run) -> None:
    """And each registration ends by itself."""
    informer, notes = make(), Notes()
    first = informer.add_event_handler(notes)
    informer.add_event_handler(notes)
    run(informer, synced=True)
    source.add(pod("a"))
    until(lambda: len(notes.heard) == 2)
    informer.remove_event_handler(first)
    source.modify(pod("a"))
    until(lambda: len(notes.heard) == 3)


@pytest.mark.conformance("DF-05", "RF-03")
def test_what_vanished_while_nobody_watched_is_deleted(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """With the last state that was seen; what changed is updated, and the rest is no news."""
    for name in ("same", "changed", "vanished"):
        source.add(pod(name))
    informer, notes = make(), Notes()
    informer.add_event_handler(notes)
    run(informer)
    until(lambda: len(notes.heard) == 3)
    notes.heard.clear()
    source.unreachable = True
    source.break_watches()
    source.delete(pod("vanished"))
    source.modify(pod("changed"))
    source.add(pod("new"))
    source.compact()
    source.unreachable = False
    _step_until(clock, lambda: len(notes.heard) >= 3)
    assert sorted(notes.heard) == ["add new@6", "missed vanished@3", "update changed@2-5"]
    assert _names(informer.lister.list()) == ["changed", "new", "same"]


def test_a_restored_cluster_is_told_whole_whatever_its_versions(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version may stand for another state than before the restore, so all that is there is told again."""
    for name in ("a", "b", "lost"):
        source.add(pod(name))
    informer, notes = make(), Notes()
    informer.add_event_handler(notes)
    run(informer)
    until(lambda: len(notes.heard) == 3)
    restored = FakeListWatch()
    restored.add(pod("a"))
    restored.add(pod("b", app="another"))
    for asked in ("version", "page", "watch"):
        monkeypatch.setattr(source, asked, getattr(restored, asked))
    source.break_watches()
    _step_until(clock, lambda: len(notes.heard) >= 6)
    restored.delete(pod("a"))
    told_again = ["missed lost@3", "update a@1-1", "update b@2-2"]
    notes.hears("add a@1 first", "add b@2 first", "add lost@3 first", *told_again, "delete a@3")
    assert _names(informer.lister.list(label_selector="app=another")) == ["b"]


@pytest.mark.conformance("SI-04", "SI-05", "RF-18")
def test_each_handler_hears_of_everything_again_at_its_own_period(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """And one without a period never does."""
    source.add(pod("a"))
    informer = make(resync_period=3.0)
    never, own, default = Notes(), Notes(), Notes()
    informer.add_event_handler(never, resync_period=0)
    informer.add_event_handler(own, resync_period=2.0)
    handler = informer.add_event_handler(default)
    run(informer)
    until(handler.has_synced)
    clock.step(2.0)
    own.hears("add a@1 first", "update a@1-1")
    clock.step(1.0)
    default.hears("add a@1 first", "update a@1-1")
    own.hears("add a@1 first", "update a@1-1")
    clock.step(1.0)
    own.hears("add a@1 first", "update a@1-1", "update a@1-1")
    source.modify(pod("a"))
    never.hears("add a@1 first", "update a@1-2")


@pytest.mark.conformance("SI-04")
def test_a_resync_period_is_a_second_at_least(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """Shorter ones would keep a handler busy with nothing."""
    source.add(pod("a"))
    informer, notes = make(), Notes()
    handler = informer.add_event_handler(notes, resync_period=0.01)
    run(informer)
    until(handler.has_synced)
    clock.step(0.9)
    threading.Event().wait(2 * TICK)
    assert notes.heard == ["add a@1 first"]
    clock.step(0.1)
    notes.hears("add a@1 first", "update a@1-1")


@pytest.mark.conformance("SI-06", "SI-07")
def test_a_removed_handler_hears_nothing_more(source: FakeListWatch, make: Start, run: Run) -> None:
    """Removed twice, or at another informer, nothing happens; waiting means until it has returned."""
    informer, notes, other = make(), Notes(), Notes()
    handler = informer.add_event_handler(notes)
    stranger = make().add_event_handler(Notes())
    informer.add_event_handler(other)
    run(informer, synced=True)
    notes.go_on.clear()
    source.add(pod("a"))
    other.hears("add a@1")
    waited = threading.Thread(target=informer.remove_event_handler, args=(handler,), kwargs={"wait": True})
    waited.start()
    source.add(pod("b"))
    other.hears("add a@1", "add b@2")
    assert waited.is_alive()
    notes.go_on.set()
    waited.join(30)
    assert not waited.is_alive()
    informer.remove_event_handler(handler)
    informer.remove_event_handler(stranger)
    source.add(pod("c"))
    other.hears("add a@1", "add b@2", "add c@3")
    assert notes.heard == ["add a@1"]


@pytest.mark.parametrize("handler", [lambda _: 0, Notes, ResourceEventHandlerFuncs, object(), None])
def test_what_is_no_handler_is_refused_at_its_registration(make: Start, handler: Any) -> None:
    """A function, a class, or an object without the methods: the message says what to give."""
    with pytest.raises(ConfigError, match=r"bad handler .* Give ResourceEventHandlerFuncs"):
        make().add_event_handler(handler)


@pytest.mark.conformance("SI-07")
def test_a_handler_may_remove_itself_and_add_others(source: FakeListWatch, make: Start, run: Run) -> None:
    """From within its own call."""
    informer, later = make(), Notes()
    own: list[Registration] = []
    calls: list[str] = []

    def once(obj: dict[str, Any], _: bool) -> None:
        calls.append(obj["metadata"]["name"])
        informer.add_event_handler(later)
        informer.remove_event_handler(own[0], wait=True)

    own.append(informer.add_event_handler(ResourceEventHandlerFuncs(add=once)))
    run(informer, synced=True)
    source.add(pod("a"))
    until(lambda: later.heard)
    source.add(pod("b"))
    later.hears("add a@1 first", "add b@2")
    assert calls == ["a"]


@pytest.mark.conformance("SI-08", "SI-10")
def test_after_its_end_an_informer_takes_no_handlers_and_does_not_run_again(
    source: FakeListWatch, make: Start, run: Run, stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """Its threads are gone; its cache stays readable."""
    source.add(pod("a"))
    informer = make()
    handler = informer.add_event_handler(Notes())
    thread = run(informer)
    until(handler.has_synced)
    informer.run(stop)
    assert "runs already" in caplog.text
    stop.set()
    thread.join(30)
    assert informer.stopped
    informer.run(stop)
    assert "has ended, and cannot run again" in caplog.text
    with pytest.raises(ShutDown, match="handler not added"):
        informer.add_event_handler(Notes())
    informer.remove_event_handler(handler)
    assert _names(informer.lister.list()) == ["a"]
    until(lambda: not [one for one in threading.enumerate() if one.name.endswith("fake Pod")])


@pytest.mark.conformance("SI-09", "RF-20")
def test_a_watch_error_handler_hears_why_a_connection_failed(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """The informer goes on, also where the handler itself fails."""
    errors: list[Exception] = []

    def note(error: Exception) -> None:
        errors.append(error)
        raise RuntimeError("as the test wants")

    source.failures = [NotFound("unknown", status=404), ApiError("boom", status=500)]
    source.add(pod("a"))
    informer, notes = make(on_watch_error=note), Notes()
    informer.add_event_handler(notes)
    run(informer)
    _step_until(clock, lambda: notes.heard)
    assert [type(error) for error in errors] == [NotFound, ApiError]


def _step_until(clock: FakeClock, condition: Callable[[], object]) -> None:
    """Let time pass until something is so."""

    def step() -> object:
        clock.step(0.25)
        return condition()

    until(step)


@pytest.mark.conformance("SI-09", "DF-10", "RF-22")
def test_a_transform_is_applied_once_to_each_object(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """A resync and a missed deletion show what it made."""
    calls: list[str] = []

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        calls.append(obj["metadata"]["name"])
        if obj["metadata"]["name"] == "bad":
            raise RuntimeError("as the test wants")
        obj["metadata"]["labels"] = {"seen": "yes"}
        return obj

    source.add(pod("a", app="web"))
    source.add(pod("bad"))
    informer, notes = make(transform=transform, resync_period=1.0), Notes()
    handler = informer.add_event_handler(notes)
    run(informer)
    until(handler.has_synced)
    clock.step(1.0)
    notes.hears("add a@1 first", "update a@1-1")
    assert informer.lister.list(label_selector="seen=yes")[0]["metadata"]["name"] == "a"
    assert calls == ["a", "bad"]


def test_a_transform_may_leave_the_version_out(source: FakeListWatch, make: Start, run: Run) -> None:
    """Changes are told all the same."""

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        del obj["metadata"]["resourceVersion"]
        return obj

    source.add(pod("a"))
    informer, notes = make(transform=transform), Notes()
    informer.add_event_handler(notes)
    run(informer, synced=True)
    source.modify(pod("a", app="web"))
    source.delete(pod("a"))
    notes.hears("add a@ first", "update a@-", "delete a@")


def test_where_a_transform_fails_the_object_is_left_as_it_was(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """A change is not taken, a list buries nobody for it, and a deletion tells the last state that was."""
    bad: list[str] = []

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        if obj["metadata"]["name"] in bad:
            raise RuntimeError("as the test wants")
        return obj

    source.add(pod("a"))
    informer, notes = make(transform=transform), Notes()
    informer.add_event_handler(notes)
    run(informer)
    notes.hears("add a@1 first")
    bad += ["a", "new"]
    source.modify(pod("a"))
    source.add(pod("new"))
    source.delete(pod("new"))  # nobody heard of it
    source.unreachable = True
    source.break_watches()
    source.add(pod("b"))
    source.compact()
    source.unreachable = False
    _step_until(clock, lambda: _names(informer.lister.list()) == ["a", "b"])
    source.delete(pod("a"))
    notes.hears("add a@1 first", "add b@5", "missed a@1")
    assert _names(informer.lister.list()) == ["b"]


@pytest.mark.conformance("SI-09")
def test_an_informer_syncs_though_its_transform_fails_in_the_first_list(
    source: FakeListWatch, make: Start, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the objects that its log names."""

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        assert obj["metadata"]["labels"]["app"]  # only some have one
        return obj

    source.add(pod("bad"))
    source.add(pod("good", app="web"))
    informer = make(transform=transform)
    run(informer, synced=True)
    assert _names(informer.lister.list()) == ["good"]
    assert "Pod prod/bad: its transform failed" in caplog.text


def test_managed_fields_may_be_left_out_of_the_cache(source: FakeListWatch, make: Start, run: Run) -> None:
    """The transform for it is cut out of the bytes, and otherwise a function like another."""
    managed = pod("a")
    managed["metadata"]["managedFields"] = [{"manager": "x"}]
    source.add(managed)
    informer = make(transform=strip_managed_fields)
    run(informer)
    until(informer.has_synced)
    (kept,) = informer.lister.list()
    assert "managedFields" not in kept["metadata"]
    assert strip_managed_fields(managed)["metadata"].keys() == pod("a")["metadata"].keys()


@pytest.mark.conformance("SI-11")
def test_a_slow_handler_holds_the_informer_up_instead_of_filling_memory(
    source: FakeListWatch,
    make: Start,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is said in the log, and nothing is lost."""
    monkeypatch.setattr(registration, "CAPACITY", 3)
    informer, slow = make(), Notes()
    handler = informer.add_event_handler(slow)
    run(informer, synced=True)
    slow.go_on.clear()
    for number in range(20):
        source.add(pod(f"p{number}"))
    with caplog.at_level(logging.WARNING):
        until(lambda: "holds its informer up" in caplog.text)
    assert handler.pending <= 3
    slow.go_on.set()
    slow.hears(*(f"add p{number}@{number + 1}" for number in range(20)))


@pytest.mark.conformance("SI-10")
def test_run_returns_when_no_handler_is_being_told(
    source: FakeListWatch, make: Start, run: Run, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what a handler uses can be taken down after it; what waited for the handler is not told."""
    monkeypatch.setattr(registration, "CAPACITY", 3)
    informer, stuck = make(), Notes()
    informer.add_event_handler(stuck)
    thread = run(informer, synced=True)
    stuck.go_on.clear()
    try:
        for number in range(20):
            source.add(pod(f"p{number}"))
            until(lambda: informer.last_sync_resource_version == str(number + 1) or number > 4)  # noqa: B023
        stop.set()
        until(lambda: informer.stopped)
        thread.join(0.2)
        assert thread.is_alive()
    finally:
        stuck.go_on.set()
    thread.join(30)
    assert not thread.is_alive()
    assert stuck.heard == ["add p0@1"]


def test_a_slow_handler_is_said_to_be_slow_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not with each of many notifications."""
    monkeypatch.setattr(registration, "CAPACITY", 3)
    news, stop = registration.Notification("add", stored("a", 1)), threading.Event()
    slow = Registration(
        Notes(),
        name="pods",
        upstream_synced=lambda: True,
        initial=[news] * 3,
        resync_period=0,
        only=None,
        clock=FakeClock(),
    )
    stop.set()
    for _ in range(3):
        slow.put(news, stop)
    assert caplog.text.count("holds its informer up") == 1
    assert "The cache and other handlers wait for it. Let it hand its work to a queue." in caplog.text


@pytest.mark.conformance("SI-12")
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_handler_that_fails_hears_of_the_next_and_counts_as_told(
    source: FakeListWatch,
    make: Start,
    run: Run,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
) -> None:
    """Also in the first list: it has synced."""
    for name in ("a", "bad", "c"):
        source.add(pod(name))
    informer, notes, other = make(), Notes(), Notes()
    notes.failing, notes.error = {"bad"}, error
    handler, calm = informer.add_event_handler(notes), informer.add_event_handler(other)
    run(informer)
    until(lambda: handler.has_synced() and calm.has_synced())
    assert notes.heard == other.heard == ["add a@1 first", "add bad@2 first", "add c@3 first"]
    assert "a handler failed on prod/bad" in caplog.text


@pytest.mark.conformance("SI-13")
def test_a_filter_makes_adds_and_deletes_of_what_begins_and_ceases_to_pass(
    source: FakeListWatch, make: Start, run: Run
) -> None:
    """The handler sees the world as if nothing else were in it."""
    informer, notes = make(), Notes()
    informer.add_event_handler(notes, filter=lambda obj: obj["metadata"]["labels"].get("app") == "web")
    run(informer, synced=True)
    source.add(pod("a", app="db"))
    source.modify(pod("a", app="web"))
    source.modify(pod("a", app="web", x="y"))
    source.modify(pod("a", app="db"))
    source.modify(pod("a", app="cache"))
    source.delete(pod("a", app="cache"))
    source.add(pod("b", app="web"))
    source.delete(pod("b", app="web"))
    notes.hears("add a@2", "update a@2-3", "delete a@3", "add b@7", "delete b@8")


@pytest.mark.conformance("SI-15")
def test_handlers_come_and_go_while_the_resource_changes(
    source: FakeListWatch, make: Start, run: Run
) -> None:
    """Each hears a history that fits: every object added first, and no change missed."""
    informer = make()
    run(informer, synced=True)
    handlers: list[tuple[Registration, Notes]] = []

    def change() -> None:
        for number in range(300):
            source.add(pod(f"p{number % 10}")) if number < 10 else source.modify(pod(f"p{number % 10}"))

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        notes = Notes()
        handlers.append((informer.add_event_handler(notes), notes))
        if len(handlers) % 3 == 0:
            informer.remove_event_handler(handlers.pop(0)[0])
    changing.join()
    for handler, notes in handlers:
        until(handler.has_synced)
        until(partial(_heard_all, notes))
        _fits(notes.heard)


def _heard_all(notes: Notes) -> bool:
    return bool(notes.heard) and notes.heard[-1].endswith("300")


def _fits(heard: list[str]) -> None:
    seen: dict[str, str] = {}
    for text in heard:
        kind, what = text.split()[:2]
        name, _, versions = what.partition("@")
        before, _, after = versions.rpartition("-")
        if kind == "add":
            assert name not in seen
        else:
            assert seen[name] == before
        seen[name] = after


def test_a_resource_that_the_api_server_does_not_know_is_waited_for(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """Its definition may be applied later."""
    source.failures = [NotFound("unknown", status=404)] * 3
    source.add(pod("a"))
    informer = make()
    run(informer)
    _step_until(clock, informer.has_synced)
    assert _names(informer.lister.list()) == ["a"]


@pytest.mark.conformance("IX-05")
def test_an_index_function_that_fails_leaves_the_informer_alive(
    source: FakeListWatch, make: Start, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """The object is left out and logged, the others are cached, and the informer has synced."""
    source.add(pod("a"))
    source.add(pod("bad"))
    informer = make(indexers={"broken": lambda obj: [str(1 // (obj["metadata"]["name"] != "bad"))]})
    run(informer)
    until(informer.has_synced)
    source.add(pod("c"))
    until(lambda: _names(informer.lister.list()) == ["a", "c"])
    assert "no values of prod/bad" in caplog.text


def test_an_object_is_deleted_though_its_index_function_fails_by_now(
    source: FakeListWatch, make: Start, run: Run
) -> None:
    """What is no more does not stay in the cache, and its handlers hear of it."""
    broken = threading.Event()

    def by_name(obj: Any) -> list[str]:
        if broken.is_set():
            raise RuntimeError("as the test wants")
        return [obj["metadata"]["name"]]

    source.add(pod("a"))
    informer, notes = make(indexers={"name": by_name}), Notes()
    informer.add_event_handler(notes)
    run(informer, synced=True)
    broken.set()
    source.delete(pod("a"))
    notes.hears("add a@1 first", "delete a@2")
    assert informer.lister.by_index("name", "a") == []
