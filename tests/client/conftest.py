"""What the client's tests share: a Client, ConfigMaps, a custom resource, and a proxy in between."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.client import Client
from tests.client.recording_client import RecordingClient
from tests.support.api_servers import ApiServer, kubeconfig_through
from tests.support.samples import custom_resource, wait_until_served
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
def client(api_server: ApiServer) -> Client:
    """Give a Client of an administrator."""
    return api_server.client()


@pytest.fixture
def recording(api_server: ApiServer) -> RecordingClient:
    """Give a Client of an administrator that notes its requests."""
    return RecordingClient(api_server.kubeconfig)


@pytest.fixture
def proxied(api_server: ApiServer, proxy: TcpProxy, tmp_path: Path) -> Client:
    """Give a Client that reaches the API server through ``proxy`` only."""
    return Client(kubeconfig_through(api_server, proxy.port, tmp_path / "kubeconfig"), timeout=2.0)


@pytest.fixture
def widgets(client: Client, namespace: str) -> Iterator[str]:
    """Give the text of a custom resource with a status; it goes with the test."""
    group = f"{namespace}.example.com"
    definition = custom_resource(group)
    client.create(definition)
    resource = f"{group}/v1/Widget"
    wait_until_served(client, resource)
    yield resource
    client.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", definition["metadata"]["name"])
