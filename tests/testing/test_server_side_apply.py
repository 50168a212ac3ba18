"""Server-side apply, asked of both servers: managers, conflicts, and lists that are maps."""

from typing import Any

import pytest

from tests.testing.conftest import APPLY, MERGE, deployment, on_both
from tests.testing.gadgets import gadget
from tests.testing.kinds import sample
from tests.testing.twins import Answer, Twins

pytestmark = on_both


class Applier:
    """Applies Gadgets called web under a name."""

    def __init__(self, twins: Twins, gadgets: str, name: str) -> None:
        self._twins, self._path, self._name = twins, f"{gadgets}/web", name

    def apply(self, *, force: bool = False, **spec: object) -> Answer:
        """Apply a spec of these fields alone."""
        body = gadget() | {"spec": spec}
        return self._send(self._path, body, force=force)

    def apply_status(self, *, force: bool = False, **status: object) -> Answer:
        """Apply a status."""
        body = {name: value for name, value in gadget(status=status).items() if name != "spec"}
        return self._send(f"{self._path}/status", body, force=force)

    def _send(self, path: str, body: Answer, *, force: bool) -> Answer:
        flag = "true" if force else "false"
        return self._twins.agree("PATCH", path, body, content_type=APPLY, fieldManager=self._name, force=flag)


@pytest.fixture
def ada(twins: Twins, gadgets: str) -> Applier:
    """Give a manager."""
    return Applier(twins, gadgets, "ada")


@pytest.fixture
def bob(twins: Twins, gadgets: str) -> Applier:
    """Give another one."""
    return Applier(twins, gadgets, "bob")


def conflicts(answer: Answer) -> list[str]:
    """Return the fields that a Conflict names."""
    return [cause["field"] for cause in answer["details"]["causes"]]


def test_lists_of_custom_resources_merge_as_their_schema_says(ada: Applier, bob: Applier) -> None:
    """By keys, as sets, or not at all."""
    ada.apply(replicas=2, map=[{"key": "a", "value": 1}], set=["x"], list=["a"])
    spec = bob.apply(map=[{"key": "b", "value": 1}], set=["y"], force=True)["spec"]
    assert spec["map"] == [{"key": "a", "value": 1}, {"key": "b", "value": 1}]
    assert spec["set"] == ["x", "y"]
    assert bob.apply(list=["b"], force=True)["spec"]["list"] == ["b"]


def test_fields_of_another_manager_are_a_conflict(ada: Applier, bob: Applier) -> None:
    """Each is named, and force takes them; the same value is no conflict."""
    ada.apply(replicas=2, map=[{"key": "a", "value": 1}], color="red")
    bob.apply(replicas=2)
    refused = bob.apply(replicas=4, map=[{"key": "a", "value": 3}])
    assert (refused["code"], conflicts(refused)) == (409, ['.spec.map[key="a"].value', ".spec.replicas"])
    assert bob.apply(replicas=4, force=True)["spec"]["replicas"] == 4
    assert conflicts(ada.apply(replicas=2, color="red")) == [".spec.replicas"]


def test_a_client_that_patches_a_field_manages_it(twins: Twins, gadgets: str, ada: Applier) -> None:
    """So that an apply of another value is a conflict."""
    ada.apply(replicas=2, color="red")
    patch = {"spec": {"color": "blue"}}
    twins.agree("PATCH", f"{gadgets}/web", patch, content_type=MERGE, fieldManager="editor")
    assert conflicts(ada.apply(replicas=2, color="red")) == [".spec.color"]
    assert ada.apply(replicas=2)["spec"]["color"] == "blue"


def test_a_field_that_a_manager_leaves_out_goes_unless_another_has_it(ada: Applier, bob: Applier) -> None:
    """Items of lists and fields of maps alike."""
    ada.apply(replicas=2, color="red", map=[{"key": "a", "value": 1}, {"key": "b"}], free={"x": {"y": 1}})
    bob.apply(map=[{"key": "b"}], free={"x": {"z": 1}})
    spec = ada.apply(replicas=2)["spec"]
    assert spec["map"] == [{"key": "b"}]
    assert spec["free"] == {"x": {"z": 1}}
    assert "color" not in spec


def test_a_status_has_managers_of_its_own(twins: Twins, gadgets: str, ada: Applier, bob: Applier) -> None:
    """A client that patches it is named with the subresource."""
    ada.apply(replicas=2)
    ada.apply_status(phase="Ready")
    assert conflicts(bob.apply_status(phase="Pending")) == [".status.phase"]
    patch = {"status": {"phase": "Pending"}}
    twins.agree("PATCH", f"{gadgets}/web/status", patch, content_type=MERGE, fieldManager="editor")
    refused = ada.apply_status(phase="Ready")
    assert 'with subresource "status"' in refused["message"]
    assert ada.apply(replicas=4)["status"] == {"phase": "Pending"}


def test_a_configuration_keeps_to_the_schema(ada: Applier) -> None:
    """Unknown fields, wrong types and repeated keys are reported by their paths; limits as elsewhere."""
    ada.apply(replicas=2)
    for spec in (
        {"nested": {"unknown": 1}},
        {"replicas": "2"},
        {"list": "x"},
        {"title": 2, "enabled": 1},
        {"map": [{"key": "a"}, {"key": "a"}]},
        {"set": ["a", "a"]},
        {"map": [{"value": 1}]},
    ):
        assert ada.apply(**spec)["code"] == 500
    assert ada.apply(replicas=0)["code"] == 422
    assert ada._send(f"{ada._path}/status", gadget(status={"unknown": 1}), force=False)["code"] == 500


