"""A Reflector outlives what networks, proxies and API servers do to its watches, and asks little."""

import json
from itertools import pairwise

import pytest

from distq.informer import listwatch as listwatch_module
from distq.informer.listwatch import ListWatch
from distq.testing.fake_clock import FakeClock
from tests.informer.faulty_proxy import Answer, FaultyProxy, is_watch, ok, once, refusal
from tests.informer.pods import stepping
from tests.support.eventually import eventually
from tests.support.recording import CONFIG_MAPS, Recorder, RecordingClient, running
from tests.support.samples import config_map
from tests.support.tcp_proxy import Mode, TcpProxy


def config_maps(client: RecordingClient, namespace: str) -> ListWatch:
    """Return the list and watch of a namespace's ConfigMaps."""
    return ListWatch(client, CONFIG_MAPS, namespace=namespace)


@pytest.mark.parametrize("mode", ["reset", "refuse"])
def test_a_broken_connection_is_replaced_and_nothing_is_lost(
    client: RecordingClient, proxied: RecordingClient, proxy: TcpProxy, namespace: str, mode: Mode
) -> None:
    """Changes during the interruption come as soon as the server can be reached, once."""
    clock, sink = FakeClock(), Recorder()
    with running(config_maps(proxied, namespace), sink, clock):
        eventually(sink.noted("connected"))
        proxy.mode = mode
        client.create(config_map(namespace, "a"))
        client.delete(CONFIG_MAPS, f"{namespace}/a")
        client.create(config_map(namespace, "b"))
        proxy.mode = "pass"
        eventually(stepping(clock, sink.noted(f"ADDED {namespace}/b")))
    events = [one for one in sink.notes if one not in {"connected", "BOOKMARK"}]
    assert events == [
        *("begin", "end", f"ADDED {namespace}/a", f"DELETED {namespace}/a", f"ADDED {namespace}/b")
    ]
    assert proxied.lists() == 1


@pytest.fixture
def short_read_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let silence end a watch after a second."""
    monkeypatch.setattr(listwatch_module, "READ_TIMEOUT", 1.0)


@pytest.mark.usefixtures("short_read_timeout")
def test_a_silent_connection_is_given_up(
    client: RecordingClient, proxied: RecordingClient, proxy: TcpProxy, namespace: str
) -> None:
    """A half-open connection would be watched for ever; silence past the read timeout ends it."""
    sink = Recorder()
    with running(config_maps(proxied, namespace), sink):
        eventually(sink.noted("connected"))
        proxy.mode = "hang"
        client.create(config_map(namespace, "a"))
        accepted = proxy.accepted
        eventually(lambda: proxy.accepted > accepted)
        proxy.mode = "pass"
        eventually(sink.noted(f"ADDED {namespace}/a"))


@pytest.mark.usefixtures("short_read_timeout")
@pytest.mark.parametrize("mode", ["reset", "hang"])
def test_an_event_that_breaks_off_in_the_middle_is_delivered_once_and_whole(
    client: RecordingClient, proxied: RecordingClient, proxy: TcpProxy, namespace: str, mode: Mode
) -> None:
    """Its first half leads nowhere, whether the connection breaks after it or falls silent."""
    clock, sink = FakeClock(), Recorder()
    with running(config_maps(proxied, namespace), sink, clock):
        eventually(sink.noted("connected"))
        proxy.turn(mode, after=100_000)
        accepted = proxy.accepted
        client.create(config_map(namespace, "a", text="x" * 400_000))
        eventually(lambda: proxy.mode == mode)
        eventually(stepping(clock, lambda: proxy.accepted > accepted))
        assert "ADDED" not in "".join(sink.notes)
        proxy.mode = "pass"
        eventually(stepping(clock, sink.noted(f"ADDED {namespace}/a")))
        client.create(config_map(namespace, "b"))
        eventually(sink.noted(f"ADDED {namespace}/b"))
    assert [one for one in sink.notes if " " in one] == [f"ADDED {namespace}/a", f"ADDED {namespace}/b"]
    assert len(sink.objects[f"{namespace}/a"].decode()["data"]["text"]) == 400_000
    assert proxied.lists() == 1


@pytest.mark.conformance("RF-15", "DF-13")
def test_bookmarks_move_the_position(
    client: RecordingClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet resource's position follows the cluster, and the next watch begins there."""
    monkeypatch.setattr(listwatch_module, "LIFETIME", (3, 3))  # a bookmark comes shortly before the end
    sink = Recorder()
    quiet = ListWatch(client, CONFIG_MAPS, namespace=namespace, label_selector="loud=false")
    with running(quiet, sink):
        eventually(sink.noted("connected"))
        listed_at = sink.version
        for number in range(3):
            client.create(config_map(namespace, f"elsewhere-{number}"))
        eventually(lambda: "BOOKMARK" in sink.notes and sink.version != listed_at)
        eventually(lambda: client.asked[-1].startswith("watch") and client.asked[-1] != f"watch {listed_at}")
    assert not sink.objects
    assert client.lists() == 1


