"""What ``kubectl get`` shows: the columns of built-in kinds, and those that a definition asks for."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from distq.client import Client
from distq.testing.apiserver.cells import human_duration
from distq.testing.apiserver.resources import BUILT_IN, ServedResource
from tests.support.api_servers import ApiServer
from tests.support.samples import wait_until_served
from tests.testing import gadgets
from tests.testing.conftest import Api, config_map, on_both
from tests.testing.kinds import SAMPLES, sample
from tests.testing.play import MERGE
from tests.testing.twins import Twins, differences

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
WITHOUT = {"Node", "Endpoints", "EndpointSlice", "HorizontalPodAutoscaler", "IngressClass", "ResourceQuota"}
"""Kinds whose columns the emulated server does not have."""
_DURATION = re.compile(r"(?<![-\w/])(\d+[smhdy])+(?![-\w/])")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UID = re.compile(r"[0-9a-f]{8}-[-0-9a-f]{27}")
THEN = (datetime.now(UTC) - timedelta(minutes=4, seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")


def resource_of(kind: str) -> ServedResource:
    """Return a built-in resource."""
    api_version, _, name = kind.rpartition("/")
    return next(each for each in BUILT_IN if (each.api_version, each.kind) == (api_version, name))


def path_of(resource: ServedResource, namespace: str) -> str:
    """Return the path of a resource's objects."""
    place = f"namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{'apis' if resource.group else 'api'}/{resource.api_version}/{place}{resource.plural}"


def agree_on_the_table(twins: Twins, path: str) -> list[list[Any]]:
    """Return the cells of the rows that both servers show, whose times and ages are not compared."""
    real, emulated = (_comparable(each) for each in twins.ask("GET", path, accept=TABLE))
    assert not list(differences(real, emulated))
    return [row["cells"] for row in real["rows"]]


def _comparable(table: Any) -> Any:
    for row in table["rows"]:
        assert row["object"]["kind"] == "PartialObjectMetadata"
        del row["object"]
    text = json.dumps({name: table[name] for name in ("kind", "columnDefinitions", "rows")})
    shown = json.loads(_TIME.sub("TIME", _DURATION.sub("AGE", _UID.sub("UID", text))))
    for column in shown["columnDefinitions"]:
        del column["description"]
    return shown


@on_both
@pytest.mark.parametrize("kind", [each for each in SAMPLES if each.rpartition("/")[2] not in WITHOUT])
def test_a_built_in_kind_is_shown_alike(twins: Twins, namespace: str, kind: str) -> None:
    """A new object, in the columns of its kind."""
    path, name = path_of(resource_of(kind), namespace), f"table-{namespace}"
    body = sample(kind, name)
    assert "code" not in twins.agree("POST", path, body) or kind == "batch/v1/Job"
    (cells,) = agree_on_the_table(twins, f"{path}/{body['metadata']['name']}")
    assert body["metadata"]["name"] in cells


def container(name: str = "web", **fields: Any) -> dict[str, Any]:
    """Return the status of a container."""
    return {"name": name, "image": name, "imageID": "", "ready": False, "restartCount": 0, **fields}


def ended(**fields: Any) -> dict[str, Any]:
    """Return the state of a container that has ended."""
    return {"terminated": {"exitCode": 0, "finishedAt": THEN, **fields}}


RUNNING: dict[str, Any] = {"state": {"running": {}}, "ready": True}
READY = {"type": "Ready", "status": "True"}
WAITING: dict[str, Any] = {"state": {"waiting": {"reason": "ContainerCreating"}}}
LOOPING: dict[str, Any] = {"restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
DONE = container(state=ended(reason="Completed"))
ONE_RUNS = [DONE, container("log", **RUNNING)]
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Pending", {}),
    ("Evicted", {"phase": "Failed", "reason": "Evicted"}),
    ("SchedulingGated", {"conditions": [GATED]}),
    ("ContainerCreating", {"containerStatuses": [container(**WAITING)]}),
    ("Running", {"phase": "Running", "containerStatuses": [container(**RUNNING)]}),
    ("Running", {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}),
    ("Error", {"phase": "Failed", "containerStatuses": [container(state=ended(exitCode=1, reason="Error"))]}),
    ("ExitCode:3", {"phase": "Failed", "containerStatuses": [container(state=ended(exitCode=3))]}),
    ("Signal:9", {"phase": "Failed", "containerStatuses": [container(state=ended(exitCode=1, signal=9))]}),
    ("Completed", {"phase": "Succeeded", "containerStatuses": [DONE]}),
    ("CrashLoopBackOff", {"containerStatuses": [container(lastState=ended(exitCode=1), **LOOPING)]}),
    ("NotReady", {"phase": "Running", "containerStatuses": ONE_RUNS}),
    ("Running", {"phase": "Running", "conditions": [READY], "containerStatuses": ONE_RUNS}),
    ("Init:0/2", {"initContainerStatuses": [container("init", state={"running": {}})]}),
    ("Init:Error", {"initContainerStatuses": [container("init", state=ended(exitCode=1, reason="Error"))]}),
    ("Init:CrashLoopBackOff", {"initContainerStatuses": [container("init", **LOOPING)]}),
    (
        "Running",
        {
            "phase": "Running",
            "initContainerStatuses": [
                container("init", state=ended()),
                container("sidecar", started=True, restartCount=2, **RUNNING),
            ],
            "containerStatuses": [container(**RUNNING)],
        },
    ),
)


