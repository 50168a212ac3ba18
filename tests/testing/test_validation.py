"""What Kubernetes refuses of its own kinds, asked of both servers: the emulated one uses the same words."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.testing.broken import with_value
from tests.testing.conftest import MERGE, on_both
from tests.testing.kinds import collection, resource_of, sample
from tests.testing.twins import Answer, Twins

REHEARSED = {"dryRun": "All"}
MERGED = {"content_type": MERGE}
TIME = "2026-01-01T00:00:00Z"
PLURALS = {
    "apps/v1/DaemonSet": "daemonsets",
    "apps/v1/Deployment": "deployments",
    "apps/v1/ReplicaSet": "replicasets",
    "apps/v1/StatefulSet": "statefulsets",
    "batch/v1/CronJob": "cronjobs",
    "batch/v1/Job": "jobs",
}


def owner(name: str, **fields: Any) -> Answer:
    """Return an owner, each name with a uid of its own."""
    uid = f"11111111-1111-1111-1111-11111111111{len(name)}"
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, **fields}


def true_conditions(*types: str) -> list[Answer]:
    """Return conditions of a Job."""
    return [
        {"type": each, "status": "True", "lastTransitionTime": TIME, "lastProbeTime": TIME} for each in types
    ]


@on_both
@pytest.mark.parametrize(
    ("owners", "code"),
    [
        ([owner("a", controller=True), owner("bb", controller=True)], 422),
        ([owner("a", controller=True), owner("bb", controller=True), owner("ccc", controller=True)], 422),
        ([owner("a"), owner("a")], None),
        ([owner("a", controller=True), owner("a", controller=True)], None),
        ([owner("a"), owner("a", controller=True), owner("bb"), owner("a")], None),
        ([owner("a") | {"kind": "Event"}], 422),
        ([owner("a") | {"apiVersion": "a/b/c"}], 422),
        ([owner("a") | {"name": "", "kind": ""}], 422),
    ],
)
def test_owners_are_one_controller_and_others(
    twins: Twins, config_maps: str, owners: list[Answer], code: int | None
) -> None:
    """Two controllers are refused, and the same owner twice is kept once."""
    body = {"metadata": {"name": "web", "ownerReferences": owners}}
    assert twins.agree("POST", config_maps, body, **REHEARSED).get("code") == code


@on_both
@pytest.mark.parametrize(
    "selector", ["spec.foo=a", "type=a", "regarding.name=a", "status.replicas=1", "status.podIPs=1"]
)
@pytest.mark.parametrize(
    "resource",
    [
        *("api/v1 pods", "api/v1 events", "api/v1 configmaps", "api/v1 secrets"),
        *("apis/apps/v1 replicasets", "apis/batch/v1 jobs", "apis/events.k8s.io/v1 events"),
    ],
)
def test_fields_that_a_kind_does_not_select_by_are_refused(
    twins: Twins, namespace: str, resource: str, selector: str
) -> None:
    """Other kinds may have them."""
    version, plural = resource.split()
    answer = twins.ask("GET", f"/{version}/namespaces/{namespace}/{plural}", fieldSelector=selector)
    assert answer[0].get("code") == answer[1].get("code")
    assert answer[0].get("message") == answer[1].get("message")


@on_both
@pytest.mark.parametrize("about", ["own", "default", ""])
def test_an_event_is_in_the_namespace_of_its_object(twins: Twins, namespace: str, about: str) -> None:
    """Or in the default one, where that has none; a newer event, with its time, may be elsewhere."""
    about = namespace if about == "own" else about
    what = {"kind": "Pod", "name": "web", **({"namespace": about} if about else {})}
    newer = {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "example.com/tests"}
    newer |= {"reportingInstance": "one", "action": "Test", "reason": "Tested", "type": "Normal"}
    for place in namespace, "default":
        for more in {}, newer:
            event = {"metadata": {"name": f"web.{namespace}"}, "involvedObject": what, **more}
            twins.agree("POST", f"/api/v1/namespaces/{place}/events", event, **REHEARSED)


@on_both
@pytest.mark.parametrize(
    "kind",
    ["tls", "dockercfg", "dockerconfigjson", "ssh-auth", "basic-auth", "service-account-token", "other"],
)
def test_a_secret_holds_the_keys_of_its_type(twins: Twins, namespace: str, kind: str) -> None:
    """A TLS Secret its certificate and key."""
    for data in {}, {"tls.crt": "", "username": ""}, {"tls.crt": "eA==", "tls.key": "eA=="}:
        body = {"metadata": {"name": "web"}, "type": f"kubernetes.io/{kind}", "data": data}
        twins.agree("POST", f"/api/v1/namespaces/{namespace}/secrets", body, **REHEARSED)


@on_both
@pytest.mark.parametrize(
    "ports",
    [
        [{"port": 1}, {"port": 2}],
        [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}],
        [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}],
        [{"port": 1, "name": "a"}, {"port": 1, "name": "b", "protocol": "UDP"}],
        [{"port": 1, "name": "A!"}],
        [{"port": 0, "name": "a"}, {"port": 70000}],
    ],
)
def test_ports_of_a_service_need_different_names(twins: Twins, namespace: str, ports: list[Answer]) -> None:
    """Several ports have names, and no two are the same."""
    body = {"metadata": {"name": "web"}, "spec": {"ports": ports, "clusterIP": "None"}}
    twins.agree("POST", f"/api/v1/namespaces/{namespace}/services", body, **REHEARSED)


def _numbers(kind: str) -> Iterator[tuple[str, str]]:
    spec = "replicas minReadySeconds revisionHistoryLimit progressDeadlineSeconds parallelism backoffLimit "
    spec += "failedJobsHistoryLimit successfulJobsHistoryLimit startingDeadlineSeconds activeDeadlineSeconds"
    status = "replicas readyReplicas availableReplicas updatedReplicas currentReplicas fullyLabeledReplicas "
    status += (
        "terminatingReplicas collisionCount observedGeneration numberReady active ready succeeded failed"
    )
    yield from (("", f"spec.{each}") for each in spec.split())
    if kind != "batch/v1/CronJob":
        yield from (("/status", f"status.{each}") for each in f"{status} terminating".split())


@on_both
@pytest.mark.parametrize("kind", PLURALS)
def test_counts_are_possible(twins: Twins, namespace: str, kind: str) -> None:
    """None is below 0, no Pods are ready beyond those that there are; zeros are dropped or kept alike."""
    api_version, _, _ = kind.rpartition("/")
    path = f"/apis/{api_version}/namespaces/{namespace}/{PLURALS[kind]}"
    twins.agree("POST", path, sample(kind, "web"))
    for subresource, field in _numbers(kind):
        part, _, name = field.partition(".")
        for number in -1, 0, 2:
            if (kind, name, number) != ("batch/v1/Job", "activeDeadlineSeconds", 0):
                twins.agree(
                    "PATCH", f"{path}/web{subresource}", {part: {name: number}}, **MERGED, **REHEARSED
                )
    if kind != "batch/v1/CronJob":
        counts = {"collisionCount": 3, "replicas": 3, "readyReplicas": 1, "failed": 2}
        twins.agree("PATCH", f"{path}/web/status", {"status": counts}, **MERGED)
        fewer = {"collisionCount": 1, "availableReplicas": 2, "failed": 1}
        twins.agree("PATCH", f"{path}/web/status", {"status": fewer}, **MERGED)


DONE = {"conditions": true_conditions("Complete", "SuccessCriteriaMet"), "startTime": TIME}


@on_both
@pytest.mark.parametrize(
    "status",
    [
        {"conditions": true_conditions("Complete")},
        DONE,
        {**DONE, "completionTime": TIME},
        {**DONE, "completionTime": TIME, "active": 1},
        {**DONE, "completionTime": TIME, "terminating": 1},
        {"conditions": true_conditions("Failed")},
        {"conditions": true_conditions("Failed", "FailureTarget"), "startTime": TIME},
        {"conditions": true_conditions("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")},
        {"completionTime": TIME},
        {"ready": 1},
    ],
)
def test_a_job_ends_with_the_fields_of_its_end(twins: Twins, namespace: str, status: Answer) -> None:
    """Complete with its times and criteria, failed with its target, and with nothing that still runs."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    twins.agree("POST", path, sample("batch/v1/Job", "web"))
    twins.agree("PATCH", f"{path}/web/status", {"status": status}, **MERGED)


