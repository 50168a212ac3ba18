"""A list as the beginning of a watch (KEP-3157), and what happens where there is none."""

import threading

import pytest

from distq.errors import ApiError, TooManyRequests
from distq.informer import SharedInformer, strip_managed_fields
from distq.informer.listwatch import ListWatch
from distq.informer.wire import ENDS_LIST
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import Notes, pod, step_until
from tests.support.eventually import eventually
from tests.support.recording import CONFIG_MAPS, Recorder, RecordingClient, running
from tests.support.samples import config_map


@pytest.mark.conformance("RF-09")
@pytest.mark.parametrize("metadata_only", [False, True])
def test_a_streamed_list_goes_on_as_the_watch(
    client: RecordingClient, namespace: str, metadata_only: bool
) -> None:
    """One connection; the objects come in the order of their keys, then the changes."""
    for number in range(7):
        client.create(config_map(namespace, f"map-{number}"))
    client.asked.clear()
    sink = Recorder()
    list_watch = ListWatch(client, CONFIG_MAPS, namespace=namespace, metadata_only=metadata_only)
    with running(list_watch, sink, stream_lists=True):
        eventually(sink.noted("end", "connected"))
        client.create(config_map(namespace, "late"))
        eventually(sink.noted(f"ADDED {namespace}/late"))
    listed = [key for page in sink.pages for key in page]
    assert listed == [f"{namespace}/map-{number}" for number in range(7)]
    assert client.asked == ["version", "stream"]


@pytest.mark.conformance("RF-09", "RF-13")
def test_after_a_streamed_list_a_closed_watch_resumes_without_another(source: FakeListWatch) -> None:
    """From the version of the last event."""
    source.add(pod("a"))
    sink = Recorder()
    with running(source, sink, FakeClock(), stream_lists=True):
        eventually(sink.noted("end", "connected"))
        source.add(pod("b"))
        eventually(sink.noted("ADDED prod/b"))
        source.break_watches()
        source.add(pod("c"))
        eventually(sink.noted("ADDED prod/c"))
    assert [asked for asked in source.asked if asked != "version"] == ["stream", "watch 2"]


@pytest.fixture
def source() -> FakeListWatch:
    """Give a resource without an API server."""
    return FakeListWatch()


class Halting(FakeListWatch):
    """A resource whose streamed lists have no end until the test says so."""

    def _listed(self):  # type: ignore[no-untyped-def]
        return list(super()._listed())[:-1]


def _ends(version: int) -> bytes:
    return (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"%s":"true"}}}}'
        % (version, ENDS_LIST.encode())
    )


@pytest.mark.conformance("RF-09")
def test_changes_before_a_streamed_list_ends_belong_to_it() -> None:
    """A change and a deletion; only the marked bookmark ends it."""
    source = Halting()
    for name in ("a", "b", "c"):
        source.add(pod(name))
    informer, notes = SharedInformer(source), Notes()
    handler = informer.add_event_handler(notes)
    stop = threading.Event()
    thread = threading.Thread(target=informer.run, args=(stop,))
    thread.start()
    eventually(lambda: "stream" in source.asked)
    source.modify(pod("a"))
    source.delete(pod("b"))
    source.bookmark()
    assert not informer.has_synced()
    source.send(_ends(6))
    eventually(handler.has_synced)
    source.add(pod("d"))
    notes.gets("add a@4 first", "add c@3 first", "add d@7")
    stop.set()
    thread.join(10)


@pytest.mark.conformance("RF-10")
def test_an_api_server_without_streamed_lists_is_asked_for_pages(source: FakeListWatch) -> None:
    """Within the same attempt, and so each time."""
    source.streams_lists = False
    source.add(pod("a"))
    sink = Recorder()
    clock = FakeClock()
    with running(source, sink, clock, stream_lists=True):
        eventually(sink.noted("end", "connected"))
        source.unreachable = True
        source.break_watches()
        source.add(pod("b"))
        source.compact()
        source.unreachable = False
        step_until(
            clock,
            lambda: sink.listed() == {"prod/a", "prod/b"} and source.asked[-1] == "watch 2",
        )
    asked = [asked for asked in source.asked if asked != "version"]
    assert asked[:3] == ["stream", "list", "watch 1"]
    assert asked[-3:] == ["stream", "list", "watch 2"]