@on_both
def test_the_status_of_a_pod_is_shown_alike(twins: Twins, namespace: str) -> None:
    """In one word, by the states of its containers; the last one is Terminating."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": name, "image": name} for name in ("web", "log")]
    inits = [{"name": "init", "image": "init"}, {"name": "sidecar", "image": "x", "restartPolicy": "Always"}]
    spec = {"containers": containers, "initContainers": inits, "readinessGates": [{"conditionType": "Ready"}]}
    for index, (word, status) in enumerate(PODS):
        name = f"pod-{index}"
        metadata = {"name": name, "finalizers": ["example.com/held"]}
        twins.agree("POST", path, {"metadata": metadata, "spec": spec})
        twins.agree("PATCH", f"{path}/{name}/status", {"status": status}, content_type=MERGE)
        (cells,) = agree_on_the_table(twins, f"{path}/{name}")
        assert cells[2] == word, name
    twins.agree("DELETE", f"{path}/pod-0")
    assert agree_on_the_table(twins, f"{path}/pod-0")[0][2] == "Terminating"


BALANCER = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "a.example.com"}]}}
BALANCED = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
BOUND = {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
COUNTS = {"replicas": 3, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
STATUSES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("apps/v1/Deployment", {"replicas": 3}, COUNTS),
    ("apps/v1/ReplicaSet", {}, {"replicas": 3, "readyReplicas": 1}),
    ("apps/v1/StatefulSet", {}, {"replicas": 3, "readyReplicas": 1}),
    ("v1/Service", BALANCED | {"clusterIP": "10.0.0.71"}, BALANCER),
    ("v1/Service", BALANCED | {"clusterIP": "10.0.0.72"}, {}),
    ("v1/Service", {"externalIPs": ["1.2.3.5"], "selector": None}, {}),
    ("v1/PersistentVolumeClaim", {"volumeName": "pv"}, BOUND),
    ("networking.k8s.io/v1/Ingress", {}, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
    ("batch/v1/CronJob", {"suspend": True, "timeZone": "Etc/UTC"}, {"lastScheduleTime": THEN}),
    (
        "policy/v1/PodDisruptionBudget",
        {"minAvailable": None, "maxUnavailable": "10%"},
        {"disruptionsAllowed": 2, "observedGeneration": 1},
    ),
)


@on_both
@pytest.mark.parametrize(("kind", "spec", "status"), STATUSES)
def test_a_status_is_shown_alike(
    twins: Twins, namespace: str, kind: str, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    """As controllers and cloud providers write it."""
    path = path_of(resource_of(kind), namespace)
    body = sample(kind, "web")
    twins.ask("POST", path, body | {"spec": body["spec"] | spec})
    name = body["metadata"]["name"]
    twins.ask("PATCH", f"{path}/{name}/status", {"status": status}, content_type=MERGE)
    agree_on_the_table(twins, f"{path}/{name}")


@on_both
def test_an_event_is_shown_alike(twins: Twins, namespace: str) -> None:
    """Its object, its count, and its source."""
    path = f"/api/v1/namespaces/{namespace}/events"
    about = {"kind": "Pod", "name": "web", "namespace": namespace, "fieldPath": "spec.containers{web}"}
    occurred = {"reason": "Failed", "message": " no \n", "type": "Warning", "count": 3}
    times = {"firstTimestamp": THEN, "lastTimestamp": THEN}
    body = {
        "metadata": {"name": "web"},
        "involvedObject": about,
        "source": {"component": "me", "host": "here"},
    }
    twins.agree("POST", path, body | occurred | times)
    (cells,) = agree_on_the_table(twins, f"{path}/web")
    assert cells[1:7] == ["Warning", "Failed", "pod/web", "spec.containers{web}", "me, here", "no"]


COLUMNS = [
    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "description": "how many"},
    {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "priority": 1},
    {"name": "On", "type": "boolean", "jsonPath": ".spec.enabled"},
    {"name": "Text of a number", "type": "string", "jsonPath": ".spec.replicas"},
    {"name": "Number of a text", "type": "integer", "jsonPath": ".spec.color"},
    {"name": "First", "type": "string", "jsonPath": ".spec.list[0]"},
    {"name": "All", "type": "string", "jsonPath": ".spec.list"},
    {"name": "Label", "type": "string", "jsonPath": ".metadata.labels['example\\.com/a']"},
    {"name": "One", "type": "string", "jsonPath": '.spec.map[?(@.key=="b")].value'},
    {"name": "More", "type": "string", "jsonPath": ".spec.map[?(@.value>1)].key"},
    {"name": "Last", "type": "string", "jsonPath": ".spec.list[-1]"},
    {"name": "All", "type": "string", "jsonPath": ".spec.list[*]"},
    {"name": "First", "type": "integer", "jsonPath": ".spec.map[*].value"},
    {"name": "None", "type": "integer", "jsonPath": ".spec.map[?(@.key=='z')].value"},
    {"name": "Missing", "type": "string", "jsonPath": ".status.nothing.there"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


@pytest.fixture
def shown(api_server: ApiServer, emulator: ApiServer, namespace: str) -> Iterator[str]:
    """Give the path of Gadgets in a group of the test's own, whose definition asks for columns."""
    group = f"{namespace}.example.com"
    definition = json.loads(json.dumps(gadgets.definition()).replace(gadgets.GROUP, group))
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = COLUMNS
    servers = api_server.client(), emulator.client()
    for client in servers:
        client.create(definition)
        wait_until_served(client, f"{group}/v1/Gadget")
    yield f"/apis/{group}/v1/namespaces/{namespace}/gadgets"
    for client in servers:
        _delete(client, definition)


