"""API servers for tests: the emulated one and a real kube-apiserver with its etcd.

Both live for the whole session, on free loopback ports; every test works in a
namespace of its own. The real one's processes die with the process that
started them.
"""

import json
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

import pytest
import urllib3

from distq.errors import ConfigError
from distq.testing.envtest import find_assets
from distq.testing.kube_api_server import KubeApiServer
from distq.testing.kube_api_server import write_kubeconfig as write_kubeconfig  # noqa: PLC0414 - for tests
from tests.support.parts import missing
from tests.support.ports import free_port
from tests.support.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from distq.client import Client


class ApiServer(Protocol):
    """What tests may ask of either server."""

    kind: str
    """``emulator`` or ``real``."""

    kubeconfig: Path
    """The file with an administrator's access; it is JSON."""

    @property
    def url(self) -> str:
        """Where it listens."""

    def client(self) -> "Client":
        """Return a new Client of an administrator."""


class EmulatedServer:
    """The emulated API server of ``distq.testing``, in this process."""

    kind = "emulator"

    def __init__(self) -> None:
        from distq.testing import EmulatedApiServer

        self.emulator = EmulatedApiServer()
        self._folder = tempfile.TemporaryDirectory(prefix="distq-emulator-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.emulator.url

    def client(self) -> "Client":
        """Return a new Client of an administrator."""
        return _client(self.kubeconfig)

    def __enter__(self) -> Self:
        self.emulator.start()
        self.emulator.kubeconfig(self.kubeconfig)
        return self

    def __exit__(self, *_: object) -> None:
        self.emulator.stop()
        self._folder.cleanup()


class RealApiServer(KubeApiServer):
    """A kube-apiserver with an etcd of its own, in a folder that goes with it.

    ``progress_notify`` makes bookmarks of quiet resources follow the cluster
    within 5 s instead of one to two minutes; ``flags`` are more of kube-apiserver's.
    """

    kind = "real"

    def __init__(self, assets: Path, *, progress_notify: bool = True, flags: Sequence[str] = ()) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="distq-apiserver-")
        self.outsider_token = secrets.token_urlsafe(16)
        """Of a user without rights beyond discovery."""
        super().__init__(
            assets,
            Path(self._folder.name),
            ports=(free_port(), free_port(), free_port()),
            flags=flags,
            etcd_flags=["--watch-progress-notify-interval=5s"] if progress_notify else [],
        )

    def client(self) -> "Client":
        """Return a new Client of an administrator."""
        return _client(self.kubeconfig)

    def restart_api_server(self, *, graceful: bool = False) -> None:
        """Stop kube-apiserver as ``stop_api_server`` does and start it again over the same etcd."""
        self.stop_api_server(graceful=graceful)
        self.start_api_server()

    def stop_api_server(self, *, graceful: bool = False) -> None:
        """Kill kube-apiserver; graceful lets open watches live for up to a minute."""
        self._end("kube-apiserver", graceful=graceful)

    def back_up(self) -> None:
        """Copy etcd's data directory while neither program runs; both run again afterwards."""
        with self._at_rest():
            shutil.copytree(self._root / "etcd", self._root / "backup", dirs_exist_ok=True)

    def restore(self) -> None:
        """Put the cluster back to the last ``back_up``, as if nothing had been since: its versions, too."""
        with self._at_rest():
            shutil.rmtree(self._root / "etcd")
            shutil.copytree(self._root / "backup", self._root / "etcd")

    def compact(self, version: str) -> None:
        """Make etcd forget all versions before one; kube-apiserver's own caches keep what they have."""
        body = json.dumps({"revision": version, "physical": True})
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv/compaction"
        answer = urllib3.request("POST", url, body=body, retries=False, timeout=30.0)
        if answer.status != 200:
            raise RuntimeError(f"etcd does not compact: {answer.data.decode()}")

    def raise_version(self, by: int) -> None:
        """Let the cluster's version grow by so much, as in hours of work: etcd writes keys of no object."""
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv/put"
        with urllib3.PoolManager(retries=False, timeout=30.0) as pool:
            for _ in range(by):
                answer = pool.request("POST", url, body=json.dumps({"key": "bm9ib2R5", "value": ""}))
                if answer.status != 200:
                    raise RuntimeError(f"etcd does not write: {answer.data.decode()}")

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        for program in ("kube-apiserver", "etcd"):
            self._end(program, graceful=False)
        yield
        self._start_etcd()
        self.start_api_server()

    def rotate_token(self) -> None:
        """Replace the administrator's token, also in the kubeconfig, by a restart."""
        self.token = secrets.token_urlsafe(16)
        self._write_kubeconfig()
        self.restart_api_server()

    def stop(self) -> None:
        """Kill both processes and delete what they wrote."""
        super().stop()
        self._folder.cleanup()

    def _users(self) -> list[str]:
        return [*super()._users(), f"{self.outsider_token},outsider,outsider"]

    def _command(self, program: str) -> list[str]:
        return [*_dying_with_parent(), *super()._command(program)]


def kubeconfig_through(api_server: ApiServer, port: int, path: Path, *, scheme: str = "") -> Path:
    """Write the server's kubeconfig to ``path``, with another loopback port, e.g. of a proxy; return it.

    ``scheme`` is the server's own unless given.
    """
    config = json.loads(api_server.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = f"{scheme or urlsplit(api_server.url).scheme}://127.0.0.1:{port}"
    path.write_text(json.dumps(config))
    return path


def real_api_server_assets() -> Path:
    """Return where kube-apiserver and etcd are; skip the test without them, fail it in CI."""
    try:
        return find_assets()
    except ConfigError as error:
        missing(str(error))


@pytest.fixture(scope="session", params=["emulator", "real"])
def api_server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Give an API server that all tests of the session share; work in ``namespace``."""
    if request.param == "emulator":
        with EmulatedServer() as emulator:
            yield emulator
    else:
        with RealApiServer(real_api_server_assets()) as real:
            yield real


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    """Give the name of a new namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    api_server.client().create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[TcpProxy]:
    """Give a proxy in front of the API server."""
    address = urlsplit(api_server.url)
    with TcpProxy((address.hostname or "", address.port or 0)) as proxy:
        yield proxy


def _client(kubeconfig: Path) -> "Client":
    from distq.client import Client

    return Client(kubeconfig)


def _dying_with_parent() -> list[str]:
    """Return the prefix that kills a program when this process dies, however it dies."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