@pytest.mark.conformance("RF-10", "RF-11")
@pytest.mark.parametrize(
    "failure", [TooManyRequests("busy", retry_after=3.0), ApiError("connection refused")], ids=["429", "none"]
)
def test_a_streamed_list_that_may_work_later_is_asked_for_again(
    source: FakeListWatch, failure: ApiError
) -> None:
    """After a pause; pages would not help."""
    clock, sink = FakeClock(), Recorder()
    source.add(pod("a"))
    real_watch = source.watch
    failures: list[ApiError] = [failure]

    def watch(version: str, *, stream_list: bool = False, brief: bool = False):  # type: ignore[no-untyped-def]
        if failures:
            source.asked.append("refused")
            raise failures.pop()
        return real_watch(version, stream_list=stream_list)

    source.watch = watch  # type: ignore[method-assign]
    with running(source, sink, clock, stream_lists=True):
        step_until(clock, sink.noted("end", "connected"))
    assert [asked for asked in source.asked if asked != "version"] == ["refused", "stream"]


@pytest.mark.conformance("RF-10")
def test_a_streamed_list_that_breaks_off_begins_anew() -> None:
    """What it had delivered is void."""
    source, clock, sink = Halting(), FakeClock(), Recorder()
    source.add(pod("a"))
    with running(source, sink, clock, stream_lists=True):
        eventually(lambda: sink.listed() == {"prod/a"})
        source.delete(pod("a"))
        source.add(pod("b"))
        source.break_watches()
        step_until(
            clock,
            lambda: source.asked.count("stream") == 2 and sink.listed() == {"prod/b"},
        )
        source.send(_ends(3))
        eventually(sink.noted("end", "connected"))
    assert sink.notes.count("begin") == 2
    assert sink.version == "3"


def pause_before_another_list(source: FakeListWatch, clock: FakeClock) -> float:
    """Let time pass until a second list is asked for; return how much."""
    began = clock.monotonic()

    def asked_again() -> bool:
        if source.asked.count("stream") == 2:
            return True
        clock.step(0.05)
        return False

    eventually(asked_again)
    return clock.monotonic() - began


def test_a_streamed_list_that_breaks_off_late_is_not_asked_for_at_once() -> None:
    """It took long and led nowhere; whole lists one after another would keep an API server busy."""
    source, clock, sink = Halting(), FakeClock(), Recorder()
    source.add(pod("a"))
    with running(source, sink, clock, stream_lists=True):
        eventually(lambda: sink.listed() == {"prod/a"})
        clock.step(100)
        source.break_watches()
        assert pause_before_another_list(source, clock) > 0.7


def test_a_streamed_list_that_has_expired_when_it_ends_is_not_asked_for_at_once() -> None:
    """As one in pages: whole lists one after another would keep an API server busy."""
    source, clock, sink = Halting(), FakeClock(), Recorder()
    source.add(pod("a"))
    with running(source, sink, clock, stream_lists=True):
        eventually(lambda: sink.listed() == {"prod/a"})
        source.send(_ends(1))
        source.send(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}')
        assert pause_before_another_list(source, clock) > 0.7


def test_an_informer_caches_the_objects_that_a_real_list_streams(
    client: RecordingClient, namespace: str
) -> None:
    """Without managedFields, with the kind, and by its handlers' account, too."""
    for number in range(5):
        client.create(config_map(namespace, f"map-{number}", color="red"))
    client.asked.clear()
    list_watch = ListWatch(client, CONFIG_MAPS, namespace=namespace)
    informer, notes = SharedInformer(list_watch, transform=strip_managed_fields), Notes()
    handler = informer.add_event_handler(notes)
    stop = threading.Event()
    thread = threading.Thread(target=informer.run, args=(stop,))
    thread.start()
    eventually(handler.has_synced)
    client.delete(CONFIG_MAPS, f"{namespace}/map-0")
    eventually(lambda: notes.calls[-1].startswith("delete map-0"))
    kept = informer.lister.get(f"{namespace}/map-1")
    stop.set()
    thread.join(10)
    fresh = client.get(CONFIG_MAPS, f"{namespace}/map-1")
    assert fresh is not None
    fresh["metadata"].pop("managedFields", None)
    assert kept == fresh
    assert len(informer.lister.list(namespace)) == 4
    assert client.asked == ["version", "stream"]
