"""A Reflector lists once, watches, and resumes from its sink's position, on both API servers."""

import threading
import time
from collections.abc import Sequence

import pytest

from distq.errors import LeaseLost, NotFound
from distq.informer import pager as pager_module
from distq.informer import reflector as reflector_module
from distq.informer.listwatch import ListWatch
from distq.informer.reflector import Reflector
from distq.informer.sink import PositionMoved
from distq.informer.wire import WatchEvent
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import stepping
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.recording import (
    CONFIG_MAPS,
    DEFINITIONS,
    Recorder,
    RecordingClient,
    change_schema,
    create_when_served,
    running,
)
from tests.support.samples import config_map, custom_resource, wait_until_served


def config_maps(client: RecordingClient, namespace: str) -> ListWatch:
    """Return the list and watch of a namespace's ConfigMaps."""
    return ListWatch(client, CONFIG_MAPS, namespace=namespace)


def widget(resource: str, namespace: str, name: str) -> dict[str, object]:
    """Return a custom object to be written."""
    api_version, _, kind = resource.rpartition("/")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def test_after_any_exception_a_list_is_asked_for_again() -> None:
    """Also what no API server should be able to make it raise, and while it backs off."""
    source, sink, clock = FakeListWatch(), Recorder(), FakeClock()
    answer, asked = source.version, iter(range(1000))

    def version() -> str:
        if next(asked) < 5:
            raise RuntimeError("as the test wants")
        return answer()

    source.version = version  # type: ignore[method-assign]

    with running(source, sink, clock):
        eventually(stepping(clock, sink.noted("end")))


@pytest.mark.conformance("RF-06")
def test_lists_in_pages_of_one_version_then_watches(
    client: RecordingClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first list comes in pages, and events follow from its version on."""
    monkeypatch.setattr(pager_module, "PAGE_SIZE", 5)
    for number in range(12):
        client.create(config_map(namespace, f"map-{number}"))
    client.asked.clear()
    sink = Recorder()
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted("end", "connected"))
        listed_at = sink.version
        client.create(config_map(namespace, "late"))
        eventually(sink.noted(f"ADDED {namespace}/late"))
    assert [len(page) for page in sink.pages] == [5, 5, 2]
    assert sink.listed() == {f"{namespace}/map-{number}" for number in range(12)}
    assert client.asked == ["version", "list", "list", "list", f"watch {listed_at}"]


def test_events_that_follow_each_other_travel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are waited for as the last ones took to hand over, within bounds; bookmarks cost nothing."""
    bookmark = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"200"}}}'
    event = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"101"}}}'
    came = [(event, 0.001), (event, 0.0), (event, 1.0), (bookmark, 0.0), (bookmark, 0.0)]
    source, sink, clock, waits = FakeListWatch(), Recorder(), FakeClock(), list[tuple[float, int]]()
    hand_over, stop = sink.events, threading.Event()

    class Reader:
        def __init__(self, *_: object) -> None:
            pass

        def take(self, timeout: float, *, wanted: int = 1) -> tuple[list[bytes], float]:
            if not came:
                stop.set()
                return [], 0.0
            waits.append((round(timeout, 6), wanted))
            return [came[0][0]], 0.0

        def close(self) -> None:
            pass

    def events(events: Sequence[WatchEvent], since: float) -> None:
        clock.step(came.pop(0)[1])
        hand_over(events, since)

    monkeypatch.setattr(reflector_module, "ReadAhead", Reader)
    monkeypatch.setattr(sink, "events", events)
    Reflector(source, sink, clock=clock).run(stop)
    at_once, others = (reflector_module.TICK, 1), reflector_module.BUSY_LINES
    assert waits == [at_once, (0.005, others), (0.002, others), (0.02, others), at_once]


def test_resumes_from_a_position_without_a_list(client: RecordingClient, namespace: str) -> None:
    """The events since the position come in order; deletions bring the last state."""
    created = client.create(config_map(namespace, "a", color="red"))
    position = created["metadata"]["resourceVersion"]
    client.update({**created, "data": {"color": "green"}})
    client.create(config_map(namespace, "b"))
    client.delete(CONFIG_MAPS, f"{namespace}/a")
    client.asked.clear()
    sink = Recorder(position)
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted(f"DELETED {namespace}/a"))
    assert sink.notes == [
        "connected",
        f"MODIFIED {namespace}/a",
        f"ADDED {namespace}/b",
        f"DELETED {namespace}/a",
    ]
    assert client.asked == ["version", f"watch {position}"]
    assert sink.objects[f"{namespace}/a"].decode()["data"] == {"color": "green"}


