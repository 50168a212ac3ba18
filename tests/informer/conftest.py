"""What the informer's tests share: Clients that note their requests, directly and through a proxy."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.client import recorder
from distq.informer import SharedInformer
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.faulty_proxy import FaultyProxy
from tests.informer.pods import Run, Start
from tests.support.api_servers import ApiServer, kubeconfig_through
from tests.support.eventually import eventually
from tests.support.recording import DEFINITIONS, RecordingClient
from tests.support.samples import custom_resource, wait_until_served
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
def client(api_server: ApiServer) -> RecordingClient:
    """Give a Client of an administrator that notes its lists and watches."""
    return RecordingClient(api_server.kubeconfig)


@pytest.fixture
def proxied(api_server: ApiServer, proxy: TcpProxy, tmp_path: Path) -> Iterator[RecordingClient]:
    """Give a Client that reaches the API server through ``proxy`` only."""
    yield RecordingClient(kubeconfig_through(api_server, proxy.port, tmp_path / "kubeconfig"))
    recorder.discard()  # whose events no server takes any more, and the end of the next test would wait for


@pytest.fixture
def faulty(api_server: ApiServer) -> Iterator[FaultyProxy]:
    """Give a proxy in front of the API server that gives answers of its own."""
    with FaultyProxy(api_server) as proxy:
        yield proxy


@pytest.fixture
def behind(api_server: ApiServer, faulty: FaultyProxy, tmp_path: Path) -> RecordingClient:
    """Give a Client that reaches the API server through ``faulty`` only."""
    return RecordingClient(kubeconfig_through(api_server, faulty.port, tmp_path / "behind", scheme="http"))


@pytest.fixture
def widgets(client: RecordingClient, namespace: str) -> Iterator[str]:
    """Give the text of a custom resource of the test's own, which goes with the test."""
    group = f"{namespace}.example.com"
    definition = custom_resource(group)
    client.create(definition)
    wait_until_served(client, f"{group}/v1/Widget")
    client.asked.clear()
    yield f"{group}/v1/Widget"
    client.delete(DEFINITIONS, definition["metadata"]["name"])


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
def run(stop: threading.Event) -> Iterator[Run]:
    """Give a function that runs an informer until the test's end."""
    threads = []

    def begin(informer: SharedInformer, *, synced: bool = False) -> threading.Thread:
        thread = threading.Thread(target=informer.run, args=(stop,), daemon=True)
        thread.start()
        threads.append(thread)
        if synced:
            eventually(informer.has_synced)
        return thread

    yield begin
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
