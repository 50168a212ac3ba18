"""A cache that follows a resource, and its handlers (client-go tools/cache SharedIndexInformer)."""

import sys
import threading
from typing import Any

import pytest

from distq.errors import ApiError, NotFound, ShutDown
from distq.informer import (
    strip_managed_fields,
)
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import Notes, Run, Start, names, pod, step_until
from tests.support.eventually import eventually


@pytest.mark.conformance("SI-01", "SI-03", "RF-08", "RF-23")
def test_listed_and_watched_objects_are_cached_and_delivered(
    source: FakeListWatch, make: Start, run: Run
) -> None:
    """First the list, then each change, in order."""
    source.add(pod("a"))
    informer, notes = make(), Notes()
    handler = informer.add_event_handler(notes)
    assert not informer.has_synced()
    assert not handler.has_synced()
    run(informer)
    eventually(handler.has_synced)
    assert informer.has_synced()
    source.add(pod("b"))
    source.modify(pod("b", app="web"))
    source.delete(pod("a"))
    notes.gets("add a@1 first", "add b@2", "update b@2-3", "delete a@4")
    assert names(informer.lister.list()) == ["b"]
    assert informer.last_sync_resource_version == "4"


@pytest.mark.conformance("DF-05", "RF-03")
def test_an_object_that_vanished_while_no_watch_ran_is_deleted(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """With the last state that was seen; changed objects are updated, and the rest is no news."""
    for name in ("same", "changed", "vanished"):
        source.add(pod(name))
    informer, notes = make(), Notes()
    informer.add_event_handler(notes)
    run(informer)
    eventually(lambda: len(notes.calls) == 3)
    notes.calls.clear()
    source.unreachable = True
    source.break_watches()
    source.delete(pod("vanished"))
    source.modify(pod("changed"))
    source.add(pod("new"))
    source.compact()
    source.unreachable = False
    step_until(clock, lambda: len(notes.calls) >= 3)
    assert sorted(notes.calls) == ["add new@6", "missed vanished@3", "update changed@2-5"]
    assert names(informer.lister.list()) == ["changed", "new", "same"]


def test_a_restored_cluster_is_delivered_whole_with_any_versions(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version may mean another state than before the restore, so all that is there is delivered again."""
    for name in ("a", "b", "lost"):
        source.add(pod(name))
    informer, notes = make(), Notes()
    informer.add_event_handler(notes)
    run(informer)
    eventually(lambda: len(notes.calls) == 3)
    restored = FakeListWatch()
    restored.add(pod("a"))
    restored.add(pod("b", app="another"))
    for asked in ("version", "page", "watch"):
        monkeypatch.setattr(source, asked, getattr(restored, asked))
    source.break_watches()
    step_until(clock, lambda: len(notes.calls) >= 6)
    restored.delete(pod("a"))
    again = ["missed lost@3", "update a@1-1", "update b@2-2"]
    notes.gets("add a@1 first", "add b@2 first", "add lost@3 first", *again, "delete a@3")
    assert names(informer.lister.list(label_selector="app=another")) == ["b"]


@pytest.mark.conformance("SI-08", "SI-10")
def test_after_its_end_an_informer_takes_no_handlers_and_does_not_run_again(
    source: FakeListWatch, make: Start, run: Run, stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """Its threads are gone; its cache stays readable."""
    source.add(pod("a"))
    informer = make()
    handler = informer.add_event_handler(Notes())
    thread = run(informer)
    eventually(handler.has_synced)
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
    assert names(informer.lister.list()) == ["a"]
    eventually(lambda: not [one for one in threading.enumerate() if one.name.endswith("fake Pod")])


@pytest.mark.conformance("SI-09", "RF-20")
def test_a_watch_error_handler_gets_the_error_of_a_connection(
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
    step_until(clock, lambda: notes.calls)
    assert [type(error) for error in errors] == [NotFound, ApiError]


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
    eventually(handler.has_synced)
    clock.step(1.0)
    notes.gets("add a@1 first", "update a@1-1")
    assert informer.lister.list(label_selector="seen=yes")[0]["metadata"]["name"] == "a"
    assert calls == ["a", "bad"]


def test_a_transform_may_leave_the_version_out(source: FakeListWatch, make: Start, run: Run) -> None:
    """Changes are delivered nevertheless."""

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        del obj["metadata"]["resourceVersion"]
        return obj

    source.add(pod("a"))
    informer, notes = make(transform=transform), Notes()
    informer.add_event_handler(notes)
    run(informer, synced=True)
    source.modify(pod("a", app="web"))
    source.delete(pod("a"))
    notes.gets("add a@ first", "update a@-", "delete a@")


def test_where_a_transform_fails_the_object_is_left_as_it_was(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """A change is not taken, a list deletes no object for it, and a deletion carries the last state."""
    bad: list[str] = []

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        if obj["metadata"]["name"] in bad:
            raise RuntimeError("as the test wants")
        return obj

    source.add(pod("a"))
    informer, notes = make(transform=transform), Notes()
    informer.add_event_handler(notes)
    run(informer)
    notes.gets("add a@1 first")
    bad += ["a", "new"]
    source.modify(pod("a"))
    source.add(pod("new"))
    source.delete(pod("new"))  # without an event
    source.unreachable = True
    source.break_watches()
    source.add(pod("b"))
    source.compact()
    source.unreachable = False
    step_until(clock, lambda: names(informer.lister.list()) == ["a", "b"])
    source.delete(pod("a"))
    notes.gets("add a@1 first", "add b@5", "missed a@1")
    assert names(informer.lister.list()) == ["b"]


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
    assert names(informer.lister.list()) == ["good"]
    assert "Pod prod/bad: its transform failed" in caplog.text


def test_managed_fields_may_be_left_out_of_the_cache(source: FakeListWatch, make: Start, run: Run) -> None:
    """The transform for it is cut out of the bytes, and otherwise a function like another."""
    managed = pod("a")
    managed["metadata"]["managedFields"] = [{"manager": "x"}]
    source.add(managed)
    informer = make(transform=strip_managed_fields)
    run(informer)
    eventually(informer.has_synced)
    (kept,) = informer.lister.list()
    assert "managedFields" not in kept["metadata"]
    assert strip_managed_fields(managed)["metadata"].keys() == pod("a")["metadata"].keys()


def test_a_resource_that_the_api_server_does_not_know_is_waited_for(
    source: FakeListWatch, make: Start, run: Run, clock: FakeClock
) -> None:
    """Its definition may be applied later."""
    source.failures = [NotFound("unknown", status=404)] * 3
    source.add(pod("a"))
    informer = make()
    run(informer)
    step_until(clock, informer.has_synced)
    assert names(informer.lister.list()) == ["a"]


@pytest.mark.conformance("IX-05")
def test_an_index_function_that_fails_leaves_the_informer_alive(
    source: FakeListWatch, make: Start, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """The object is left out and logged, the others are cached, and the informer has synced."""
    source.add(pod("a"))
    source.add(pod("bad"))
    informer = make(indexers={"broken": lambda obj: [str(1 // (obj["metadata"]["name"] != "bad"))]})
    run(informer)
    eventually(informer.has_synced)
    source.add(pod("c"))
    eventually(lambda: names(informer.lister.list()) == ["a", "c"])
    assert "no values of prod/bad" in caplog.text


def test_an_index_function_that_calls_exit_leaves_the_informer_alive(
    source: FakeListWatch, make: Start, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """It would end a hidden thread, and the cache would not change any more."""

    def by_name(obj: Any) -> list[str]:
        if obj["metadata"]["name"] == "bad":
            sys.exit("as the test wants")
        return [obj["metadata"]["name"]]

    source.add(pod("bad"))
    source.add(pod("c"))
    informer = make(indexers={"name": by_name})
    run(informer, synced=True)
    assert names(informer.lister.list()) == ["c"]
    assert "as the test wants" in caplog.text


def test_an_informer_syncs_though_its_transform_makes_objects_without_a_key(
    source: FakeListWatch, make: Start, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """A name must be text; where it is not, the transform has failed."""
    source.add(pod("a"))
    informer = make(transform=lambda _: {"metadata": {"name": ["a"]}})
    run(informer, synced=True)
    assert names(informer.lister.list()) == []
    assert "prod/a: its transform failed" in caplog.text


def test_an_object_is_deleted_though_its_index_function_fails_by_now(
    source: FakeListWatch, make: Start, run: Run
) -> None:
    """A deleted object does not stay in the cache, and its handlers are called."""
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
    notes.gets("add a@1 first", "delete a@2")
    assert informer.lister.by_index("name", "a") == []
