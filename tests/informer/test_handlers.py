"""What handlers of an informer get, in which order, and that they hold up no other for ever."""

import logging
import threading
from functools import partial
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.informer import (
    Registration,
    ResourceEventHandlerFuncs,
    SharedInformer,
    registration,
)
from distq.informer.reflector import TICK
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import Notes, Run, Start, pod, stored
from tests.support.eventually import eventually


@pytest.mark.conformance("SI-02", "SI-03")
def test_a_late_handler_gets_everything_first(source: FakeListWatch, make: Start, run: Run) -> None:
    """As if it had been there when the first list came; and only then it has synced."""
    informer, early = make(), Notes()
    source.add(pod("a"))
    source.add(pod("b"))
    informer.add_event_handler(early)
    run(informer)
    eventually(lambda: len(early.calls) == 2)
    late = Notes()
    late.go_on.clear()
    handler = informer.add_event_handler(late)
    source.add(pod("c"))
    early.gets("add a@1 first", "add b@2 first", "add c@3")
    assert not handler.has_synced()
    assert handler.pending >= 2
    late.go_on.set()
    late.gets("add a@1 first", "add b@2 first", "add c@3")
    eventually(handler.has_synced)


@pytest.mark.conformance("SI-02", "SI-15")
def test_a_handler_that_is_added_while_another_holds_the_informer_up_gets_each_object_once(
    source: FakeListWatch, make: Start, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that are in the cache by then are not delivered again as news."""
    monkeypatch.setattr(registration, "CAPACITY", 1)
    informer, slow, late = make(), Notes(), Notes()
    informer.add_event_handler(slow)
    run(informer, synced=True)
    slow.go_on.clear()
    for name in ("a", "b", "c"):  # one is being delivered, one waits, with one the informer waits
        source.add(pod(name))
    eventually(lambda: len(informer.indexer) == 3)
    informer.add_event_handler(late)
    slow.go_on.set()
    source.add(pod("d"))
    late.gets("add a@1 first", "add b@2 first", "add c@3 first", "add d@4")
    slow.gets("add a@1", "add b@2", "add c@3", "add d@4")


@pytest.mark.conformance("SI-01")
def test_a_handler_registered_twice_is_called_twice(source: FakeListWatch, make: Start, run: Run) -> None:
    """And each registration ends by itself."""
    informer, notes = make(), Notes()
    first = informer.add_event_handler(notes)
    informer.add_event_handler(notes)
    run(informer, synced=True)
    source.add(pod("a"))
    eventually(lambda: len(notes.calls) == 2)
    informer.remove_event_handler(first)
    source.modify(pod("a"))
    eventually(lambda: len(notes.calls) == 3)


@pytest.mark.conformance("SI-04", "SI-05", "RF-18")
def test_each_handler_gets_everything_again_at_its_own_period(
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
    eventually(handler.has_synced)
    clock.step(2.0)
    own.gets("add a@1 first", "update a@1-1")
    clock.step(1.0)
    default.gets("add a@1 first", "update a@1-1")
    own.gets("add a@1 first", "update a@1-1")
    clock.step(1.0)
    own.gets("add a@1 first", "update a@1-1", "update a@1-1")
    source.modify(pod("a"))
    never.gets("add a@1 first", "update a@1-2")


@pytest.mark.conformance("SI-04")
def test_a_resync_period_is_a_second_at_least(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """Shorter ones would keep a handler busy with nothing."""
    source.add(pod("a"))
    informer, notes = make(), Notes()
    handler = informer.add_event_handler(notes, resync_period=0.01)
    run(informer)
    eventually(handler.has_synced)
    clock.step(0.9)
    threading.Event().wait(2 * TICK)
    assert notes.calls == ["add a@1 first"]
    clock.step(0.1)
    notes.gets("add a@1 first", "update a@1-1")


@pytest.mark.conformance("SI-06", "SI-07")
def test_a_removed_handler_is_not_called_any_more(source: FakeListWatch, make: Start, run: Run) -> None:
    """Removed twice, or at another informer, nothing happens; waiting means until it has returned."""
    informer, notes, other = make(), Notes(), Notes()
    handler = informer.add_event_handler(notes)
    stranger = make().add_event_handler(Notes())
    informer.add_event_handler(other)
    run(informer, synced=True)
    notes.go_on.clear()
    source.add(pod("a"))
    other.gets("add a@1")
    eventually(lambda: handler.pending == 0)
    waited = threading.Thread(target=informer.remove_event_handler, args=(handler,), kwargs={"wait": True})
    waited.start()
    source.add(pod("b"))
    other.gets("add a@1", "add b@2")
    assert waited.is_alive()
    notes.go_on.set()
    _assert_ends(waited)
    informer.remove_event_handler(handler)
    informer.remove_event_handler(stranger)
    source.add(pod("c"))
    other.gets("add a@1", "add b@2", "add c@3")
    assert notes.calls == ["add a@1"]


@pytest.mark.parametrize("handler", [lambda _: 0, Notes, ResourceEventHandlerFuncs, object(), None])
def test_an_object_that_is_no_handler_is_refused_at_its_registration(make: Start, handler: Any) -> None:
    """A function, a class, or an object without the methods: the message says what to give."""
    with pytest.raises(ConfigError, match=r"bad handler .* Give ResourceEventHandlerFuncs"):
        make().add_event_handler(handler)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ({"add": lambda obj: obj}, r"add\(obj, is_in_initial_list\)"),
        ({"update": lambda new: new}, r"update\(old, new\)"),
        ({"delete": "gone"}, r"delete\(obj\)"),
    ],
)
def test_functions_that_every_event_would_fail_are_refused(function: Any, call: str) -> None:
    """client-go's plain functions get an added object alone; the message shows the call of ours."""
    with pytest.raises(ConfigError, match=rf"bad handler .* called as {call}. Give"):
        ResourceEventHandlerFuncs(**function)


def test_methods_that_every_event_would_fail_are_refused(make: Start) -> None:
    """As functions are; what takes any arguments, or more that have defaults, will do."""

    class Short(Notes):
        def on_add(self, obj: Any) -> None:  # type: ignore[override]  # which is the point
            """Take too few arguments."""

    short: Any = Short()
    with pytest.raises(ConfigError, match=r"bad handler .* called as on_add\(obj, is_in_initial_list\)"):
        make().add_event_handler(short)
    any_number: Any = lambda *_, **__: None  # noqa: E731 - a lambda is what people give
    make().add_event_handler(ResourceEventHandlerFuncs(add=print, update=any_number, delete=any_number))


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
    eventually(lambda: later.calls)
    source.add(pod("b"))
    later.gets("add a@1 first", "add b@2")
    assert calls == ["a"]


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
        eventually(lambda: "holds its informer up" in caplog.text)
    assert handler.pending <= 3
    slow.go_on.set()
    slow.gets(*(f"add p{number}@{number + 1}" for number in range(20)))


@pytest.mark.conformance("SI-10")
def test_run_returns_when_no_handler_is_being_called(
    source: FakeListWatch, make: Start, run: Run, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an object that a handler uses can be closed then; events that waited for it are not delivered."""
    monkeypatch.setattr(registration, "CAPACITY", 3)
    informer, stuck = make(), Notes()
    informer.add_event_handler(stuck)
    thread = run(informer, synced=True)
    stuck.go_on.clear()
    try:
        for number in range(20):
            source.add(pod(f"p{number}"))
            eventually(lambda: informer.last_sync_resource_version == str(number + 1) or number > 4)  # noqa: B023
        stop.set()
        _assert_waits(informer, thread)
    finally:
        stuck.go_on.set()
    _assert_ends(thread)
    assert stuck.calls == ["add p0@1"]


@pytest.mark.conformance("SI-06", "SI-10")
def test_run_waits_for_a_handler_that_was_removed_while_it_is_called(
    source: FakeListWatch, make: Start, run: Run, stop: threading.Event
) -> None:
    """What it uses can be taken down after the run, too."""
    source.add(pod("a"))
    informer, stuck = make(), Notes()
    stuck.go_on.clear()
    place = informer.add_event_handler(stuck)
    thread = run(informer, synced=True)
    try:
        eventually(lambda: place.pending == 0)
        informer.remove_event_handler(place)
        stop.set()
        _assert_waits(informer, thread)
    finally:
        stuck.go_on.set()
    _assert_ends(thread)
    assert stuck.calls == ["add a@1 first"]


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
def test_a_handler_that_fails_gets_the_next_and_counts_as_called(
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
    eventually(lambda: handler.has_synced() and calm.has_synced())
    assert notes.calls == other.calls == ["add a@1 first", "add bad@2 first", "add c@3 first"]
    assert "a handler failed on prod/bad" in caplog.text


@pytest.mark.conformance("SI-13")
def test_a_filter_makes_adds_and_deletes_of_objects_that_begin_and_cease_to_pass(
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
    notes.gets("add a@2", "update a@2-3", "delete a@3", "add b@7", "delete b@8")


@pytest.mark.conformance("SI-15")
def test_handlers_come_and_go_while_the_resource_changes(
    source: FakeListWatch, make: Start, run: Run
) -> None:
    """Each gets a history that fits: every object added first, and no change missed."""
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
        eventually(handler.has_synced)
        eventually(partial(_got_all, notes))
        _fits(notes.calls)


def _assert_waits(informer: SharedInformer, thread: threading.Thread) -> None:
    eventually(lambda: informer.stopped)
    thread.join(0.2)
    assert thread.is_alive()


def _assert_ends(thread: threading.Thread) -> None:
    thread.join(30)
    assert not thread.is_alive()


def _got_all(notes: Notes) -> bool:
    return bool(notes.calls) and notes.calls[-1].endswith("300")


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
