"""Updates of built-in kinds: what stays, what goes with it, and what cannot change."""

from typing import Any

import pytest

from tests.testing.conftest import Api, on_both
from tests.testing.kinds import sample
from tests.testing.play import MERGE
from tests.testing.twins import Twins

_OF_BALANCERS = {"allocateLoadBalancerNodePorts", "externalTrafficPolicy"}
_OF_ADDRESSES = {"clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"}


@pytest.fixture
def services(namespace: str) -> str:
    """Give the path of the test's Services."""
    return f"/api/v1/namespaces/{namespace}/services"


def service(kind: str, **spec: Any) -> dict[str, Any]:
    """Return a Service of a type, without what the server gives it."""
    ports = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
    return {"metadata": {"name": "web"}, "spec": {"type": kind, "ports": ports, **spec}}


def test_a_service_keeps_what_it_was_given(api: Api, services: str) -> None:
    """Its address and the ports of nodes, also where an update does not name them."""
    created = api.create(services, service("LoadBalancer"))
    again = api.put(f"{services}/web", service("LoadBalancer"))
    assert (again["spec"], again["metadata"]) == (created["spec"], created["metadata"])


def test_a_service_of_another_type_loses_what_its_type_has_no_use_for(api: Api, services: str) -> None:
    """As far as the update leaves it; the address cannot change, but goes with an ExternalName."""
    address = api.create(services, service("LoadBalancer"))["spec"]["clusterIP"]
    inner = api.merge(f"{services}/web", {"spec": {"type": "ClusterIP"}})["spec"]
    assert not inner.keys() & _OF_BALANCERS
    assert not any("nodePort" in port for port in inner["ports"])
    for other in "10.96.77.77", "None":
        patch = {"spec": {"clusterIP": other}}
        refused = api.refused("PATCH", f"{services}/web", patch, content_type=MERGE)
        assert (
            f'spec.clusterIPs[0]: Invalid value: ["{other}"]: may not change once set' in refused["message"]
        )
    assert api.merge(f"{services}/web", {"spec": {"type": "NodePort"}})["spec"]["clusterIP"] == address
    name = {"type": "ExternalName", "externalName": "a.example"}
    assert not api.merge(f"{services}/web", {"spec": name})["spec"].keys() & (_OF_BALANCERS | _OF_ADDRESSES)
    assert api.merge(f"{services}/web", {"spec": {"type": "ClusterIP", "externalName": None}})


def test_only_a_load_balancer_has_addresses_of_one(api: Api, services: str) -> None:
    """Whoever writes them writes a status of the right type; each address has a mode."""
    api.create(services, service("LoadBalancer"))
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    kept = api.merge(f"{services}/web/status", status)["status"]["loadBalancer"]["ingress"]
    assert kept == [{"ip": "192.0.2.1", "ipMode": "VIP"}]
    api.merge(f"{services}/web/status", {"status": {"loadBalancer": None}})
    api.merge(f"{services}/web", {"spec": {"type": "ClusterIP"}})
    refused = api.refused("PATCH", f"{services}/web/status", status, content_type=MERGE)
    assert "may only be used when `spec.type` is 'LoadBalancer'" in refused["message"]


def test_an_external_name_is_named(api: Api, services: str) -> None:
    """The type alone is not enough."""
    api.create(services, service("ClusterIP"))
    unnamed = {"spec": {"type": "ExternalName"}}
    refused = api.refused("PATCH", f"{services}/web", unnamed, content_type=MERGE)
    assert refused["message"] == 'Service "web" is invalid: spec.externalName: Required value'


@pytest.mark.parametrize("field", ["nodeName", "terminationGracePeriodSeconds"])
def test_a_pod_keeps_its_node_and_its_time_to_end(api: Api, namespace: str, field: str) -> None:
    """The first by its binding, the second as it was created."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, sample("v1/Pod", "web"))
    patch = {"spec": {field: 5 if field.endswith("Seconds") else "here"}}
    refused = api.refused("PATCH", f"{pods}/web", patch, content_type=MERGE)
    assert refused["message"].startswith('Pod "web" is invalid: spec: Forbidden: pod updates may not change')


@on_both
def test_a_job_keeps_its_end(twins: Twins, namespace: str) -> None:
    """And its labels; how many Pods end well can change with those that run, if each has an index."""
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    job, indexed = sample("batch/v1/Job", "web"), sample("batch/v1/Job", "indexed")
    indexed["spec"] = {**indexed["spec"], "completionMode": "Indexed", "parallelism": 2}
    assert twins.agree("POST", jobs, indexed)["code"] == 422
    indexed["spec"] = {**indexed["spec"], "completionMode": "Indexed", "completions": 2, "parallelism": 2}
    for each in job, indexed:
        twins.agree("POST", jobs, each)
    unlabelled = {"metadata": {"labels": None}}
    assert twins.agree("PATCH", f"{jobs}/web", unlabelled, content_type=MERGE)["metadata"]["labels"]
    for name, spec, is_taken in (
        ("web", {"completions": 2}, False),
        ("web", {"parallelism": 2}, True),
        ("web", {"managedBy": "example.com/mine"}, False),
        ("indexed", {"completions": 3}, False),
        ("indexed", {"completions": 3, "parallelism": 3}, True),
        ("indexed", {"backoffLimitPerIndex": 1}, False),
    ):
        answer = twins.agree("PATCH", f"{jobs}/{name}", {"spec": spec}, content_type=MERGE)
        assert ("code" not in answer) is is_taken


@on_both
@pytest.mark.parametrize(
    ("kind", "field", "other"),
    [("Deployment", "strategy", "Recreate"), ("StatefulSet", "updateStrategy", "OnDelete")],
)
def test_another_strategy_leaves_the_fields_of_the_first(
    twins: Twins, namespace: str, kind: str, field: str, other: str
) -> None:
    """And is refused with them: who changes it has to remove them, too."""
    path = f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s"
    twins.agree("POST", path, sample(f"apps/v1/{kind}", "web"))
    change: dict[str, Any] = {"spec": {field: {"type": other}}}
    assert not twins.concur("PATCH", f"{path}/web", change, content_type=MERGE)
    change["spec"][field]["rollingUpdate"] = None
    assert twins.concur("PATCH", f"{path}/web", change, content_type=MERGE)
