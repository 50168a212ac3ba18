"""The examples that resemble Kubernetes' own controllers outlive their processes, under load."""

from pathlib import Path
from uuid import uuid4

import pytest

from distq import Client
from distq.testing import Sandbox
from examples.pod_set import POD_SET
from tests import ROOT
from tests.examples.conftest import sandbox as sandbox  # noqa: PLC0414 - a fixture
from tests.examples.fleet import Fleet
from tests.examples.pod_counts import PodCounts
from tests.examples.test_fleets import rights_of
from tests.examples.test_pod_set import new_pod_set

SETS = 40
"""Each of three pods, and then of five, and of two."""


class Play:
    """PodSets in a namespace of their own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.client: Client = sandbox.client
        self.namespace = f"fleet-{uuid4().hex[:8]}"
        self.names = [f"set-{number:03}" for number in range(SETS)]
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.pods = PodCounts(self.client, self.namespace)

    def create(self, name: str, replicas: int) -> None:
        """Create a PodSet."""
        labels = {"app": name}
        pod_set = new_pod_set(self.namespace, replicas=replicas, selector={"matchLabels": labels})
        pod_set["metadata"]["name"] = name
        pod_set["spec"]["template"]["metadata"] = {"labels": labels}
        self.client.create(pod_set)

    def scale(self, replicas: int, *names: str) -> None:
        """Change how many pods they want."""
        for name in names:
            self.client.patch(POD_SET, f"{self.namespace}/{name}", {"spec": {"replicas": replicas}})

    def has(self, replicas: int) -> bool:
        """Return whether each PodSet says that it has so many pods, and has them."""
        statuses = [each.get("status", {}) for each in self.client.list(POD_SET, self.namespace)]
        said = all(each.get("replicas") == replicas for each in statuses)
        return said and self.pods.look() == dict.fromkeys(self.names, replicas)


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["real"], indirect=True)
def test_no_pod_is_too_many_when_workers_and_leaders_die(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worker is killed between two pods, another under load, a leader too: no set ever has one too many."""
    sandbox.apply(ROOT / "examples" / "pod-set-crd.yaml")
    play = Play(sandbox)
    example, module = "examples.pod_set", "tests.examples.quick_pod_set"
    with Fleet(sandbox, example, module, tmp_path, *rights_of(example)) as fleet:
        fleet.start_informers()
        fleet.hold()
        held = fleet.start("worker", 1)
        for name in play.names:
            play.create(name, 3)
        fleet.until(play.pods.look, "it hangs in the midst of its writes")
        loaded = fleet.start("worker", 2)
        fleet.until(lambda: sum(play.pods.look().values()) > SETS // 2, "the other works")
        fleet.kill(held)
        fleet.kill(loaded)
        fleet.kill_leader("informer-1")
        assert sum(play.pods.look().values()) < 3 * SETS, "the workers did not die under load"
        fleet.start("worker", 3)
        fleet.until(lambda: fleet.is_at_rest("pod-sets") and play.has(3), "each set has its pods")
        assert set(play.pods.most.values()) == {3}

        successor = fleet.start("worker", 4)
        play.scale(5, *play.names)
        fleet.until(lambda: sum(play.pods.look().values()) > 3 * SETS, "more pods come")
        fleet.kill(successor)
        fleet.until(lambda: fleet.is_at_rest("pod-sets") and play.has(5), "each set has more pods")
        assert set(play.pods.most.values()) == {5}
        play.scale(2, *play.names)
        fleet.until(lambda: fleet.is_at_rest("pod-sets") and play.has(2), "each set has fewer pods")
        assert {stream.lists for stream in fleet.inspector.streams("pod-sets")} == {0}
        assert fleet.refusals() == []