@pytest.mark.parametrize(
    "rest",
    [
        b'{"type":"ADDED","object":{"metadata":{"na',
        b'{"type":"ADDED","object":{"metadata":{"na\n%b\n',
        b"<html>gateway</html>\n%b\n",
        b'{"type":"ADDED","object":{"metadata":{"name":"nothing"}}}\n%b\n',
        b'{"type":"MODIFIED"}\n%b\n',
    ],
    ids=["half-a-line", "truncated", "no-json", "no-version", "no-object"],
)
def test_garbage_ends_the_connection_not_the_watch(
    client: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, namespace: str, rest: bytes
) -> None:
    """The next connection resumes after the last good line: the event of the bad one is not lost."""

    def garbled() -> Answer:
        good, _, later = (
            json.dumps({"type": "ADDED", "object": client.create(config_map(namespace, name))}).encode()
            for name in ("good", "lost", "later")
        )
        return ok(good, b"\n", rest.replace(b"%b", later))

    faulty.fault = once(is_watch, garbled)
    sink = Recorder()
    with running(config_maps(behind, namespace), sink):
        eventually(sink.noted(f"ADDED {namespace}/later"))
    events = [note for note in sink.notes if note.startswith("ADDED")]
    assert events == [f"ADDED {namespace}/{name}" for name in ("good", "lost", "later")]
    assert behind.lists() == 1


INTERNAL_ERROR = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd is away"}}\n'


