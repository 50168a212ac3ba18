"""The examples that resemble Kubernetes' own controllers outlive their processes, under load."""

from pathlib import Path
from uuid import uuid4

import pytest

from distq import Client
from distq.testing import Sandbox
from examples.endpoint_slices import MANAGED, SERVICE_NAME, SLICE
from examples.pod_set import POD, POD_SET
from tests import ROOT
from tests.examples import kubelet
from tests.examples.conftest import sandbox as sandbox  # noqa: PLC0414 - a fixture
from tests.examples.fleet import Fleet
from tests.examples.kubelet import new_pod
from tests.examples.owned_counts import OwnedCounts
from tests.examples.test_fleets import rights_of
from tests.examples.test_pod_set import new_pod_set

SETS = 40
"""Each of three pods, and then of five, and of two."""
SERVICES, PODS = 50, 3


class PodSets:
    """PodSets in a namespace of their own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.client: Client = sandbox.client
        self.namespace = f"fleet-{uuid4().hex[:8]}"
        self.names = [f"set-{number:03}" for number in range(SETS)]
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.pods = OwnedCounts(self.client, POD, self.namespace)

    def create(self, name: str, replicas: int) -> None:
        """Create a PodSet."""
        labels = {"app": name}
        pod_set = new_pod_set(self.namespace, replicas=replicas, selector={"matchLabels": labels})
        pod_set["metadata"]["name"] = name
        pod_set["spec"]["template"]["metadata"] = {"labels": labels}
        self.client.create(pod_set)

    def scale(self, replicas: int) -> None:
        """Change how many pods they want."""
        for name in self.names:
            self.client.patch(POD_SET, f"{self.namespace}/{name}", {"spec": {"replicas": replicas}})

    def has(self, replicas: int) -> bool:
        """Return whether each PodSet says that it has so many pods, and has them."""
        statuses = [each.get("status", {}) for each in self.client.list(POD_SET, self.namespace)]
        said = all(each.get("replicas") == replicas for each in statuses)
        return said and self.pods.look() == dict.fromkeys(self.names, replicas)


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["real"], indirect=True)
def test_no_pod_is_too_many_when_workers_and_leaders_die(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worker that meets a pod that the cache lacks makes no second one, and interrupted work goes on."""
    sandbox.apply(ROOT / "examples" / "pod-set-crd.yaml")
    play = PodSets(sandbox)
    example, module = "examples.pod_set", "tests.examples.quick_pod_set"
    with Fleet(sandbox, example, module, tmp_path, *rights_of(example)) as fleet:
        fleet.start_informers()
        for name in play.names:
            play.create(name, 3)
        fleet.until(lambda: fleet.inspector.queues("pod-sets")[0].depth == SETS, "all are in the queue")
        fleet.kill("informer-1")
        fleet.hold()
        held = fleet.start("worker", 1)
        fleet.until(lambda: sum(play.pods.look().values()) == 4, "it never sees the answer for a pod")
        fleet.kill(held)
        heir = fleet.start("worker", 2)
        fleet.until(lambda: "already exists" in fleet.log(heir), "it asks for the same pod")
        fleet.release_lease()
        fleet.until(lambda: fleet.is_at_rest("pod-sets") and play.has(3), "each set has its pods")
        assert set(play.pods.most.values()) == {3}

        fleet.start("informer", 3)
        play.scale(5)
        fleet.until(lambda: sum(play.pods.look().values()) > 3 * SETS, "more pods come")
        fleet.kill(heir)
        assert sum(play.pods.look().values()) < 5 * SETS, "the worker did not die under load"
        fleet.start("worker", 3)
        fleet.until(lambda: fleet.is_at_rest("pod-sets") and play.has(5), "each set has more pods")
        assert set(play.pods.most.values()) == {5}
        play.scale(2)
        fleet.kill_leader("informer-2")
        fleet.until(lambda: fleet.is_at_rest("pod-sets") and play.has(2), "each set has fewer pods")
        assert set(play.pods.most.values()) == {5}
        assert {stream.lists for stream in fleet.inspector.streams("pod-sets")} == {0}
        assert fleet.refusals() == []


class Services:
    """Services in a namespace of their own, and pods behind each."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.client: Client = sandbox.client
        self.namespace = f"fleet-{uuid4().hex[:8]}"
        self.names = [f"service-{number:03}" for number in range(SERVICES)]
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.slices = OwnedCounts(self.client, SLICE, self.namespace)
        self._wanted: dict[str, dict[str, str]] = {name: {} for name in self.names}

    def create(self, service: str, number: int) -> None:
        """Create a Service that asks for slices."""
        label, _, value = MANAGED.partition("=")
        metadata = {"name": service, "namespace": self.namespace, "labels": {label: value}}
        spec = {"selector": {"app": service}, "ports": [{"port": 80}]}
        self.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        for each in range(PODS):
            self.add(service, f"{service}-{each}", f"10.1.{number}.{each + 1}")

    def add(self, service: str, name: str, ip: str) -> None:
        """Let one more pod run behind a Service."""
        pod = self.client.create(new_pod(self.namespace, name, {"app": service}))
        kubelet.run(self.client, pod, ip=ip)
        self._wanted[service][name] = ip

    def remove(self, service: str, name: str) -> None:
        """Delete a pod."""
        self.client.delete(POD, f"{self.namespace}/{name}", grace_period=0)
        del self._wanted[service][name]

    def are_right(self) -> bool:
        """Return whether each Service has its pods' addresses, and each of them once."""
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in self.names}
        for slice_ in self.client.list(SLICE, self.namespace):
            endpoints = slice_.get("endpoints") or []
            addresses = [(each["targetRef"]["name"], each["addresses"][0]) for each in endpoints]
            found[slice_["metadata"]["labels"][SERVICE_NAME]] += addresses
        return all(sorted(found[name]) == sorted(self._wanted[name].items()) for name in self.names)


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["real"], indirect=True)
def test_slices_are_right_after_workers_and_a_leader_died(sandbox: Sandbox, tmp_path: Path) -> None:
    """Each Service has its pods once, also those that came and went meanwhile, and never a second slice."""
    play = Services(sandbox)
    example, module = "examples.endpoint_slices", "tests.examples.quick_endpoint_slices"
    with Fleet(sandbox, example, module, tmp_path, *rights_of(example)) as fleet:
        fleet.start_informers()
        fleet.hold()
        held = fleet.start("worker", 1)
        for number, name in enumerate(play.names):
            play.create(name, number)
        fleet.until(play.slices.look, "it hangs in the midst of its writes")
        loaded = fleet.start("worker", 2)
        fleet.until(lambda: len(play.slices.look()) > SERVICES // 3, "the other works")
        fleet.kill(held)
        fleet.kill(loaded)
        assert not play.are_right(), "the workers did not die under load"
        fleet.kill_leader("informer-1")
        for number, name in enumerate(play.names):
            play.remove(name, f"{name}-0")
            play.add(name, f"{name}-later", f"10.2.{number}.1")
        fleet.start("worker", 3)
        at_rest = "endpoint-slices"
        fleet.until(lambda: fleet.is_at_rest(at_rest) and play.are_right(), "each Service has its pods")
        play.slices.look()
        assert set(play.slices.most.values()) == {1}
        assert {stream.lists for stream in fleet.inspector.streams("endpoint-slices")} == {0}
        assert fleet.refusals() == []