def test_an_object_is_decoded_whole_with_its_kind(client: RecordingClient, namespace: str) -> None:
    """Objects of lists carry no kind of their own; they get it back."""
    client.create(config_map(namespace, "a", color="red"))
    sink = Recorder()
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted("end"))
    whole = sink.objects[f"{namespace}/a"].decode()
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "ConfigMap")
    assert whole["data"] == {"color": "red"}


def test_metadata_only_asks_for_metadata_alone(client: RecordingClient, namespace: str) -> None:
    """Lists and watches of metadata bring no data, but events as ever."""
    client.create(config_map(namespace, "a", color="red"))
    sink = Recorder()
    with running(ListWatch(client, CONFIG_MAPS, namespace=namespace, metadata_only=True), sink):
        eventually(sink.noted("connected"))
        client.create(config_map(namespace, "b", color="red"))
        eventually(sink.noted(f"ADDED {namespace}/b"))
    for name in "ab":
        whole = sink.objects[f"{namespace}/{name}"].decode()
        assert whole["kind"] == "ConfigMap"
        assert "data" not in whole


def test_selectors_narrow_lists_and_watches(client: RecordingClient, namespace: str) -> None:
    """Only what matches is listed; what stops matching is a deletion."""
    for name, color in {"a": "red", "b": "green"}.items():
        labelled = config_map(namespace, name)
        labelled["metadata"]["labels"] = {"color": color}
        client.create(labelled)
    sink = Recorder()
    with running(ListWatch(client, CONFIG_MAPS, namespace=namespace, label_selector="color=red"), sink):
        eventually(sink.noted("connected"))
        client.patch(CONFIG_MAPS, f"{namespace}/a", {"metadata": {"labels": {"color": "blue"}}})
        eventually(sink.noted(f"DELETED {namespace}/a"))
    assert sink.listed() == {f"{namespace}/a"}


@pytest.mark.conformance("RF-21")
def test_an_expired_position_is_listed_anew(client: RecordingClient, namespace: str, widgets: str) -> None:
    """410 comes in a stream that began well; the list that follows lacks what was deleted meanwhile."""
    first = client.create(widget(widgets, namespace, "a"))
    client.create(widget(widgets, namespace, "b"))
    client.delete(widgets, f"{namespace}/a")
    change_schema(client, f"widgets.{namespace}.example.com")
    client.asked.clear()
    sink = Recorder(first["metadata"]["resourceVersion"])
    with running(ListWatch(client, widgets), sink):
        eventually(sink.noted("expired", "end"))
    assert sink.listed() == {f"{namespace}/b"}
    assert client.lists() == 1


def test_a_watch_survives_a_change_of_the_schema(
    client: RecordingClient, namespace: str, widgets: str
) -> None:
    """A CRD's change ends the stream and answers 429 for a while; afterwards every object is seen."""
    sink = Recorder()
    with running(ListWatch(client, widgets), sink):
        eventually(sink.noted("connected"))
        change_schema(client, f"widgets.{namespace}.example.com")
        create_when_served(client, widget(widgets, namespace, "a"))
        eventually(lambda: f"{namespace}/a" in sink.objects)


@pytest.mark.conformance("RF-05")
def test_a_position_from_the_future_is_noticed(client: RecordingClient, namespace: str) -> None:
    """A watch from the future would be silent for ever; the version check before it says so."""
    client.create(config_map(namespace, "a"))
    sink = Recorder("99999999999999999999")
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted("end"))
    assert sink.notes[:3] == ["rewound", "begin", "end"]


