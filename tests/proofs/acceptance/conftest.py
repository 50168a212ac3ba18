"""Clusters for the acceptance tests: a real one that keeps an audit log, and an emulated one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.acceptance.audit import Audit
from tests.proofs.acceptance.outsider import Outsider
from tests.proofs.acceptance.scene import Scene
from tests.support.api_servers import (
    EmulatedServer,
    RealApiServer,
    real_api_server_assets,
    write_kubeconfig,
)

NAMESPACE = "acceptance"


class AuditedCluster:
    """A real API server, the outsider, and a service account for each process."""

    def __init__(self, outsider: Outsider, audit: Audit, folder: Path) -> None:
        self.outsider = outsider
        self.audit = audit
        self._folder = folder

    def kubeconfig(self, account: str) -> Path:
        """Create a service account and return a kubeconfig with its token."""
        path = self._folder / f"{account}.kubeconfig"
        user = {"token": self.outsider.service_account(account)}
        write_kubeconfig(path, cluster=self.outsider.cluster, user=user)
        return path


@pytest.fixture(params=["real"])  # in the test's name, so that the report can count it
def audited_cluster(tmp_path: Path) -> Iterator[AuditedCluster]:
    """Start a kube-apiserver of the test's own."""
    audit = Audit(tmp_path)
    with (
        RealApiServer(real_api_server_assets(), flags=audit.flags) as server,
        Outsider(server.kubeconfig, NAMESPACE) as outsider,
    ):
        outsider.furnish()
        yield AuditedCluster(outsider, audit, tmp_path)


@pytest.fixture
def audited_scene(
    tmp_path: Path, audited_cluster: AuditedCluster, redis_server: EmbeddedValkey, connection: Connection
) -> Iterator[Scene]:
    """Give the scene on the real cluster and an empty Redis."""
    with Scene(tmp_path, redis_server.url, audited_cluster.outsider) as scene:
        yield scene


@pytest.fixture(params=["emulator"])
def outsider() -> Iterator[Outsider]:
    """Give an administrator of an emulated cluster of the test's own."""
    with EmulatedServer() as server, Outsider(server.kubeconfig, NAMESPACE) as outsider:
        outsider.furnish()
        yield outsider


@pytest.fixture
def scene(
    tmp_path: Path, outsider: Outsider, redis_server: EmbeddedValkey, connection: Connection
) -> Iterator[Scene]:
    """Give the scene on the emulated cluster and an empty Redis."""
    with Scene(tmp_path, redis_server.url, outsider) as scene:
        yield scene
