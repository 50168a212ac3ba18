"""API servers for tests: the emulated one and a real kube-apiserver with its etcd.

Both live for the whole session, on free loopback ports; every test works in a
namespace of its own. The real one's processes die with the process that
started them.
"""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.go import envtest
from tests.support.parts import missing
from tests.support.redis_topologies import free_port
from tests.support.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from distq.client import Client

STARTUP_SECONDS = 60.0


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


class RealApiServer:
    """A kube-apiserver with an etcd of its own.

    ``progress_notify`` makes bookmarks of quiet resources follow the cluster
    within 5 s instead of one to two minutes; ``flags`` are more of kube-apiserver's.
    """

    kind = "real"

    def __init__(self, assets: Path, *, progress_notify: bool = True, flags: Sequence[str] = ()) -> None:
        self._assets = assets
        self._progress_notify = progress_notify
        self._flags = flags
        self._folder = tempfile.TemporaryDirectory(prefix="distq-apiserver-")
        self._root = Path(self._folder.name)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port, self._etcd_port, self._peer_port = (free_port() for _ in range(3))
        self.token = secrets.token_urlsafe(16)
        self.outsider_token = secrets.token_urlsafe(16)
        """Of a user who may do nothing but discovery."""
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self._root / "kubeconfig"
        self.certificate_authority = self._root / "certificates" / "apiserver.crt"

    def client(self) -> "Client":
        """Return a new Client of an administrator."""
        return _client(self.kubeconfig)

    def __enter__(self) -> Self:
        try:
            self._start_etcd()
            self.start_api_server()
        except BaseException:
            self.stop()
            raise
        self._write_kubeconfig()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def restart_api_server(self, *, graceful: bool = False) -> None:
        """Stop kube-apiserver as ``stop_api_server`` does and start it again over the same etcd."""
        self.stop_api_server(graceful=graceful)
        self.start_api_server()

    def stop_api_server(self, *, graceful: bool = False) -> None:
        """Kill kube-apiserver; graceful lets open watches live for up to a minute."""
        self._end("kube-apiserver", graceful=graceful)

    def start_api_server(self) -> None:
        """Start kube-apiserver on its old port and wait until it is ready."""
        tokens = self._root / "tokens.csv"
        tokens.write_text(
            f"{self.token},admin,admin,system:masters\n{self.outsider_token},outsider,outsider\n"
        )
        certificates = self.certificate_authority.parent
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",  # never used, but asked for where there is no default route
            f"--cert-dir={certificates}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificates / 'apiserver.key'}",
            f"--service-account-signing-key-file={certificates / 'apiserver.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            *self._flags,
        )
        self._wait_for("kube-apiserver", "/readyz")
        self._wait_for("kube-apiserver", "/api/v1/namespaces/kube-system")
        self._wait_for("kube-apiserver", "/api/v1/namespaces/default")

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
        """Let the cluster's version grow by so much, as in hours of work: etcd writes what is nobody's."""
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
        for program in list(self._processes):
            self._end(program, graceful=False)
        self._folder.cleanup()

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.certificate_authority)}
        write_kubeconfig(self.kubeconfig, cluster=cluster, user={"token": self.token})

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        notify = ["--watch-progress-notify-interval=5s"] if self._progress_notify else []
        self._start(
            "etcd",
            f"--data-dir={self._root / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            *notify,
        )

    def _start(self, program: str, *flags: str) -> None:
        with (self._root / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [*_dying_with_parent(), str(self._assets / program), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._root,
            )

    def _end(self, program: str, *, graceful: bool) -> None:
        process = self._processes.pop(program, None)
        if process is None:
            return
        process.terminate() if graceful else process.kill()
        process.wait()

    def _wait_for(self, program: str, path: str) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        while not self._answers(path):
            if self._processes[program].poll() is not None or time.monotonic() > deadline:
                log = (self._root / f"{program}.log").read_text(errors="replace")
                raise RuntimeError(f"{program} does not answer {path}:\n{log[-4000:]}")
            time.sleep(0.05)

    def _answers(self, path: str) -> bool:
        if not self.certificate_authority.exists():
            return False
        with urllib3.PoolManager(ca_certs=str(self.certificate_authority), retries=False) as pool:
            try:
                headers = {"Authorization": f"Bearer {self.token}"}
                return pool.request("GET", self.url + path, headers=headers, timeout=5.0).status == 200
            except (urllib3.exceptions.HTTPError, OSError):
                return False


def write_kubeconfig(path: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    """Write a kubeconfig of one context; JSON is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=1))


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
    assets = envtest.assets()
    if assets is None:
        where = os.environ.get("KUBEBUILDER_ASSETS")
        missing(
            f"no kube-apiserver and etcd in KUBEBUILDER_ASSETS={where}. Correct or unset it."
            if where
            else f"no kube-apiserver and etcd: {envtest.MODULE.build_command}"
        )
    return assets


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
