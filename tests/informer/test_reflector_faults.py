"""A Reflector outlives what networks, proxies and API servers do to it, and asks no more than needed."""

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from distq.informer import listwatch as listwatch_module
from distq.informer import reflector as reflector_module
from distq.informer.listwatch import ListWatch
from distq.testing import EmulatedApiServer
from distq.testing.fake_clock import FakeClock
from tests.client.samples import config_map
from tests.controller.eventually import eventually
from tests.fixtures.tcp_proxy import Mode, TcpProxy
from tests.informer.faulty_proxy import Answer, FaultyProxy
from tests.informer.recording import CONFIG_MAPS, Recorder, RecordingClient, running


@pytest.fixture
def emulator() -> Iterator[EmulatedApiServer]:
    """Give an API server of the test's own that sends bookmarks often."""
    with EmulatedApiServer(bookmark_period=0.1) as server:
        yield server


@pytest.fixture
def faulty(emulator: EmulatedApiServer) -> Iterator[FaultyProxy]:
    """Give a proxy before it that fails as told."""
    with FaultyProxy(emulator.url) as proxy:
        yield proxy


@pytest.fixture
def behind(emulator: EmulatedApiServer, faulty: FaultyProxy, tmp_path: Path) -> RecordingClient:
    """Give a Client that reaches the emulator through the faulty proxy."""
    kubeconfig = emulator.kubeconfig(tmp_path / "faulty", server=f"http://127.0.0.1:{faulty.port}")
    return RecordingClient(kubeconfig)


@pytest.fixture
def direct(emulator: EmulatedApiServer, tmp_path: Path) -> RecordingClient:
    """Give a Client past the proxy."""
    return RecordingClient(emulator.kubeconfig(tmp_path / "direct"))


def ok(*lines: bytes) -> Answer:
    """Return a stream of these bytes that ends in good order."""
    return 200, {"Content-Type": "application/json"}, b"".join(lines)


def refusal(status: int, **headers: str) -> Answer:
    """Return a Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": "no"}
    return status, {"Content-Type": "application/json", **headers}, json.dumps(body).encode()


def is_watch(path: str) -> bool:
    """Return whether a request is a watch."""
    return "watch=true" in path


@pytest.mark.parametrize("mode", ["reset", "refuse"])
def test_a_broken_connection_is_replaced_and_nothing_is_lost(
    client: RecordingClient, proxied: RecordingClient, proxy: TcpProxy, namespace: str, mode: Mode
) -> None:
    """What happens while nothing can be reached comes as soon as it can be, once."""
    sink = Recorder()
    with running(ListWatch(proxied, CONFIG_MAPS, namespace=namespace), sink):
        eventually(sink.heard("connected"))
        proxy.mode = mode
        client.create(config_map(namespace, "a"))
        client.delete(CONFIG_MAPS, f"{namespace}/a")
        client.create(config_map(namespace, "b"))
        proxy.mode = "pass"
        eventually(sink.heard(f"ADDED {namespace}/b"))
    events = [one for one in sink.told if one not in {"connected", "BOOKMARK"}]
    assert events == [
        *("begin", "end", f"ADDED {namespace}/a", f"DELETED {namespace}/a", f"ADDED {namespace}/b")
    ]
    assert proxied.lists() == 1


def test_a_silent_connection_is_given_up(
    client: RecordingClient,
    proxied: RecordingClient,
    proxy: TcpProxy,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A half-open connection would be watched for ever; silence past the read timeout ends it."""
    monkeypatch.setattr(listwatch_module, "READ_TIMEOUT", 1.0)
    sink = Recorder()
    with running(ListWatch(proxied, CONFIG_MAPS, namespace=namespace), sink):
        eventually(sink.heard("connected"))
        proxy.mode = "hang"
        client.create(config_map(namespace, "a"))
        accepted = proxy.accepted
        eventually(lambda: proxy.accepted > accepted)
        proxy.mode = "pass"
        eventually(sink.heard(f"ADDED {namespace}/a"))


@pytest.mark.conformance("RF-15", "DF-13")
def test_bookmarks_move_the_position(emulator: EmulatedApiServer, direct: RecordingClient) -> None:
    """A quiet resource's position follows the cluster."""
    sink = Recorder()
    with running(ListWatch(direct, CONFIG_MAPS, namespace="quiet"), sink):
        eventually(sink.heard("connected"))
        listed_at = sink.version
        for number in range(3):
            direct.create(config_map("default", f"elsewhere-{number}"))
        eventually(lambda: "BOOKMARK" in sink.told and sink.version != listed_at)
    assert not sink.objects


@pytest.mark.parametrize(
    "garbage",
    [
        b'{"type":"ADDED","object":{"metadata":{"na',
        b"<html>gateway</html>",
        b'{"type":"ADDED","object":{"metadata":{"name":"nothing"}}}',
        b'{"type":"MODIFIED"}',
    ],
)
def test_garbage_ends_the_connection_not_the_watch(
    behind: RecordingClient, direct: RecordingClient, faulty: FaultyProxy, garbage: bytes
) -> None:
    """The next connection resumes after the last good line: what the bad one stood for is not lost."""
    garbled: list[str] = []

    def fault(path: str) -> Answer | None:
        if not is_watch(path) or garbled:
            return None
        garbled.append(path)
        lines = [
            json.dumps({"type": "ADDED", "object": direct.create(config_map("default", name))}).encode()
            for name in ("good", "lost", "later")
        ]
        return ok(lines[0], b"\n", garbage, b"\n", lines[2], b"\n")

    faulty.fault = fault
    sink = Recorder()
    with running(ListWatch(behind, CONFIG_MAPS, namespace="default"), sink):
        eventually(sink.heard("ADDED default/later"))
    events = [told for told in sink.told if told.startswith("ADDED")]
    assert events == ["ADDED default/good", "ADDED default/lost", "ADDED default/later"]
    assert behind.lists() == 1