@on_both
def test_a_pod_has_its_address_in_both_fields(twins: Twins, namespace: str) -> None:
    """The older field is believed where they differ."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    twins.agree("POST", pods, sample("v1/Pod", "web"))
    listed = {"podIPs": [{"ip": "10.0.0.9"}]}
    for status in (
        {"podIP": "10.0.0.1"},
        {"podIP": "10.0.0.2"},
        {"podIP": None},
        {"podIP": None, **listed},
        {"podIP": "10.0.0.3", **listed},
        {"podIP": None, "podIPs": None},
    ):
        twins.agree("PATCH", f"{pods}/web/status", {"status": status}, **MERGED)


@on_both
@pytest.mark.parametrize("phase", ["Running", "Failed"])
@pytest.mark.parametrize("node", ["", "somewhere"])
def test_a_pod_with_a_node_has_its_time_to_end(twins: Twins, namespace: str, node: str, phase: str) -> None:
    """It is Terminating until it is deleted with 0 s, as by its kubelet; deletions shorten the time alone."""
    pods, pod = f"/api/v1/namespaces/{namespace}/pods", sample("v1/Pod", "web")
    twins.agree("POST", pods, {**pod, "spec": {**pod["spec"], **({"nodeName": node} if node else {})}})
    twins.agree("PATCH", f"{pods}/web/status", {"status": {"phase": phase}}, **MERGED)
    for seconds in None, 60, 7, None:
        options = {} if seconds is None else {"gracePeriodSeconds": seconds}
        twins.agree("DELETE", f"{pods}/web", options)
        twins.agree("PATCH", f"{pods}/web/status", {"status": {"message": str(seconds)}}, **MERGED)
    twins.agree("DELETE", f"{pods}/web", {"gracePeriodSeconds": 0})
    assert twins.agree("GET", f"{pods}/web")["code"] == 404


@on_both
def test_a_second_delete_leaves_what_becomes_of_dependents(twins: Twins, namespace: str) -> None:
    """To the first one, unless it says that itself."""
    config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
    held = {"metadata": {"name": "web", "finalizers": ["example.com/hold", "orphan"]}}
    twins.agree("POST", config_maps, held)
    kept = twins.agree("DELETE", f"{config_maps}/web", dryRun="All")["metadata"]["finalizers"]
    assert kept == ["example.com/hold", "orphan"]
    background = {"propagationPolicy": "Background", "dryRun": "All"}
    kept = twins.agree("DELETE", f"{config_maps}/web", None, **background)["metadata"]["finalizers"]
    assert kept == ["example.com/hold"]
    twins.agree("PATCH", f"{config_maps}/web", {"metadata": {"finalizers": None}}, **MERGED)


@on_both
def test_a_delete_has_its_options_in_the_query_if_it_has_no_body(twins: Twins, namespace: str) -> None:
    """As the official Python client does; with a body the query counts for nothing."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = sample("v1/Pod", "web")
    pod["spec"] = {**pod["spec"], "nodeName": "here"}
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    for body, query in (
        (None, {"gracePeriodSeconds": "5"}),
        (None, {"gracePeriodSeconds": "-1"}),
        (options, {"gracePeriodSeconds": "0"}),
        (None, {"gracePeriodSeconds": "soon"}),
        (None, {"dryRun": "All", "gracePeriodSeconds": "0"}),
        ({**options, "gracePeriodSeconds": "soon"}, {}),
        ({**options, "dryRun": "All"}, {}),
        ({**options, "preconditions": 1}, {}),
        ({**options, "orphanDependents": True, "propagationPolicy": "Orphan"}, {}),
    ):
        twins.agree("POST", pods, pod)
        twins.agree("DELETE", f"{pods}/web", body, **query)
        twins.ask("DELETE", f"{pods}/web", None, gracePeriodSeconds="0")
        assert twins.agree("GET", f"{pods}/web")["code"] == 404


