"""A real kube-apiserver with an etcd of its own, from programs that are on this machine.

``distq.testing.envtest`` finds them, or builds them. No controllers run.
"""

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import urllib3

from distq.errors import ConfigError

STARTUP_SECONDS = 120.0
"""A machine on which six of them start at the same time has needed more than 60."""


class KubeApiServer:
    """A context in which both programs run, on loopback ports: these three, or free ones.

    ``folder`` is for their files, ``environment`` is what they get beside the process's own. Raises
    ConfigError where one of them does not start, with the end of its log.
    """

    def __init__(
        self,
        assets: Path,
        folder: Path,
        *,
        ports: Sequence[int] | None = None,
        flags: Sequence[str] = (),
        etcd_flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._assets = assets
        self._root = folder
        self._flags = flags
        self._etcd_flags = etcd_flags
        self._environment = environment or {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port, self._etcd_port, self._peer_port = ports or _free_ports(3)
        self.token = secrets.token_urlsafe(16)
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self._root / "kubeconfig"
        self.certificate_authority = self._root / "certificates" / "apiserver.crt"

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

    def start_api_server(self) -> None:
        """Start kube-apiserver on its port and wait until it is ready."""
        tokens = self._root / "tokens.csv"
        tokens.write_text("".join(f"{line}\n" for line in self._users()))
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
            "--disable-admission-plugins=ServiceAccount",  # no controller makes the account that a Pod needs
            *self._flags,
        )
        # it is ready before it has made its namespaces
        for path in ("/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default"):
            self._wait_for("kube-apiserver", path)

    def stop(self) -> None:
        """Kill both processes."""
        for program in list(self._processes):
            self._end(program, graceful=False)

    def _users(self) -> list[str]:
        """Return the users: token, name, id and group of each."""
        return [f"{self.token},admin,admin,system:masters"]

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.certificate_authority)}
        write_kubeconfig(self.kubeconfig, cluster=cluster, user={"token": self.token})

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._start(
            "etcd",
            f"--data-dir={self._root / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # nothing is to outlive it
            *self._etcd_flags,
        )

    def _command(self, program: str) -> list[str]:
        return [str(self._assets / program)]

    def _start(self, program: str, *flags: str) -> None:
        with (self._root / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [*self._command(program), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._root,
                env={**os.environ, **self._environment},
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
                raise ConfigError(f"{program} does not answer {path}. The end of its log:\n{log[-4000:]}")
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


def write_kubeconfig(
    path: Path, *, cluster: dict[str, Any], user: dict[str, Any], name: str = "test", user_name: str = "test"
) -> None:
    """Write a kubeconfig of one context; JSON is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user_name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user_name}}],
        "current-context": name,
    }
    path.write_text(json.dumps(config, indent=1))


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
