"""The examples in processes of their own, which are killed: nothing is lost, nothing is done twice."""

import re
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from distq import get_condition
from distq.testing import Sandbox
from examples.cluster_secret import CLUSTER_SECRET, SECRET
from examples.reloader import NOTED, PREFIX, RELOADED
from tests import ROOT
from tests.examples.fleet import Fleet, print_manifests
from tests.examples.rollouts import Rollouts
from tests.support.parts import program

README = ROOT / "examples" / "README.md"
MANY = 60
DEPLOYMENT = "apps/v1/Deployment"
EXAMPLES = [f"examples.{name}" for name in ("cluster_secret", "reloader", "pod_set", "endpoint_slices")]


def rights_of(example: str) -> list[str]:
    """Return the options for rights with which the README prints the manifests of an example."""
    (line,) = re.findall(rf"^distq manifests {example} (.*?) > ", README.read_text(), re.MULTILINE)
    words: list[str] = line.split()
    return words[words.index("--writes") :]


@pytest.mark.slow
def test_cluster_secrets_outlive_a_worker_and_a_leader(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worker dies between two copies and a leader before two events: all copies come, change and go."""
    client, name = sandbox.client, f"fleet-{uuid4().hex[:8]}"
    sandbox.apply(ROOT / "examples" / "cluster-secret-crd.yaml")
    namespaces = [f"{name}-{number:02}" for number in range(MANY)]

    def add(namespace: str) -> None:
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def copies() -> dict[str, str]:
        found = client.list(SECRET, label_selector="clustersecret.io=true")
        return {copy["metadata"]["namespace"]: copy["data"]["color"] for copy in found}

    def is_synced() -> bool:
        cluster_secret = client.get(CLUSTER_SECRET, name)
        assert cluster_secret is not None
        condition = get_condition(cluster_secret, "Synced") or {}
        current = condition.get("observedGeneration") == cluster_secret["metadata"]["generation"]
        return current and len(cluster_secret["status"]["namespaces"]) == MANY + 1

    for namespace in namespaces:
        add(namespace)
    example, module = "examples.cluster_secret", "tests.examples.quick_cluster_secret"
    with Fleet(sandbox, example, module, tmp_path, *rights_of(example)) as fleet:
        fleet.start_informers()
        fleet.hold()
        worker = fleet.start("worker", 1)
        fields = {"matchNamespace": [f"{name}-"], "data": {"color": "cmVk"}}
        kind = {"apiVersion": "clustersecret.io/v1", "kind": "ClusterSecret"}
        client.create({**kind, "metadata": {"name": name}, **fields})
        fleet.until(copies, "the worker has begun to copy")
        fleet.kill(worker)
        assert 0 < len(copies()) < MANY, "the worker did not die between two copies"
        fleet.kill_leader("informer-1")
        add(f"{name}-late")
        client.patch(CLUSTER_SECRET, name, {"data": {"color": "Ymx1ZQ=="}})
        fleet.start("worker", 2)
        wanted = dict.fromkeys([*namespaces, f"{name}-late"], "Ymx1ZQ==")
        fleet.until(lambda: copies() == wanted, "each namespace has its copy")
        fleet.until(is_synced, "the status says so")
        assert {stream.lists for stream in fleet.inspector.streams("cluster-secrets")} == {0}
        client.delete(CLUSTER_SECRET, name)
        fleet.until(lambda: client.get(CLUSTER_SECRET, name) is None, "it is gone")
        assert copies() == {}
        fleet.until(lambda: fleet.is_at_rest("cluster-secrets"), "the queue is empty")
        assert fleet.refusals() == []


@pytest.mark.slow
def test_a_reload_outlives_a_worker_and_a_leader(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worker dies between two rollouts, a leader before a change: each workload rolls out once a change."""
    client, namespace = sandbox.client, f"fleet-{uuid4().hex[:8]}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    settings = {"name": "settings", "namespace": namespace}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": settings, "data": {"color": "red"}})
    for number in range(MANY):
        labels = {"app": f"web-{number:02}"}
        metadata = {"name": labels["app"], "namespace": namespace, "annotations": {f"{PREFIX}/auto": "true"}}
        container = {"name": "web", "image": "nginx", "envFrom": [{"configMapRef": {"name": "settings"}}]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})

    def paint(color: str) -> None:
        client.patch("v1/ConfigMap", f"{namespace}/settings", {"data": {"color": color}})

    def annotated(annotation: str) -> int:
        workloads = list(client.list(DEPLOYMENT, namespace))
        about = [one["metadata"] for each in workloads for one in (each, each["spec"]["template"])]
        return sum(annotation in (one.get("annotations") or {}) for one in about)

    example, module = "examples.reloader", "tests.examples.quick_reloader"
    with Fleet(sandbox, example, module, tmp_path, *rights_of(example)) as fleet:
        fleet.start_informers()
        worker = fleet.start("worker", 1)
        fleet.until(lambda: annotated(NOTED) == MANY, "each workload bears a note")
        fleet.until(lambda: fleet.is_at_rest("reload-deployments"), "the queue is empty")
        assert annotated(RELOADED) == 0
        rollouts = Rollouts(client, DEPLOYMENT, namespace)
        fleet.hold()
        paint("blue")
        fleet.until(lambda: annotated(RELOADED), "the worker has begun to roll out")
        fleet.kill(worker)
        assert 0 < sum(rollouts.counts()) < MANY, "the worker did not die between two rollouts"
        fleet.start("worker", 2)
        fleet.until(lambda: min(rollouts.counts()) == 1, "each has rolled out")
        fleet.kill_leader("informer-1")
        paint("green")
        fleet.until(lambda: min(rollouts.counts()) == 2, "each has rolled out again")
        fleet.until(lambda: fleet.is_at_rest("reload-deployments"), "the queue is empty")
        assert rollouts.counts() == [2] * MANY
        assert {stream.lists for stream in fleet.inspector.streams("reload-deployments")} == {0}
        assert fleet.refusals() == []


@pytest.mark.parametrize("sandbox", ["real"], indirect=True)  # the emulated one knows no admission
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_real_api_server_takes_their_manifests(sandbox: Sandbox, example: str) -> None:
    """``kubectl apply --dry-run=server`` reports that it would create each object, and nothing else."""
    kubectl = program("kubectl", package="kubernetes-client")
    manifests = print_manifests(example, *rights_of(example), "--prefix", "dry")
    done = subprocess.run(
        [kubectl, "apply", "--dry-run=server", "-f", "-"],
        input=yaml.safe_dump_all(manifests),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    created = [line for line in done.stdout.splitlines() if line.endswith(" created (server dry run)")]
    assert len(created) == len(manifests)
