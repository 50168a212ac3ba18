"""The host path provisioner with an informer and workers, on an emulated and a real API server."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq import Connection, Manager, key_of
from distq.config import Settings
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.controller.test_dispatcher import left_over
from tests.controller.test_manager import managing
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.programs import start_program
from tests.workers.provisioning import Kubernetes, Object, new_claim, new_class
from tests.workers.slow_hostpath import DIRECTORY, HOLD, NAME, slow_hostpath
from workers.provisioner.fields import pv_name
from workers.provisioner.provision_controller import CLAIM, STORAGE_CLASS, VOLUME

PATIENCE = 120.0
pytestmark = pytest.mark.parametrize(
    ("api_server", "redis_server"), [("emulator", "redis7"), ("real", "valkey9")], indirect=True
)


class Fleet:
    """Workers of a provisioner with a name of its own; the informer runs in the test's process."""

    def __init__(self, name: str, folder: Path, settings: dict[str, str]) -> None:
        self.name = name
        self.directory = folder / "volumes"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._settings = {NAME: name, DIRECTORY: str(self.directory), **settings}

    def start_worker(self, *, hold: bool = False) -> subprocess.Popen[bytes]:
        """Start a worker; one that holds does not come to the end of a volume."""
        folder = self._folder / f"worker-{len(self.workers) + 1}"
        arguments = ["distq", "worker", "tests.workers.slow_hostpath"]
        settings = {HOLD: "yes"} if hold else {}
        self.workers.append(start_program(arguments, folder, self._settings | settings))
        return self.workers[-1]

    def made(self) -> list[str]:
        """Return the names of the volumes that are there."""
        return [path.name for path in self.directory.iterdir()] if self.directory.exists() else []


@pytest.fixture
def fleet(
    api_server: ApiServer,
    redis_server: EmbeddedValkey,
    connection: Connection,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Fleet]:
    """Run the informer, and end all workers with it."""
    client = api_server.client()
    settings = {"DISTQ_REDIS_URL": redis_server.url, "KUBECONFIG": str(api_server.kubeconfig)}
    fleet = Fleet(f"example.com/{namespace}", tmp_path, settings)
    controller = slow_hostpath(fleet.name, fleet.directory, client=client, redis=connection)
    manager = Manager(
        [controller.claims, controller.volumes],
        redis=connection,
        client=client,
        settings=Settings(lease_name="provisioner", lease_namespace=namespace, grace_period=1),
    )
    with managing(manager, workers=False):
        yield fleet
        for worker in fleet.workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def kubernetes(api_server: ApiServer) -> Kubernetes:
    """Give what the cluster's own controllers would do."""
    return Kubernetes(api_server.client())


@pytest.fixture
def claim(api_server: ApiServer, fleet: Fleet, namespace: str) -> Iterator[Object]:
    """Give a claim of the fleet's class, whose volume is deleted with it."""
    client = api_server.client()
    storage_class = client.create(new_class(fleet.name))
    yield client.create(new_claim(storage_class["metadata"]["name"], fleet.name, namespace))
    client.delete(STORAGE_CLASS, key_of(storage_class))


def test_a_volume_lives_as_long_as_its_claim(
    api_server: ApiServer, connection: Connection, fleet: Fleet, kubernetes: Kubernetes, claim: Object
) -> None:
    """It is made, bound, released and deleted, and nothing of it is left, in Redis neither."""
    client, volume = api_server.client(), pv_name(claim)
    fleet.start_worker()
    eventually(lambda: client.get(VOLUME, volume), "it is made", timeout=PATIENCE)
    assert fleet.made() == [volume]
    kubernetes.bind(claim)
    kubernetes.release(claim)
    eventually(lambda: client.get(VOLUME, volume) is None, "it is deleted", timeout=PATIENCE)
    assert fleet.made() == []
    for controller in ("claims", "volumes"):
        queue = f"{fleet.name.replace('/', '-')}-{controller}"
        eventually(lambda: left_over(connection, queue) == {}, queue, timeout=PATIENCE)  # noqa: B023


def test_a_worker_that_is_killed_in_mid_provision_leaves_one_volume(
    api_server: ApiServer, fleet: Fleet, kubernetes: Kubernetes, claim: Object
) -> None:
    """Though its claim is deleted meanwhile: another worker goes on, and it is released and deleted."""
    client, volume = api_server.client(), pv_name(claim)
    killed = fleet.start_worker(hold=True)
    eventually(lambda: fleet.made() == [volume], "it is begun", timeout=PATIENCE)
    killed.kill()
    killed.wait()
    assert client.get(VOLUME, volume) is None
    kubernetes.delete(claim)
    assert client.get(CLAIM, key_of(claim)), "it waits for what was begun"
    fleet.start_worker()
    eventually(lambda: client.get(CLAIM, key_of(claim)) is None, "it may go", timeout=PATIENCE)
    volumes = [each for each in client.list(VOLUME) if _claim_of(each) == claim["metadata"]["uid"]]
    assert [each["metadata"]["name"] for each in volumes] == fleet.made() == [volume]
    kubernetes.say(volume, "Released")
    eventually(lambda: fleet.made() == [], "it is deleted", timeout=PATIENCE)


def _claim_of(volume: Object) -> str:
    return str(volume["spec"].get("claimRef", {}).get("uid"))
