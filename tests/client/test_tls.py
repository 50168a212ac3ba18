"""Certificates and proxies: what a kubeconfig or the environment puts between a client and its cluster."""

import base64
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from distq.client import Client
from distq.errors import ApiError
from tests.client.tls_server import Echo, Proxy, data_of, make_certificate, port_of, serving, tls_of
from tests.support.api_servers import write_kubeconfig
from tests.support.ports import free_port

TOKEN = {"token": "t"}
VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the certificates of a server, of one of another name, and of a client."""
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder, "server")
    make_certificate(folder, "elsewhere", hosts="DNS:api.example.com")
    make_certificate(folder, "client")
    return folder


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the URL of a proxy, in an environment that names none."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    Proxy.tunnels.clear()
    with serving(Proxy) as url:
        yield url


def client_of(
    folder: Path, server: str, cluster: Mapping[str, str] = {}, *, user: Mapping[str, str] = TOKEN
) -> Client:
    """Return a Client whose kubeconfig lies beside the certificates."""
    write_kubeconfig(folder / "kubeconfig", cluster={"server": server, **cluster}, user=dict(user))
    return Client(folder / "kubeconfig", timeout=10.0)


def require_proxy(client: Client, proxy: str) -> None:
    """Skip the test on a release of the package kubernetes that knows no proxies of this kind."""
    if client._connected().configuration.proxy != proxy:
        pytest.skip("this release of the package kubernetes does not look there for proxies")


@contextmanager
def behind_secure_proxy(folder: Path, api_server: type[Echo]) -> Iterator[tuple[Client, str]]:
    """Give a Client of a server with TLS, through a proxy with TLS; and the address of the server."""
    with (
        serving(api_server, tls_of(folder, "server")) as server,
        serving(Proxy, tls_of(folder, "server")) as proxy,
    ):
        client = client_of(folder, server, {"certificate-authority": "server.crt", "proxy-url": proxy})
        require_proxy(client, proxy)
        yield client, server


def test_files_beside_the_kubeconfig_are_found_from_anywhere(folder: Path) -> None:
    """A relative path is one from the kubeconfig's folder, as kubectl has it, not from the process's."""
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    with serving(Echo, tls_of(folder, "server", clients="client")) as server:
        client = client_of(folder, server, {"certificate-authority": "server.crt"}, user=user)
        assert data_of(client.request("GET", "/version"))["path"] == "/version"
        with pytest.raises(ApiError) as caught:
            client_of(folder, server, {"certificate-authority": "server.crt"}).request("GET", "/version")
    assert caught.value.status == 0


def test_certificates_may_be_in_the_kubeconfig_itself(folder: Path) -> None:
    """As data in base64, which is how most clusters hand them out."""

    def data(name: str) -> str:
        return base64.b64encode((folder / name).read_bytes()).decode()

    user = {"client-certificate-data": data("client.crt"), "client-key-data": data("client.key")}
    with serving(Echo, tls_of(folder, "server", clients="client")) as server:
        client = client_of(folder, server, {"certificate-authority-data": data("server.crt")}, user=user)
        assert data_of(client.request("GET", "/version"))["host"] == port_of(server)


def test_a_server_may_be_checked_by_another_name(folder: Path) -> None:
    """``tls-server-name`` is the name that its certificate must have; its own address is not enough then."""
    trust = {"certificate-authority": "elsewhere.crt"}
    with serving(Echo, tls_of(folder, "elsewhere")) as server:
        named = client_of(folder, server, {**trust, "tls-server-name": "api.example.com"})
        assert named.request("GET", "/version")
        with pytest.raises(ApiError, match="certificate not trusted"):
            client_of(folder, server, trust).request("GET", "/version")


def test_user_and_password_are_sent(folder: Path) -> None:
    """Of a proxy with HTTP's own authentication, say; API servers have none any more."""
    user = {"username": "me", "password": "sesame"}
    with serving(Echo) as server:
        sent = data_of(client_of(folder, server, user=user).request("GET", "/version"))
    assert sent["authorization"] == f"Basic {base64.b64encode(b'me:sesame').decode()}"


def test_a_proxy_of_the_kubeconfig_is_taken(folder: Path, proxy: str) -> None:
    """With TLS to the server through it: the proxy sees where it leads, and no request."""
    with serving(Echo, tls_of(folder, "server")) as server:
        trust = {"certificate-authority": "server.crt", "proxy-url": proxy}
        client = client_of(folder, server, trust)
        require_proxy(client, proxy)
        for _ in range(2):
            sent = data_of(client.request("PATCH", "/api", body={"a": 1}))
            assert (sent["path"], sent["host"], sent["body"]) == ("/api", port_of(server), '{"a":1}')
        assert Proxy.tunnels == [port_of(server)]


