"""Scale and eviction, asked of both servers."""

from typing import Any

import pytest

from tests.testing import gadgets as gadgets_of
from tests.testing.conftest import deployment, on_both
from tests.testing.play import APPLY, MERGE
from tests.testing.twins import Answer, Twins

pytestmark = on_both
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
BUDGET = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}


@pytest.fixture
def pods(namespace: str) -> str:
    """Give the path of the test's Pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def budgets(namespace: str) -> str:
    """Give the path of the test's PodDisruptionBudgets."""
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


@pytest.fixture(params=["deployments", "gadgets"])
def scaled(request: pytest.FixtureRequest, twins: Twins, deployments: str, gadgets: str) -> str:
    """Give the path of an object that can be scaled, of a built-in or a custom kind."""
    if request.param == "deployments":
        path, body = deployments, deployment("web", web="web:1")
        tiers = {"key": "tier", "operator": "In", "values": ["b", "a"]}
        body["spec"]["selector"]["matchExpressions"] = [{"key": "old", "operator": "DoesNotExist"}, tiers]
        body["spec"]["template"]["metadata"]["labels"]["tier"] = "a"
    else:
        path, body = gadgets, gadgets_of.gadget()
    twins.agree("POST", path, body)
    return f"{path}/web"


def test_a_scale_is_read_and_written_alike(twins: Twins, scaled: str) -> None:
    """By PUT and patches; it leaves fields that it does not know, and refuses impossible values."""
    twins.agree("GET", f"{scaled}/scale")
    assert twins.agree("PATCH", f"{scaled}/scale", {"spec": {"replicas": 4}}, content_type=MERGE)["spec"]
    for replicas in 3, -1, 8, None:
        spec = {"spec": {"replicas": replicas}}
        twins.agree("PATCH", f"{scaled}/scale", spec, content_type=MERGE)
        twins.agree("PUT", f"{scaled}/scale", SCALE | spec)
    twins.agree("PATCH", f"{scaled}/scale", {"spec": {"replicas": "x"}}, content_type=MERGE)
    operation = {"op": "replace", "path": "/spec/replicas", "value": 2}
    twins.agree("PATCH", f"{scaled}/scale", [operation], content_type="application/json-patch+json")
    twins.agree("PATCH", f"{scaled}/scale", {"status": {"replicas": 7}}, content_type=MERGE)
    twins.agree("PATCH", f"{scaled}/scale", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    strict = {"content_type": MERGE, "fieldValidation": "Strict"}
    twins.agree("PATCH", f"{scaled}/scale", {"spec": {"replica": 1}}, **strict)
    twins.agree("PATCH", f"{scaled}/scale", {"spec": {"replicas": 6}}, content_type=MERGE, dryRun="All")
    assert twins.agree("GET", scaled)["spec"]["replicas"] == 2


def test_a_scale_of_another_object_or_version_is_refused_alike(twins: Twins, scaled: str) -> None:
    """And one of an object that is not there, or has none."""
    old = {**SCALE, "metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 2}}
    assert twins.agree("PUT", f"{scaled}/scale", old)["code"] == 409
    assert twins.agree("PUT", f"{scaled}/scale", {**SCALE, "metadata": {"name": "other"}})["code"] == 400
    for server in twins.ask("PUT", f"{scaled}/scale", {**SCALE, "metadata": {"name": "web", "uid": "other"}}):
        assert server["code"] == 409
    missing = scaled.replace("/web", "/missing")
    twins.agree("GET", f"{missing}/scale")
    twins.agree("PATCH", f"{missing}/scale", {}, content_type=MERGE)


def test_a_client_that_scales_manages_the_replicas(twins: Twins, scaled: str) -> None:
    """An apply of other replicas is a conflict then, and the applier's again by force."""
    whole = twins.agree("GET", scaled)
    ours = {name: whole[name] for name in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "web"}}
    ours["spec"]["replicas"] = 8
    applied = {"content_type": APPLY, "fieldManager": "ada"}
    twins.agree("PATCH", scaled, ours, **applied, force="true")
    twins.agree("PATCH", f"{scaled}/scale", {"spec": {"replicas": 4}}, content_type=MERGE, fieldManager="bob")
    refused = twins.agree("PATCH", scaled, ours, **applied)
    assert 'conflict with "bob" with subresource "scale"' in refused["message"]
    twins.agree("PATCH", f"{scaled}/scale", {"spec": {"replicas": 4}}, content_type=MERGE, fieldManager="cyd")
    twins.agree("PATCH", scaled, ours, **applied)
    twins.agree("PATCH", scaled, ours, **applied, force="true")
    twins.agree("PATCH", scaled, ours, **applied)


def test_a_custom_scale_shows_its_status(twins: Twins, gadgets: str) -> None:
    """By the paths that the definition gives; the selector is a text there."""
    twins.agree("POST", gadgets, gadgets_of.gadget())
    status = {"status": {"ready": 3, "selector": "app=web"}}
    twins.agree("PATCH", f"{gadgets}/web/status", status, content_type=MERGE)
    shown = twins.agree("GET", f"{gadgets}/web/scale")
    assert shown["status"] == {"replicas": 3, "selector": "app=web"}


class Eviction:
    """Evicts Pods that are running, and have a finalizer so that they can be looked at afterwards."""

    def __init__(self, twins: Twins, pods: str) -> None:
        self._twins = twins
        self._pods = pods

    def run(self, name: str, *, phase: str = "Running", ready: str = "True", app: str = "web") -> None:
        """Write a Pod as a kubelet would."""
        metadata = {"name": name, "labels": {"app": app}, "finalizers": ["example.com/look"]}
        spec = {"containers": [{"name": "web", "image": "web"}]}
        self._twins.agree("POST", self._pods, {"metadata": metadata, "spec": spec})
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
        path = f"{self._pods}/{name}/status"
        self._twins.agree("PATCH", path, {"status": status}, content_type=MERGE)

    def evict(self, name: str, **fields: Any) -> Answer:
        """Return what both servers answer; they leave the Pod alike, too."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
        answer = self._twins.agree("POST", f"{self._pods}/{name}/eviction", body)
        self._twins.agree("GET", f"{self._pods}/{name}")
        return answer


@pytest.fixture
def eviction(twins: Twins, pods: str) -> Eviction:
    """Give what evicts Pods."""
    return Eviction(twins, pods)


def test_an_eviction_deletes_a_pod_and_says_why(twins: Twins, pods: str, eviction: Eviction) -> None:
    """In a condition of the Pod; a rehearsal leaves it, and other names and verbs are refused."""
    eviction.run("web")
    eviction.evict("web", deleteOptions={"dryRun": ["All"]})
    for server in twins.ask("GET", f"{pods}/web"):
        assert "DisruptionTarget" not in str(server)
    assert eviction.evict("web")["code"] == 201
    eviction.evict("missing")
    for metadata in {"name": "other"}, {}, {"name": "web", "namespace": "other"}:
        twins.agree("POST", f"{pods}/web/eviction", {"metadata": metadata})
    twins.agree("GET", f"{pods}/web/eviction")


def test_a_budget_refuses_an_eviction_and_says_why(twins: Twins, budgets: str, eviction: Eviction) -> None:
    """By what its status says, which is out of date at first."""
    twins.agree("POST", budgets, {"metadata": {"name": "web"}, "spec": BUDGET})
    eviction.run("a")
    failed = {"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    seen: dict[str, Any] = {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1}
    statuses: list[dict[str, Any]] = [
        {},
        seen,
        seen | {"currentHealthy": 2},
        seen | {"conditions": [failed | {"reason": "SyncFailed", "message": "no such kind"}]},
        seen | {"currentHealthy": 2, "conditions": [failed | {"reason": "Other", "message": "no"}]},
    ]
    for status in statuses:
        twins.agree("PATCH", f"{budgets}/web/status", {"status": status}, content_type=MERGE)
        assert eviction.evict("a")["code"] == 429
    eviction.run("other", app="other")
    assert eviction.evict("other")["code"] == 201


def test_an_eviction_takes_one_of_the_disruptions(twins: Twins, budgets: str, eviction: Eviction) -> None:
    """Until none is left; a rehearsal takes none."""
    twins.agree("POST", budgets, {"metadata": {"name": "web"}, "spec": BUDGET})
    status = {"observedGeneration": 1, "disruptionsAllowed": 2, "desiredHealthy": 1, "currentHealthy": 3}
    twins.agree("PATCH", f"{budgets}/web/status", {"status": status}, content_type=MERGE)
    eviction.run("a")
    eviction.evict("a", deleteOptions={"dryRun": ["All"]})
    for name, code in ("a", 201), ("b", 201), ("c", 429):
        if name != "a":
            eviction.run(name)
        assert eviction.evict(name)["code"] == code
        for server in twins.ask("GET", f"{budgets}/web"):
            disrupted = server["status"].get("disruptedPods", {})
            assert sorted(disrupted) == [each for each in "ab" if each <= name]


def test_an_eviction_that_disturbs_no_pod_needs_no_budget(
    twins: Twins, budgets: str, eviction: Eviction
) -> None:
    """Pods that wait, have ended, or are not ready where that is said to be enough."""
    twins.agree("POST", budgets, {"metadata": {"name": "web"}, "spec": BUDGET})
    for phase in "Pending", "Succeeded", "Failed":
        eviction.run(phase.lower(), phase=phase)
        assert eviction.evict(phase.lower())["code"] == 201
    eviction.run("sick", ready="False")
    assert eviction.evict("sick")["code"] == 429
    always = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    twins.agree("PATCH", f"{budgets}/web", always, content_type=MERGE)
    assert eviction.evict("sick")["code"] == 201


def test_two_budgets_for_a_pod_are_one_too_many(twins: Twins, budgets: str, eviction: Eviction) -> None:
    """One that selects all counts, one without a selector does not."""
    for name, spec in ("none", {"maxUnavailable": 1}), ("web", BUDGET), ("all", {**BUDGET, "selector": {}}):
        twins.agree("POST", budgets, {"metadata": {"name": name}, "spec": spec})
    eviction.run("a")
    assert eviction.evict("a")["code"] == 500