@pytest.mark.conformance("RF-12")
def test_an_error_event_is_the_error_that_it_tells(behind: RecordingClient, faulty: FaultyProxy) -> None:
    """An ERROR event of any other code than 410 costs a new watch, no list."""
    told: list[str] = []

    def fault(path: str) -> Answer | None:
        if not is_watch(path) or told:
            return None
        told.append(path)
        status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd is away"}
        return ok(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")

    faulty.fault = fault
    sink = Recorder()
    with running(ListWatch(behind, CONFIG_MAPS), sink):
        eventually(lambda: behind.watches() == 2)
    assert "expired" not in sink.told
    assert behind.lists() == 1


@pytest.mark.conformance("RF-11")
def test_patience_is_given_when_asked_for(behind: RecordingClient, faulty: FaultyProxy) -> None:
    """A 429 is not repeated before its Retry-After is over."""
    asked: list[float] = []

    def fault(path: str) -> Answer | None:
        if not is_watch(path):
            return None
        asked.append(time.monotonic())
        return refusal(429, **{"Retry-After": "1"}) if len(asked) < 3 else None

    faulty.fault = fault
    sink = Recorder()
    with running(ListWatch(behind, CONFIG_MAPS), sink):
        eventually(sink.heard("connected"))
    assert all(later - earlier >= 0.99 for earlier, later in pairwise(asked))


@pytest.mark.conformance("RF-01")
def test_back_off_ends_when_the_server_answers_again(
    emulator: EmulatedApiServer, behind: RecordingClient, direct: RecordingClient, faulty: FaultyProxy
) -> None:
    """However long the outage was, the server's return is noticed within a probe's interval."""
    clock, sink = FakeClock(), Recorder()
    with running(ListWatch(behind, CONFIG_MAPS, namespace="default"), sink, clock):
        eventually(sink.heard("connected"))
        down_at = len(behind.asked)
        faulty.fault = lambda _: refusal(500)
        emulator.restart_watches()
        while len(behind.asked) - down_at < 20:
            eventually(lambda: clock.waiters() == 1)
            clock.step(0.25)
        assert set(behind.asked[down_at:]) == {"version"}, "more than the cheapest question was asked"
        eventually(lambda: clock.waiters() == 1)
        faulty.fault = lambda _: None
        direct.create(config_map("default", "a"))
        for _ in range(5):  # a probe interval, where the back-off is 30 s by now
            eventually(lambda: clock.waiters() == 1 or "default/a" in sink.objects)
            clock.step(0.25)
        eventually(lambda: "default/a" in sink.objects)


@pytest.mark.conformance("RF-14")
def test_a_watch_that_always_ends_is_opened_ever_less(behind: RecordingClient, faulty: FaultyProxy) -> None:
    """Empty streams are backed off from, 0.8 s doubling to 30 s, without lists."""
    faulty.fault = lambda path: ok() if is_watch(path) else None
    clock, sink = FakeClock(), Recorder()
    with running(ListWatch(behind, CONFIG_MAPS), sink, clock):
        eventually(lambda: behind.watches() == 1)
        for _ in range(600):  # five minutes
            eventually(lambda: clock.waiters() == 1)
            clock.step(0.5)
        assert behind.watches() <= 16
        assert behind.lists() == 1
        clock.step(60)


@pytest.mark.conformance("RF-07")
def test_an_expired_token_restarts_the_list(
    emulator: EmulatedApiServer, direct: RecordingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of different versions make no list: the sink gets a new one from the beginning."""
    monkeypatch.setattr(reflector_module, "PAGE_SIZE", 2)
    for number in range(5):
        direct.create(config_map("default", f"map-{number}"))
    sink = Recorder()

    def expire() -> None:
        if sink.told.count("begin") == 1:
            direct.delete(CONFIG_MAPS, "default/map-4")
            emulator.compact()

    sink.on_page = expire
    with running(ListWatch(direct, CONFIG_MAPS, namespace="default"), sink):
        eventually(sink.heard("connected"))
    assert sink.told[:3] == ["begin", "begin", "end"]
    assert sink.listed() == {f"default/map-{number}" for number in range(4)}


@pytest.mark.conformance("RF-06")
def test_pages_of_different_versions_make_no_list(
    direct: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of another version than the first voids the list."""
    monkeypatch.setattr(reflector_module, "PAGE_SIZE", 2)
    for number in range(3):
        direct.create(config_map("default", f"map-{number}"))
    strayed: list[str] = []

    def fault(path: str) -> Answer | None:
        if "continue=" not in path or strayed:
            return None
        strayed.append(path)
        return ok(b'{"metadata":{"resourceVersion":"99999"},"items":null}')

    faulty.fault = fault
    sink = Recorder()
    with running(ListWatch(behind, CONFIG_MAPS, namespace="default"), sink):
        eventually(sink.heard("connected"))
    assert sink.told[:3] == ["begin", "begin", "end"]
    assert sink.listed() == {f"default/map-{number}" for number in range(3)}


@pytest.mark.conformance("RF-04")
def test_a_410_on_a_list_starts_it_over(behind: RecordingClient, faulty: FaultyProxy) -> None:
    """A list refused as too old is made again, after a while."""
    refused: list[str] = []

    def fault(path: str) -> Answer | None:
        if "limit=500" not in path or refused:
            return None
        refused.append(path)
        return refusal(410)

    faulty.fault = fault
    sink = Recorder()
    with running(ListWatch(behind, CONFIG_MAPS), sink):
        eventually(sink.heard("end", "connected"))
    assert refused