def test_a_proxy_may_have_tls_itself(folder: Path, proxy: str) -> None:
    """Then there is TLS within TLS."""
    with behind_secure_proxy(folder, Echo) as (client, server):
        for _ in range(2):
            assert data_of(client.request("PATCH", "/api", body={"a": 1}))["body"] == '{"a":1}'
        assert Proxy.tunnels == [port_of(server)]


def test_a_watch_through_a_proxy_with_tls_ends_when_it_is_closed(folder: Path, proxy: str) -> None:
    """A reader of TLS within TLS wakes up, too; else the end of a program waits for the next line."""

    class Watched(Echo):
        def do_GET(self) -> None:  # noqa: N802  http.server calls it so
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"4\r\none\n\r\n")
            self.rfile.read(1)

    with (
        behind_secure_proxy(folder, Watched) as (client, _),
        client.stream("/watch", query={}, read_timeout=30.0) as watch,
    ):
        lines = iter(watch)
        assert next(lines) == b"one"
        began = time.monotonic()
        threading.Timer(0.2, watch.close).start()
        assert list(lines) == []
        assert time.monotonic() - began < 15.0


def test_a_proxy_gets_the_whole_url_where_there_is_no_tls(folder: Path, proxy: str) -> None:
    """A tunnel is for TLS; without, the proxy forwards what it is asked for."""
    client = client_of(folder, "http://api.example.com:8001", {"proxy-url": proxy})
    require_proxy(client, proxy)
    sent = data_of(client.request("GET", "/api", query={"limit": "1"}))
    assert sent["path"] == "http://api.example.com:8001/api?limit=1"
    assert (sent["host"], sent["authorization"]) == ("api.example.com:8001", "Bearer t")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_cannot_be_reached_is_named(folder: Path, proxy: str, scheme: str) -> None:
    """The API server did not refuse the connection."""
    absent = f"http://127.0.0.1:{free_port()}"
    client = client_of(folder, f"{scheme}://api.example.com:8001", {"proxy-url": absent})
    require_proxy(client, absent)
    with pytest.raises(
        ApiError, match=r"no answer from api\.example\.com:8001: its proxy: connection refused"
    ):
        client.request("GET", "/version")


def test_files_that_were_removed_are_written_anew(folder: Path) -> None:
    """The package keeps a kubeconfig's certificates in /tmp; a cleaner or the end of a child removes them."""
    authority = base64.b64encode((folder / "server.crt").read_bytes()).decode()
    with serving(Echo, tls_of(folder, "server")) as server:
        client = client_of(folder, server, {"certificate-authority-data": authority})
        kept = client._connected().certificate_authority
        assert kept
        Path(kept).unlink()
        with pytest.raises(ApiError, match="no such file or directory"):
            client.request("GET", "/version")
        assert data_of(client.request("PATCH", "/version", body={}))["path"] == "/version"


def test_files_that_stay_away_are_no_mistake_of_the_program(folder: Path) -> None:
    """They may be just being replaced: each request is an ApiError until they are there."""
    authority = folder / "replaced.crt"
    authority.write_bytes((folder / "server.crt").read_bytes())
    with serving(Echo, tls_of(folder, "server")) as server:
        client = client_of(folder, server, {"certificate-authority": authority.name})
        assert client.server == server
        authority.unlink()
        for _ in range(2):
            with pytest.raises(ApiError, match="no such file or directory"):
                client.request("GET", "/version")
        authority.write_bytes((folder / "server.crt").read_bytes())
        assert data_of(client.request("GET", "/version"))["path"] == "/version"


def test_a_proxy_of_the_environment_is_taken_but_for_exceptions(
    folder: Path, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY and NO_PROXY, as the package reads them."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with serving(Echo, tls_of(folder, "server")) as server:
        client = client_of(folder, server, {"certificate-authority": "server.crt"})
        require_proxy(client, proxy)
        assert client.request("GET", "/api")
        assert Proxy.tunnels == [port_of(server)]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert client_of(folder, server, {"certificate-authority": "server.crt"}).request("GET", "/api")
        assert Proxy.tunnels == [port_of(server)]


def test_the_environment_is_looked_through_once_and_not_at_each_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package does so whenever it sets the host, and it sets it for each request with a token."""
    from urllib.request import getproxies

    looks: list[str] = []

    def counted() -> dict[str, str]:
        looks.append("look")
        return getproxies()

    with serving(Echo) as server:
        monkeypatch.setattr("kubernetes.client.configuration.getproxies", counted, raising=False)
        client = client_of(folder, server)
        client.request("GET", "/api")
        looks.clear()
        for _ in range(3):
            assert data_of(client.request("GET", "/api"))["authorization"] == "Bearer t"
    assert looks == []
