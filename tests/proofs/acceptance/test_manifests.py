"""What ``distq manifests`` prints suffices on a real API server, and nothing of its rights is too much."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from distq.errors import ApiError
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests import ROOT
from tests.proofs.acceptance.governed_cluster import (
    NAMESPACE,
    Act,
    GovernedCluster,
    Grant,
    grants,
    manifests,
    now,
)
from tests.proofs.acceptance.sample_play import KEY, LEASE, SamplePlay, both_sides
from tests.support.api_servers import RealApiServer, real_api_server_assets
from tests.support.eventually import eventually
from tests.support.parts import program

WITHIN = 60.0
SPARE = {Act(component, "patch", "/events") for component in ("informer", "worker")} | {
    Act("worker", "list", "apps/deployments")
}
"""What counts an event that happens again, and what looks after a patch that ends an object; a short run may
see neither."""

RECONCILED = {"creates", "scales", "restores", "writes the status", "says so", "reads large ones"}
ALL = set(SamplePlay.goals)
FAILS = {
    "informer-events": {"says who leads"},
    "informer-leases": ALL - {"knows the cluster"},
    "informer-leases-named": ALL - {"knows the cluster"},
    "informer-namespaces-named": {"knows the cluster"} | RECONCILED,
    "informer-deployments": RECONCILED,
    "informer-foos": RECONCILED,
    "worker-events": {"says so"},
    "worker-deployments": RECONCILED,
    "worker-namespaces-named": RECONCILED,
    "worker-foos": {"reads large ones"},
    "worker-foos/status": {"writes the status", "says so"},
}
"""What does not come about without each rule."""

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


@pytest.fixture(scope="module", params=["real"])  # in the test's name, so that the report can count it
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GovernedCluster]:
    """Start a kube-apiserver with the manifests applied."""
    folder = tmp_path_factory.mktemp("governed")
    with RealApiServer(real_api_server_assets(), flags=GovernedCluster.flags(folder)) as server:
        cluster = GovernedCluster(server, folder)
        cluster.furnish()
        yield cluster


def test_the_sample_does_its_work_with_just_these_rights(
    cluster: GovernedCluster, connection: Connection
) -> None:
    """All of it comes about, nothing is refused, and each verb of each rule is used."""
    began = now()
    informer, worker = cluster.client("informer"), cluster.client("worker")
    play = SamplePlay(cluster, informer)
    granted = set[Act]().union(*(grant.acts for grant in grants()))
    with both_sides(connection, informer, worker):
        eventually(lambda: play.go_on() == ALL, lambda: f"only {play.met}", timeout=WITHIN)

        def all_are_used() -> bool:
            # a write of another client: the next renewal meets a conflict, and patches
            cluster.admin.patch(LEASE, KEY, {"metadata": {"labels": {"somebody": "else"}}})
            cluster.admin.patch(LEASE, KEY, {"metadata": {"labels": {"somebody": None}}})
            return granted <= cluster.acts(since=began) | SPARE

        eventually(all_are_used, lambda: f"unused: {granted - cluster.acts(since=began)}", timeout=WITHIN)
    assert cluster.acts(since=began, refused=True) == set()
    assert cluster.acts(since=began) <= granted


@pytest.mark.slow
@pytest.mark.parametrize("grant", grants(), ids=str)
def test_without_any_one_rule_something_fails(
    cluster: GovernedCluster, connection: Connection, grant: Grant
) -> None:
    """The API server refuses what the rule allowed; what hangs on it does not come about, the rest does."""
    informer, worker = cluster.client("informer"), cluster.client("worker")
    fails = FAILS[str(grant)]
    with cluster.without(grant):
        began = now()
        play = SamplePlay(cluster, informer)
        with both_sides(connection, informer, worker):
            eventually(
                lambda: play.go_on() >= ALL - fails and cluster.acts(since=began, refused=True) & grant.acts,
                lambda: f"{play.met}; refused: {cluster.acts(since=began, refused=True)}",
                timeout=WITHIN,
            )
            assert play.go_on() == ALL - fails


def test_the_checks_of_the_init_containers_pass(
    cluster: GovernedCluster, connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """``distq check``, as each side's pods run it, passes with that side's rights."""
    for component, target in (("informer", ["workers.sample_controller"]), ("worker", [])):
        settings = {
            "DISTQ_REDIS_URL": redis_server.url,
            "DISTQ_LEASE_NAMESPACE": NAMESPACE,
            "KUBECONFIG": str(cluster.kubeconfig(component)),
        }
        assert "OK    API server" in distq("check", *target, **settings)


def test_the_api_server_accepts_all_of_it(cluster: GovernedCluster, redis_server: EmbeddedValkey) -> None:
    """``kubectl apply --dry-run=server`` reports that it would create each object, and nothing else."""
    kubectl = program("kubectl", package="kubernetes-client")
    arguments = ["workers.sample_controller", "--image", "distq", "--redis", "--dashboard"]
    printed = distq("manifests", *arguments, "--prefix", "dry")
    done = subprocess.run(
        [kubectl, "--kubeconfig", cluster.server.kubeconfig, "apply", "--dry-run=server", "-f", "-"],
        input=printed,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    created = [line for line in done.stdout.splitlines() if line.endswith(" created (server dry run)")]
    assert len(created) == len(list(yaml.safe_load_all(printed)))


def test_pods_pass_where_the_restricted_standard_is_enforced(
    cluster: GovernedCluster, redis_server: EmbeddedValkey
) -> None:
    """The API server admits a pod of each template, and none that may more."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": "strict", "labels": restricted}
    cluster.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    templates = [obj["spec"]["template"] for obj in manifests() if "template" in obj.get("spec", {})]
    assert len(templates) == 4
    for template in templates:
        create_pod(cluster, template["spec"])
        template["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        with pytest.raises(ApiError, match="violates PodSecurity"):
            create_pod(cluster, template["spec"])


def create_pod(cluster: GovernedCluster, spec: dict[str, Any]) -> None:
    """Create a pod in the strict namespace, in a dry run; a claim's volume is any other."""
    mounts = spec["containers"][0].get("volumeMounts", [])
    spec = {**spec, "volumes": [{"name": mount["name"], "emptyDir": {}} for mount in mounts]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}
    path = "/api/v1/namespaces/strict/pods"
    cluster.admin.request("POST", path, body=pod, query={"dryRun": "All", "fieldValidation": "Strict"})


def distq(*arguments: str, **settings: str) -> str:
    """Run a command of distq to its good end, with these settings alone; return what it prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
    done = subprocess.run(
        [sys.executable, "-m", "distq", *arguments],
        cwd=ROOT,
        env=own | settings,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