@pytest.mark.parametrize("metadata", ["web", 1, [], {"name": 1}])
def test_metadata_of_another_type_are_refused(twins: Twins, namespace: str, metadata: Any) -> None:
    """With the same words; a value that is no text is no part of the object's name there."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    twins.agree("PATCH", path, configuration, content_type=APPLY, fieldManager="ada")


def test_containers_and_ports_of_built_in_kinds_merge(twins: Twins, namespace: str) -> None:
    """By the keys that the published schemas name, with the defaults of those that are left out."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    twins.agree("PATCH", path, sample("apps/v1/Deployment", "web"), content_type=APPLY, fieldManager="ada")
    container = {
        "name": "web",
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443, "protocol": "UDP"}],
        "env": [{"name": "SIZE", "value": "1"}],
    }
    template = {"spec": {"containers": [{"name": "proxy", "image": "proxy"}, container]}}
    mine = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }
    twins.agree("PATCH", path, mine, content_type=APPLY, fieldManager="bob")
    template["spec"]["containers"] = [{"name": "web", "image": "web:2"}]
    assert twins.agree("PATCH", path, mine, content_type=APPLY, fieldManager="bob")["code"] == 409
    twins.agree("PATCH", path, mine, content_type=APPLY, fieldManager="bob", force="true")
    twins.agree("PATCH", path, {**mine, "spec": {"replica": 1}}, content_type=APPLY, fieldManager="bob")


def test_a_list_that_an_apply_empties_is_still_managed(twins: Twins, deployments: str) -> None:
    """By its creator, although nothing of it is left to see: to fill it again is a conflict."""

    def body(name: str, *variables: str) -> Answer:
        whole = deployment("web", **{name: "web"})
        env = [{"name": each, "value": "1"} for each in variables]
        whole["spec"]["template"]["spec"]["containers"][0] |= {"env": env} if env else {}
        return whole

    path = f"{deployments}/web"
    applied = {"content_type": APPLY, "fieldManager": "bob"}
    twins.agree("POST", deployments, body("log", "B"), fieldManager="cyd")
    twins.agree("PATCH", path, body("log", "A"), **applied, force="true")
    twins.agree("PATCH", path, {"spec": body("log", "A")["spec"]}, content_type=MERGE, fieldManager="cyd")
    emptied = twins.agree("PATCH", path, body("web"), **applied, force="true")
    assert "env" not in emptied["spec"]["template"]["spec"]["containers"][0]
    refused = twins.agree("PATCH", path, body("log", "B"), content_type=APPLY, fieldManager="ada")
    assert conflicts(refused) == ['.spec.template.spec.containers[name="log"].env']


def test_a_custom_list_that_another_client_manages_is_not_emptied(
    twins: Twins, gadgets: str, ada: Applier
) -> None:
    """It would be null, which no schema allows; what else is wrong is reported with it."""
    twins.agree("POST", gadgets, gadget(spec={"map": [{"key": "a"}]}), fieldManager="cyd")
    ada.apply(map=[{"key": "b"}], force=True)
    change = {"spec": {"map": [{"key": "b"}]}}
    twins.agree("PATCH", f"{gadgets}/web", change, content_type=MERGE, fieldManager="cyd")
    refused = ada.apply(enabled="yes", force=True)
    assert refused["code"] == 500
    assert conflicts(ada.apply(replicas=11, force=True)) == ["spec.map", "spec.replicas", "spec.replicas"]


def test_the_creator_of_an_object_manages_the_elements_that_its_fields_are_in(
    twins: Twins, deployments: str
) -> None:
    """A container stays that another manager applies and leaves out again."""
    applied = {"content_type": APPLY, "fieldManager": "ada", "force": "true"}
    twins.agree("POST", deployments, deployment("web", web="web:1"), fieldManager="bob")
    twins.agree("PATCH", f"{deployments}/web", deployment("web", web="web:1"), **applied)
    left = twins.agree("PATCH", f"{deployments}/web", deployment("web", log="log:1"), **applied)
    assert [each["name"] for each in left["spec"]["template"]["spec"]["containers"]] == ["web", "log"]


def test_what_is_taken_by_force_stays_taken(twins: Twins, namespace: str) -> None:
    """Although the server's defaults make of it what was there before."""
    path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    policy, applied = sample("networking.k8s.io/v1/NetworkPolicy", "web"), {"content_type": APPLY}
    twins.agree("POST", path, policy, fieldManager="ada")
    refused = twins.agree("PATCH", f"{path}/web", policy, **applied, fieldManager="bob")
    assert conflicts(refused) == [".spec.egress"]
    twins.agree("PATCH", f"{path}/web", policy, **applied, fieldManager="bob", force="true")
    assert "code" not in twins.agree("PATCH", f"{path}/web", policy, **applied, fieldManager="bob")


def test_who_creates_an_object_does_not_manage_its_status(twins: Twins, namespace: str) -> None:
    """Not even the zeros that are in it from the start."""
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    replica_set = sample("apps/v1/ReplicaSet", "web")
    twins.agree("POST", path, replica_set, fieldManager="ada")
    body = {name: replica_set[name] for name in ("apiVersion", "kind", "metadata")} | {
        "status": {"replicas": 1}
    }
    applied = {"content_type": APPLY, "fieldManager": "ada"}
    assert "code" not in twins.agree("PATCH", f"{path}/web/status", body, **applied)


def test_who_applies_an_empty_map_does_not_manage_what_others_put_there(ada: Applier, bob: Applier) -> None:
    """As an atomic field the map would be a conflict."""
    ada.apply(replicas=2, free={})
    assert bob.apply(free={"x": 1})["spec"]["free"] == {"x": 1}
    assert ada.apply(replicas=2, free={})["spec"]["free"] == {"x": 1}