def _delete(client: Client, definition: dict[str, Any]) -> None:
    client.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", definition["metadata"]["name"])


@on_both
def test_the_columns_of_a_definition_are_shown_alike(twins: Twins, shown: str) -> None:
    """By simple paths, as texts, numbers, truths and times; an absent value is empty."""
    group = shown.split("/")[2]
    labels = {"labels": {"example.com/a": "b"}}
    whole = {"color": "red", "ratio": 1.5, "enabled": True, "list": ["x", "y"]}
    whole["map"] = [{"key": key, "value": value} for key, value in (("a", 1), ("b", 2), ("c", 3))]
    for name, spec, metadata in ("full", whole, labels), ("empty", {}, {}):
        body = gadgets.gadget(name, spec, metadata=metadata) | {"apiVersion": f"{group}/v1"}
        twins.agree("POST", shown, body)
    full, empty = sorted(agree_on_the_table(twins, shown), reverse=True)
    assert full[:10] == ["full", "red", 2, 1.5, True, "2", None, "x", '["x","y"]', "b"]
    assert empty[:4] == ["empty", None, 2, None]


@on_both
def test_a_definition_without_columns_shows_ages(twins: Twins, gadgets: str) -> None:
    """As most do."""
    twins.agree("POST", gadgets, {"spec": {"replicas": 2}, **_named("web")})
    assert agree_on_the_table(twins, gadgets) == [["web", "AGE"]]


def _named(name: str) -> dict[str, Any]:
    return {"apiVersion": f"{gadgets.GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}}


def test_a_watch_sends_its_columns_once(api: Api, config_maps: str) -> None:
    """In its first event; each event has one row."""
    start = api.version(config_maps)
    for name in "ab":
        api.create(config_maps, config_map(name))
    first, second = api.watch(config_maps, 2, accept=TABLE, resourceVersion=start)
    assert [each["name"] for each in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not second["object"]["columnDefinitions"]
    assert [each["object"]["rows"][0]["cells"][0] for each in (first, second)] == ["a", "b"]


@pytest.mark.parametrize(("include", "kind"), [("Object", "ConfigMap"), ("None", None)])
def test_rows_hold_the_objects_that_are_asked_for(
    api: Api, config_maps: str, include: str, kind: str | None
) -> None:
    """The whole object, or nothing, in place of its metadata."""
    api.create(config_maps, config_map("a"))
    table = api.get(config_maps, accept=TABLE, includeObject=include)
    assert [(each.get("object") or {}).get("kind") for each in table["rows"]] == [kind]


DURATIONS = {
    -5: "<invalid>", -1: "0s", 0.9: "0s", 119: "119s", 120: "2m", 125: "2m5s", 600: "10m", 10_799: "179m",
    10_800: "3h", 12_000: "3h20m", 28_800: "8h", 172_799: "47h", 172_800: "2d", 691_200: "8d",
    180_000: "2d2h",
    63_071_999: "729d", 63_072_000: "2y", 63_158_400: "2y1d", 252_288_000: "8y",
}  # fmt: skip


@pytest.mark.parametrize("seconds", DURATIONS)
def test_durations_have_two_or_three_figures(seconds: float) -> None:
    """As kubectl prints them."""
    assert human_duration(seconds) == DURATIONS[seconds]