def test_progress_during_the_version_check_is_not_the_future(
    client: RecordingClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader may move the position while this one asks for the version."""
    sink = Recorder(client.create(config_map(namespace, "a"))["metadata"]["resourceVersion"])
    version = ListWatch.version

    def overtaken(list_watch: ListWatch) -> str:
        present = version(list_watch)
        if not sink.notes:
            sink.version = client.create(config_map(namespace, "b"))["metadata"]["resourceVersion"]
        return present

    monkeypatch.setattr(ListWatch, "version", overtaken)
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted("connected"))
    assert "rewound" not in sink.notes


def test_an_unknown_resource_ends_the_first_start(client: RecordingClient) -> None:
    """The resource was never there: the caller gets an error, with the remedy."""
    unknown = ListWatch(client, "example.com/v1/Nothing")
    with pytest.raises(NotFound) as caught:
        Reflector(unknown, Recorder()).run(threading.Event())
    assert str(caught.value) == (
        "cannot watch example.com/v1/Nothing: unknown to the API server. Apply its CRD first."
    )


def test_a_resource_that_was_known_is_waited_for(client: RecordingClient, namespace: str) -> None:
    """With a position an unknown resource is one that went away: it is listed when it is back."""
    group = f"{namespace}.example.com"
    sink = Recorder("1")
    with running(ListWatch(client, f"{group}/v1/Widget"), sink):
        eventually(lambda: sink.ticks > 0)  # it backs off
        client.create(custom_resource(group))
        try:
            eventually(sink.noted("expired", "end", "connected"))
        finally:
            client.delete(DEFINITIONS, f"widgets.{group}")


def test_a_resource_that_disappears_is_followed_again(
    client: RecordingClient, namespace: str, widgets: str
) -> None:
    """A CRD deleted and applied again while it is watched ends nothing."""
    definition = f"widgets.{namespace}.example.com"
    sink = Recorder()
    with running(ListWatch(client, widgets), sink):
        eventually(sink.noted("connected"))
        client.create(widget(widgets, namespace, "a"))
        eventually(sink.noted(f"ADDED {namespace}/a"))
        client.delete(DEFINITIONS, definition)
        eventually(lambda: client.get(DEFINITIONS, definition) is None)
        client.create(custom_resource(f"{namespace}.example.com"))
        wait_until_served(client, widgets)
        client.create(widget(widgets, namespace, "b"))
        eventually(lambda: f"{namespace}/b" in sink.objects, timeout=40)


def test_a_resource_that_comes_again_under_other_paths_is_followed(
    api_server: ApiServer, client: RecordingClient, namespace: str
) -> None:
    """Facts that were learnt of a CRD do not outlive it: the next one may have another plural."""
    admin, group, sink = api_server.client(), f"{namespace}.example.com", Recorder()
    renamed = custom_resource(group)
    renamed["metadata"]["name"] = f"gadgets.{group}"
    renamed["spec"]["names"]["plural"] = "gadgets"
    admin.create(custom_resource(group))
    try:
        wait_until_served(admin, f"{group}/v1/Widget")
        with running(ListWatch(client, f"{group}/v1/Widget"), sink):
            eventually(sink.noted("connected"))
            admin.delete(DEFINITIONS, f"widgets.{group}")
            eventually(lambda: admin.get(DEFINITIONS, f"widgets.{group}") is None)
            eventually(lambda: client.asked[-1] == "version")
            admin.create(renamed)
            wait_until_served(admin, f"{group}/v1/Widget")
            admin.create(widget(f"{group}/v1/Widget", namespace, "a"))
            eventually(lambda: f"{namespace}/a" in sink.objects, timeout=40)
    finally:
        for plural in ("widgets", "gadgets"):
            admin.delete(DEFINITIONS, f"{plural}.{group}")


def test_a_sink_that_fails_gets_the_events_again(client: RecordingClient, namespace: str) -> None:
    """Nothing is skipped: the watch starts over from the sink's position."""
    failures = iter([ValueError("a mapping function"), PositionMoved("elsewhere")])

    def fail(_: Sequence[WatchEvent]) -> None:
        for failure in failures:
            raise failure

    sink = Recorder()
    sink.on_events = fail
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted("connected"))
        client.create(config_map(namespace, "a"))
        eventually(sink.noted(f"ADDED {namespace}/a"))
    assert sink.notes.count(f"ADDED {namespace}/a") == 1
    assert client.lists() == 1


def test_a_sink_may_end_the_run(client: RecordingClient, namespace: str) -> None:
    """Lost leadership is no failure to recover from."""
    sink = Recorder()

    def lose() -> None:
        raise LeaseLost("another leads")

    sink.on_page = lose
    client.create(config_map(namespace, "a"))
    with pytest.raises(LeaseLost):
        Reflector(config_maps(client, namespace), sink).run(threading.Event())


@pytest.mark.conformance("RF-19")
def test_stops_at_once_in_an_idle_watch(client: RecordingClient, namespace: str) -> None:
    """Stopping does not wait for the next event or bookmark."""
    sink = Recorder()
    with running(config_maps(client, namespace), sink):
        eventually(sink.noted("connected"))
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert not [thread for thread in threading.enumerate() if namespace in thread.name]