@on_both
@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("v1/Pod", "spec/containers/0/resources", {"limits": {"memroy": "64Mi"}}),
        ("v1/Pod", "spec/containers/0/env/0/valueFrom", {"fieldRef": {"fieldPath": "metadata.name"}}),
        ("v1/Pod", "spec/containers/0/env", [{"name": "A", "valueFrom": {}}]),
        ("v1/Pod", "spec/containers/0/envFrom", [{"prefix": "a"}]),
        (
            "v1/Pod",
            "spec/containers/0/envFrom",
            [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}],
        ),
        ("v1/Pod", "spec/containers/0/readinessProbe/tcpSocket", {"port": 80}),
        ("v1/PersistentVolume", "spec/nfs", {"server": "a", "path": "/b"}),
        ("v1/LimitRange", "spec/limits", [{"type": "Container", "max": {"memroy": "1Gi"}}]),
        ("v1/ResourceQuota", "spec/hard", {"memroy": "1Gi"}),
        ("apps/v1/Deployment", "spec/template/spec/restartPolicy", "OnFailure"),
        ("rbac.authorization.k8s.io/v1/Role", "rules/0/nonResourceURLs", ["/healthz"]),
        ("rbac.authorization.k8s.io/v1/ClusterRole", "rules/0/nonResourceURLs", ["/healthz"]),
        ("rbac.authorization.k8s.io/v1/ClusterRole", "aggregationRule", {}),
        ("rbac.authorization.k8s.io/v1/RoleBinding", "subjects/0/apiGroup", "rbac"),
        ("storage.k8s.io/v1/StorageClass", "reclaimPolicy", "Recycle"),
    ],
)
def test_a_field_that_samples_lack_is_refused_alike(
    twins: Twins, namespace: str, kind: str, place: str, value: Any
) -> None:
    """Mistyped amounts, two choices where there is one, and the fields that have to be beside it."""
    body = with_value(sample(kind, "web"), place, value)
    twins.agree("POST", collection(resource_of(kind), namespace), body, **REHEARSED)


@on_both
@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("v1/Pod", "spec/volumes/0/emptyDir", {}),
        ("v1/Pod", "spec/volumes/0/configMap/items", [{"key": "a"}]),
        ("policy/v1/PodDisruptionBudget", "spec/maxUnavailable", 1),
    ],
)
def test_a_field_that_samples_lack_is_refused_by_both(
    twins: Twins, namespace: str, kind: str, place: str, value: Any
) -> None:
    """In other words: the real one finds that mounts lack the volume, too, or shows its own type's fields."""
    body = with_value(sample(kind, "web"), place, value)
    assert not twins.concur("POST", collection(resource_of(kind), namespace), body, dryRun="All")
