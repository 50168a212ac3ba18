"""A Reflector outlives what proxies and API servers do to its lists: they end whole, or begin anew."""

import pytest

from distq.client import Client
from distq.errors import ApiError, Expired
from distq.informer import pager as pager_module
from distq.informer.listwatch import ListWatch
from distq.testing.fake_clock import FakeClock
from tests.informer.faulty_proxy import Answer, FaultyProxy, ok, once, refusal
from tests.informer.pods import stepping
from tests.support.api_servers import ApiServer, EmulatedServer, RealApiServer
from tests.support.eventually import eventually
from tests.support.recording import (
    CONFIG_MAPS,
    DEFINITIONS,
    Recorder,
    RecordingClient,
    change_schema,
    running,
)
from tests.support.samples import config_map


def compact(api_server: ApiServer, client: Client, definition: str) -> None:
    """Make the API server forget what a custom resource's versions before now were.

    The real one answers from its cache what etcd forgot, unless a change of the schema takes that away.
    """
    if isinstance(api_server, EmulatedServer):
        api_server.emulator.compact()
        return
    assert isinstance(api_server, RealApiServer)
    change_schema(client, definition)
    changed = client.get(DEFINITIONS, definition)
    assert changed is not None
    api_server.compact(changed["metadata"]["resourceVersion"])


def expires(pages: ListWatch, token: str) -> bool:
    """Return whether a continue token is refused as too old."""
    try:
        pages.page(token, limit=2)
    except Expired:
        return True
    except ApiError:  # the resource is being restarted
        return False
    return False


@pytest.fixture
def pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lists have two objects a page."""
    monkeypatch.setattr(pager_module, "PAGE_SIZE", 2)


def create_maps(client: RecordingClient, namespace: str, count: int) -> set[str]:
    """Create ConfigMaps and return their keys."""
    for number in range(count):
        client.create(config_map(namespace, f"map-{number}"))
    return {f"{namespace}/map-{number}" for number in range(count)}


@pytest.mark.usefixtures("pages_of_two")
@pytest.mark.conformance("RF-07")
def test_an_expired_token_restarts_the_list(
    api_server: ApiServer, client: RecordingClient, namespace: str, widgets: str
) -> None:
    """Pages of different versions make no list: the sink gets a new one, in fewer pages."""
    api_version, _, kind = widgets.rpartition("/")
    for number in range(5):
        obj = config_map(namespace, f"map-{number}")
        client.create({**obj, "apiVersion": api_version, "kind": kind})
    pages = ListWatch(api_server.client(), widgets, namespace=namespace)
    token = pages.page(limit=2).next_token
    sink = Recorder()

    def expire() -> None:
        if sink.notes.count("begin") == 1:
            client.delete(widgets, f"{namespace}/map-4")
            compact(api_server, client, f"widgets.{namespace}.example.com")
            eventually(lambda: expires(pages, token))

    sink.on_page = expire
    with running(ListWatch(client, widgets, namespace=namespace), sink):
        eventually(sink.noted("connected"))
    assert sink.notes[:3] == ["begin", "begin", "end"]
    assert sink.pages == [[f"{namespace}/map-{number}" for number in range(4)]]
    assert client.lists() == 3


@pytest.mark.usefixtures("pages_of_two")
@pytest.mark.conformance("RF-06")
def test_pages_of_different_versions_make_no_list(
    client: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """A page of another version than the first voids the list."""
    keys = create_maps(client, namespace, 3)
    stray = ok(b'{"metadata":{"resourceVersion":"1"},"items":null}')
    faulty.fault = once(lambda path: "continue=" in path, lambda: stray)
    sink = Recorder()
    with running(ListWatch(behind, CONFIG_MAPS, namespace=namespace), sink):
        eventually(sink.noted("connected"))
    assert sink.notes[:3] == ["begin", "begin", "end"]
    assert sink.listed() == keys


@pytest.mark.conformance("RF-04", "RF-11")
@pytest.mark.parametrize(
    "answer",
    [
        refusal(410),
        refusal(429, **{"Retry-After": "3"}),
        refusal(500),
        ok(b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"na'),
        ok(b"<html>gateway</html>"),
        ok(),
    ],
    ids=["410", "429", "500", "truncated", "garbage", "nothing"],
)
def test_a_list_that_fails_is_made_again_after_a_while(
    client: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, namespace: str, answer: Answer
) -> None:
    """After any failure; the sink gets a whole one."""
    client.create(config_map(namespace, "a"))
    faulty.fault = once(lambda path: "limit=50" in path, lambda: answer)
    clock, sink = FakeClock(), Recorder()
    with running(ListWatch(behind, CONFIG_MAPS, namespace=namespace), sink, clock):
        eventually(lambda: clock.waiters() == 1)
        assert sink.notes == (["begin", "expired"] if answer[0] == 410 else ["begin"])
        assert behind.lists() == 1
        eventually(stepping(clock, sink.noted("end", "connected")))
    assert sink.pages == [[f"{namespace}/a"]]
    assert behind.lists() == 2


@pytest.mark.usefixtures("pages_of_two")
@pytest.mark.conformance("RF-11")
def test_a_list_goes_on_after_the_delay_that_the_api_server_asked_for(
    client: RecordingClient, behind: RecordingClient, faulty: FaultyProxy, namespace: str
) -> None:
    """A 429 in mid-list costs the pause that it asks for and no page twice: long lists must end, too."""
    keys = create_maps(client, namespace, 9)
    asked: list[str] = []

    def fault(path: str) -> Answer | None:
        asked.extend([path] if "continue=" in path else [])
        return refusal(429, **{"Retry-After": "3"}) if "continue=" in path and len(asked) % 2 else None

    faulty.fault = fault
    clock, sink = FakeClock(), Recorder()
    with running(ListWatch(behind, CONFIG_MAPS, namespace=namespace), sink, clock):
        eventually(lambda: clock.waiters() == 1)
        assert len(asked) == 1
        eventually(stepping(clock, sink.noted("end", "connected")))
    assert clock.monotonic() >= 12
    assert sink.notes[:2] == ["begin", "end"]
    assert sink.listed() == keys