@pytest.mark.conformance("RF-12")
def test_an_error_event_is_the_error_of_its_status(
    behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """An ERROR event of any other code than 410 costs a new watch, no list."""
    faulty.fault = once(is_watch, lambda: ok(INTERNAL_ERROR))
    clock, sink = FakeClock(), Recorder()
    with running(config_maps(behind, namespace), sink, clock):
        eventually(stepping(clock, lambda: behind.watches() == 2))
    assert "expired" not in sink.notes
    assert behind.lists() == 1


@pytest.mark.conformance("RF-12", "RF-21")
@pytest.mark.parametrize("line", [INTERNAL_ERROR, b"<html>gateway</html>\n"], ids=["error", "no-json"])
def test_a_bad_line_that_comes_again_costs_a_list(
    client: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, namespace: str, line: bytes
) -> None:
    """Only a list shows what no watch from a position gets past, as a deletion of an unreadable object."""
    client.create(config_map(namespace, "a"))
    clock, sink = FakeClock(), Recorder()

    def fault(path: str) -> Answer | None:
        return ok(line) if is_watch(path) and behind.lists() < 2 else None

    faulty.fault = fault
    with running(config_maps(behind, namespace), sink, clock):
        eventually(sink.noted("end"))
        client.delete(CONFIG_MAPS, f"{namespace}/a")
        eventually(stepping(clock, lambda: sink.notes.count("connected") == 3))
        client.create(config_map(namespace, "b"))
        eventually(sink.noted(f"ADDED {namespace}/b"))
    assert behind.lists() == 2
    assert sink.notes.count("expired") == 1
    assert behind.watches() == 3


@pytest.mark.conformance("RF-12", "RF-14")
def test_bad_lines_that_come_late_do_not_make_lists_follow_each_other(
    behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """Each watch may last for long before its bad line: the lists that this costs are backed off from."""
    clock, sink = FakeClock(), Recorder()

    def fault(path: str) -> Answer | None:
        if not is_watch(path):
            return None
        clock.step(5)
        return ok(INTERNAL_ERROR)

    faulty.fault = fault
    with running(config_maps(behind, namespace), sink, clock):
        for _ in range(240):  # a minute of waiting
            eventually(lambda: clock.waiters() == 1)
            clock.step(0.25)
    assert 3 <= behind.lists() <= 9


@pytest.mark.conformance("RF-11")
def test_the_api_server_is_left_alone_for_as_long_as_it_asks(
    behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """A 429 is not repeated before its Retry-After is over."""
    clock, sink = FakeClock(), Recorder()
    asked: list[float] = []

    def fault(path: str) -> Answer | None:
        if not is_watch(path):
            return None
        asked.append(clock.monotonic())
        return refusal(429, **{"Retry-After": "7"}) if len(asked) < 3 else None

    faulty.fault = fault
    with running(config_maps(behind, namespace), sink, clock):
        eventually(stepping(clock, sink.noted("connected")))
    assert len(asked) == 3
    assert all(later - earlier >= 7 for earlier, later in pairwise(asked))


@pytest.mark.conformance("RF-01")
def test_back_off_ends_when_the_server_answers_again(
    client: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """Also after a long outage, the server's return is noticed within a probe's interval."""
    clock, sink = FakeClock(), Recorder()
    with running(config_maps(behind, namespace), sink, clock):
        eventually(sink.noted("connected"))
        down_at = len(behind.asked)
        faulty.fault = lambda _: refusal(500)
        faulty.end_streams()
        while len(behind.asked) - down_at < 20:
            eventually(lambda: clock.waiters() == 1)
            clock.step(0.25)
        assert set(behind.asked[down_at:]) == {"version"}, "more than the cheapest question was asked"
        eventually(lambda: clock.waiters() == 1)
        faulty.fault = lambda _: None
        client.create(config_map(namespace, "a"))
        for _ in range(5):  # a probe interval, where the back-off is 30 s by now
            eventually(lambda: clock.waiters() == 1 or f"{namespace}/a" in sink.objects)
            clock.step(0.25)
        eventually(lambda: f"{namespace}/a" in sink.objects)


@pytest.mark.conformance("RF-14")
def test_a_watch_that_always_ends_is_opened_ever_less(
    behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """Empty streams are backed off from, 0.8 s doubling to 30 s, without lists."""
    faulty.fault = lambda path: ok() if is_watch(path) else None
    clock, sink = FakeClock(), Recorder()
    with running(config_maps(behind, namespace), sink, clock):
        eventually(lambda: behind.watches() == 1)
        for _ in range(240):  # two minutes
            eventually(lambda: clock.waiters() == 1)
            clock.step(0.5)
        assert behind.watches() <= 10
        assert behind.lists() == 1
        clock.step(60)


def test_a_watch_that_is_refused_is_neither_silent_nor_loud(
    behind: RecordingClient, faulty: FaultyProxy, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A right that is missing is reported again and again, at growing intervals, and when it was granted."""
    clock, sink = FakeClock(), Recorder()
    faulty.fault = lambda path: refusal(403) if is_watch(path) else None
    with running(config_maps(behind, namespace), sink, clock):
        eventually(stepping(clock, lambda: clock.monotonic() > 300))
        reports = [text for text in caplog.messages if "Trying again" in text]
        assert 3 <= len(reports) <= 6
        assert all(text.startswith(f"v1/ConfigMap in {namespace}: GET /api/v1/") for text in reports)
        assert "it fails since" in reports[-1]
        faulty.fault = lambda _: None
        eventually(stepping(clock, lambda: any("works again after" in text for text in caplog.messages)))
    assert {record.levelname for record in caplog.records if "works again" in record.message} == {"WARNING"}
