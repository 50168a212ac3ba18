"""Informers that reach the API server and not Redis: another one leads, or none does; in real processes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distq.client import Client
from distq.inspector import Inspector, StreamInfo
from distq.testing.embedded_valkey import EmbeddedValkey
from tests import ROOT
from tests.controller.leading import QUEUE, Scene
from tests.support.eventually import eventually
from tests.support.programs import start_program
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.parametrize(
    ("api_server", "redis_server"),
    [("emulator", "redis7"), pytest.param("real", "valkey9", marks=pytest.mark.slow)],
    indirect=True,
)

PROGRAM = f"""
from distq import Controller, For

controller = Controller("{QUEUE}", print, watches=[For("v1/ConfigMap")])
"""


class Informer:
    """``distq informer`` in a process of its own, whose Redis is behind a proxy of its own."""

    def __init__(self, name: str, scene: Scene, folder: Path, redis: EmbeddedValkey) -> None:
        self.proxy = TcpProxy(("127.0.0.1", redis.port))
        self.proxy.__enter__()
        self._log = folder / name / "log"
        (folder / "foos.py").write_text(PROGRAM)
        settings = {
            "PYTHONPATH": f"{ROOT}:{folder}",
            "KUBECONFIG": str(scene.kubeconfig),
            "POD_NAME": name,
            "DISTQ_REDIS_URL": f"redis://127.0.0.1:{self.proxy.port}",
            "DISTQ_LEASE_NAMESPACE": scene.namespace,
            "DISTQ_LEASE_DURATION": "4",
            "DISTQ_RENEW_DEADLINE": "3",
            "DISTQ_RETRY_PERIOD": "0.5",
        }
        self._process = start_program(["distq", "informer", "foos"], folder / name, settings)

    @property
    def identity(self) -> str:
        """Return its name in the Lease, empty until it is a candidate."""
        before, is_candidate, _ = self.log().partition(" wants to lead")
        return before.rpartition(" ")[2] if is_candidate else ""

    def log(self) -> str:
        """Return what it said so far."""
        return self._log.read_text()

    def has_withdrawn(self) -> bool:
        """Return whether it left the election for others."""
        return "left to others until one does" in self.log()

    def lives(self) -> bool:
        """Return whether it never ended."""
        return self._process.poll() is None

    def end(self) -> int:
        """Stop it as Kubernetes does; return its exit status."""
        self.proxy.mode = "pass"
        self._process.terminate()
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self.proxy.__exit__(None, None, None)


@pytest.fixture
def informers(scene: Scene, tmp_path: Path, redis_server: EmbeddedValkey) -> Iterator[list[Informer]]:
    """Start two, and end them in order."""
    informers = [Informer(name, scene, tmp_path, redis_server) for name in ("one", "other")]
    try:
        for informer in informers:
            eventually(lambda it=informer: it.identity, informer.log, timeout=60)  # type: ignore[misc]
        yield informers
    finally:
        statuses = [informer.end() for informer in informers]
    assert statuses == [0, 0], [informer.log() for informer in informers]


def test_a_leader_that_alone_reaches_no_redis_leaves_the_lease_to_another(
    informers: list[Informer], scene: Scene
) -> None:
    """The other goes on from the last position, and it may lead again; none of them has to be restarted."""
    client = Client(scene.kubeconfig)
    first = stream(scene, informers)
    leader, other = sorted(informers, key=lambda informer: informer.identity != first.leader)
    leader.proxy.mode = "hang"
    create(client, scene, "in-the-dark")
    eventually(lambda: "in-the-dark" in keys(scene), leader.log, timeout=60)
    second = stream(scene, [other])
    assert int(second.epoch) > int(first.epoch)
    assert second.lists == 0
    assert leader.has_withdrawn()
    assert not other.has_withdrawn()
    leader.proxy.mode = "pass"
    eventually(lambda: "Redis answers again" in leader.log())
    other.proxy.mode = "hang"
    create(client, scene, "and-back")
    eventually(lambda: "and-back" in keys(scene), other.log, timeout=60)
    assert int(stream(scene, [leader]).epoch) > int(second.epoch)
    assert leader.lives()
    assert other.lives()


def test_no_process_leads_while_none_reaches_redis_and_then_one_does(
    informers: list[Informer], scene: Scene
) -> None:
    """The lease is not handed round, and what happened meanwhile comes when Redis is back."""
    client = Client(scene.kubeconfig)
    before = stream(scene, informers)
    transitions = lease(client, scene)["leaseTransitions"]
    for informer in informers:
        informer.proxy.mode = "hang"
    create(client, scene, "meanwhile")
    eventually(lambda: all(informer.has_withdrawn() for informer in informers), timeout=60)
    eventually(lambda: not lease(client, scene)["holderIdentity"], timeout=60)
    assert lease(client, scene)["leaseTransitions"] == transitions
    for informer in informers:
        informer.proxy.mode = "pass"
    eventually(lambda: "meanwhile" in keys(scene), timeout=60)
    after = stream(scene, informers)
    assert int(after.epoch) > int(before.epoch)
    assert after.lists == 0
    # one more where the machine is so busy that the first of them loses it again
    assert lease(client, scene)["leaseTransitions"] <= transitions + 2


def stream(scene: Scene, informers: list[Informer]) -> StreamInfo:
    """Return the one stream once one of these leads it, and is synced."""
    found: list[StreamInfo] = []

    def is_led() -> bool:
        found[:] = Inspector(scene.connection).streams(QUEUE)
        names = {informer.identity for informer in informers}
        return any(each.synced and each.leader in names for each in found)

    eventually(is_led, lambda: "\n".join(informer.log() for informer in informers), timeout=60)
    return found[0]


def keys(scene: Scene) -> set[str]:
    """Return the names of the ConfigMaps of the namespace that are ready."""
    return {key.rpartition("/")[2] for key in scene.pending() if key.startswith(f"{scene.namespace}/")}


def create(client: Client, scene: Scene, name: str) -> None:
    """Create a ConfigMap."""
    client.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": scene.namespace},
        }
    )


def lease(client: Client, scene: Scene) -> dict[str, Any]:
    """Return the spec of the Lease."""
    found = client.get("coordination.k8s.io/v1/Lease", f"{scene.namespace}/distq-foos")
    assert found is not None
    return {"holderIdentity": "", "leaseTransitions": 0, **found["spec"]}
