"""The typed API of the ``kubernetes`` package over a Client, which keeps its server, TLS and credentials."""

from pathlib import Path

import kubernetes
import pytest
from kubernetes import client as typed  # whose classes load when they are used

from distq.client import Client
from distq.errors import ApiError, ConfigError
from tests.client.recording_client import RecordingClient
from tests.support.api_servers import ApiServer, EmulatedServer, kubeconfig_through
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy


def test_typed_calls_reach_the_clients_cluster(client: Client, namespace: str) -> None:
    """Models are written, read, patched, listed and deleted where the Client reads dicts."""
    core = typed.CoreV1Api(client.api_client())
    about = typed.V1ObjectMeta(name="web", labels={"color": "red"})
    core.create_namespaced_config_map(namespace, typed.V1ConfigMap(metadata=about, data={"size": "1"}))
    core.patch_namespaced_config_map("web", namespace, {"data": {"size": "2"}})
    found = client.get("v1/ConfigMap", f"{namespace}/web")
    assert found is not None
    assert found["data"] == {"size": "2"}
    [listed] = core.list_namespaced_config_map(namespace, label_selector="color=red").items
    assert listed.data == {"size": "2"}
    core.delete_namespaced_config_map("web", namespace)
    assert client.get("v1/ConfigMap", f"{namespace}/web") is None


def test_a_refusal_is_the_packages_own(client: Client, namespace: str) -> None:
    """Code that was written for the package catches what it always caught."""
    with pytest.raises(typed.ApiException) as caught:
        typed.CoreV1Api(client.api_client()).read_namespaced_config_map("absent", namespace)
    assert caught.value.status == 404
    assert "absent" in caught.value.body


def test_a_typed_watch_lasts_as_long_as_it_is_asked_to(
    api_server: ApiServer, client: Client, namespace: str
) -> None:
    """The Client's timeout bounds answers, and not how long a watch may be quiet."""
    core = typed.CoreV1Api(Client(api_server.kubeconfig, timeout=1.0).api_client())
    client.create(config_map(namespace, "web"))
    events = kubernetes.watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=2)
    assert [(event["type"], event["object"].metadata.name) for event in events] == [("ADDED", "web")]


def test_the_dynamic_client_takes_it_too(client: Client, namespace: str) -> None:
    """The other parts of the package that take an ApiClient work."""
    dynamic = kubernetes.dynamic.DynamicClient(client.api_client())
    config_maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    config_maps.create(body=config_map(namespace, "web", color="red"), namespace=namespace)
    found = client.get("v1/ConfigMap", f"{namespace}/web")
    assert found is not None
    assert found["data"] == {"color": "red"}


def test_closing_it_leaves_the_clients_connections(client: Client) -> None:
    """Both go on after the package closed what it believes to be its pool."""
    with client.api_client() as api_client:
        core = typed.CoreV1Api(api_client)
        core.read_namespace("default")
    assert core.read_namespace("default").metadata.name == "default"
    assert client.get("v1/Namespace", "default")


def test_it_needs_no_cluster_until_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module makes its typed API where it makes its Client: at the top, also where no cluster is."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    core = typed.CoreV1Api(Client().api_client())
    with pytest.raises(ConfigError, match="absent does not exist"):
        core.read_namespace("default")


def test_it_follows_the_client_to_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in tests: each sandbox sets KUBECONFIG, and a client made at import uses the one of the moment."""
    client = Client()
    core = typed.CoreV1Api(client.api_client())
    for name in ("first", "second"):
        with EmulatedServer() as server:
            monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
            client.create(config_map("default", name))
            [found] = core.list_namespaced_config_map("default").items
            assert found.metadata.name == name


def test_a_missing_answer_gets_the_error_of_the_client(proxied: Client, proxy: TcpProxy) -> None:
    """A server that is silent for the Client's timeout is an ApiError of status 0, and not a hang."""
    core = typed.CoreV1Api(proxied.api_client())
    assert core.read_namespace("default")
    proxy.mode = "hang"
    with pytest.raises(ApiError, match=r"no answer from 127\.0\.0\.1") as caught:
        core.read_namespace("default")
    assert caught.value.status == 0
    proxy.mode = "pass"
    assert core.read_namespace("default")


def test_a_call_that_says_it_is_no_watch_is_none(proxied: Client, proxy: TcpProxy) -> None:
    """``watch=False`` and ``follow=False`` are bounded as calls without them are."""
    core = typed.CoreV1Api(proxied.api_client())
    proxy.mode = "hang"
    with pytest.raises(ApiError, match="silence for too long"):
        core.list_namespaced_pod("default", watch=False)
    with pytest.raises(ApiError, match="silence for too long"):
        core.read_namespaced_pod_log("web", "default", follow=False)


def test_a_calls_own_timeout_counts(api_server: ApiServer, proxy: TcpProxy, tmp_path: Path) -> None:
    """The package's ``_request_timeout`` goes before the Client's."""
    kubeconfig = kubeconfig_through(api_server, proxy.port, tmp_path / "kubeconfig")
    core = typed.CoreV1Api(Client(kubeconfig, timeout=600.0).api_client())
    proxy.mode = "hang"
    with pytest.raises(ApiError, match="no answer"):
        core.read_namespace("default", _request_timeout=(1, 1))


def test_another_server_is_refused(api_server: ApiServer) -> None:
    """The Client's credentials go to the Client's server alone."""
    client = RecordingClient(api_server.kubeconfig)
    with pytest.raises(ConfigError, match=r"cannot ask http://elsewhere/api: this is an ApiClient of"):
        client.api_client().rest_client.request("GET", "http://elsewhere/api")
