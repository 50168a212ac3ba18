"""The end of a namespace: what it takes with it, what it waits for, and what it no longer takes.

kube-apiserver alone leaves namespaces Terminating for ever; here the emulated server does what
kube-controller-manager does beside it.
"""

from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.testing.conftest import Api, changes, config_map, deployment, lease, on_both, wait_until_gone
from tests.testing.play import APPLY, MERGE
from tests.testing.twins import Twins

HELD = {"finalizers": ["example.com/hold"]}
LET_GO = {"metadata": {"finalizers": None}}

emulated = pytest.mark.parametrize("api_server", ["emulator"], indirect=True, scope="session")
"""Marks a test of what no kube-apiserver does alone."""


@pytest.fixture
def path(namespace: str) -> str:
    """Give the path of the test's namespace."""
    return f"/api/v1/namespaces/{namespace}"


def conditions(namespace: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and message of each condition."""
    listed = namespace["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}


@emulated
def test_all_that_is_in_it_goes_along(api: Api, path: str, namespace: str) -> None:
    """One by one, as watches see, across resources, and then the namespace."""
    starts = api.version("/api/v1/configmaps"), api.version("/api/v1/namespaces")
    api.create(f"{path}/configmaps", config_map("a"))
    api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", web="web:1"))
    assert api.delete(path)["status"] == {"phase": "Terminating"}
    wait_until_gone(api, path)
    seen = api.watch("/api/v1/configmaps", 2, resourceVersion=starts[0])
    assert changes(seen) == [("ADDED", "a"), ("DELETED", "a")]
    selected = {"resourceVersion": starts[1], "fieldSelector": f"metadata.name={namespace}"}
    events = api.watch("/api/v1/namespaces", 3, **selected)
    assert [event["type"] for event in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert conditions(events[-1]["object"])["NamespaceContentRemaining"] == (
        "False",
        "ContentRemoved",
        "All content successfully removed",
    )
    api.refused("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/web")


@emulated
def test_it_waits_for_finalizers_and_says_for_which(api: Api, path: str, namespace: str) -> None:
    """Its conditions follow what is left, with the time since when."""
    for name in "ab":
        api.create(f"{path}/configmaps", config_map(name, metadata=HELD))
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease("c", metadata=HELD))
    api.delete(path)
    eventually(lambda: "conditions" in api.get(path)["status"])
    left = conditions(api.get(path))
    assert left.pop("NamespaceContentRemaining") == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 2 resource instances, "
        "leases.coordination.k8s.io has 1 resource instances",
    )
    assert left.pop("NamespaceFinalizersRemaining") == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances",
    )
    assert {each[0] for each in left.values()} == {"False"}
    assert all("deletionTimestamp" in each["metadata"] for each in api.get(f"{path}/configmaps")["items"])
    api.merge(f"{path}/configmaps/a", LET_GO)
    eventually(lambda: "configmaps. has 1 resource" in str(api.get(path)))
    api.merge(f"{path}/configmaps/b", LET_GO)
    api.merge(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/c", LET_GO)
    wait_until_gone(api, path)


@emulated
def test_pods_go_before_everything_else(api: Api, path: str) -> None:
    """So that they keep what they use until they have ended."""
    pod = {"metadata": {"name": "web", **HELD}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    api.create(f"{path}/pods", pod)
    api.create(f"{path}/configmaps", config_map("a"))
    api.delete(path)
    eventually(lambda: "conditions" in api.get(path)["status"])
    assert "deletionTimestamp" in api.get(f"{path}/pods/web")["metadata"]
    assert "deletionTimestamp" not in api.get(f"{path}/configmaps/a")["metadata"]
    api.merge(f"{path}/pods/web", LET_GO)
    wait_until_gone(api, path)


@emulated
def test_its_own_finalizers_hold_it_when_it_is_empty(api: Api) -> None:
    """Those of its metadata by any write, those of its spec by finalize."""
    body = {"metadata": {"name": "own", **HELD}, "spec": {"finalizers": ["example.com/mine"]}}
    api.create("/api/v1/namespaces", body)
    path = "/api/v1/namespaces/own"
    api.delete(path)
    eventually(lambda: api.get(path)["spec"] == {"finalizers": ["example.com/mine"]})
    api.put(f"{path}/finalize", api.get(path) | {"spec": {}})
    assert api.get(path)["spec"] == {}
    api.merge(path, LET_GO)
    wait_until_gone(api, path)


def test_a_rehearsed_end_is_none(api: Api, path: str) -> None:
    """The answer is that of the end; the namespace goes on."""
    dry = api.delete(path, {"dryRun": ["All"]})
    assert dry["status"] == {"phase": "Terminating"}
    assert api.get(path)["status"] == {"phase": "Active"}
    api.create(f"{path}/configmaps", config_map("a"))


@on_both
def test_it_takes_nothing_new_while_it_ends(twins: Twins, path: str, namespace: str) -> None:
    """By none of the ways to create; present objects can still be written."""
    twins.agree("POST", f"{path}/configmaps", config_map("held", metadata=HELD))
    twins.agree("DELETE", path)
    unnamed: list[dict[str, Any]] = [{"metadata": {"generateName": "new-"}}, {"metadata": {}}]
    for body in [config_map("new"), config_map("held"), *unnamed]:
        assert twins.agree("POST", f"{path}/configmaps", body)["code"] == 403
    applied = {"content_type": APPLY, "fieldManager": "ada"}
    refused = twins.agree("PATCH", f"{path}/configmaps/new", config_map("new"), **applied)
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    assert twins.agree("PUT", f"{leases}/new", lease("new"))["code"] == 403
    for server in twins.ask("PATCH", f"{path}/configmaps/held", {"data": {"a": "b"}}, content_type=MERGE):
        assert server["data"] == {"a": "b"}


@on_both
def test_finalize_and_status_of_a_namespace_are_checked_alike(
    twins: Twins, path: str, namespace: str
) -> None:
    """Names of finalizers, the phase that its deletion has, and the verbs that there are."""
    named = {"metadata": {"name": namespace}}
    for finalizers in ["Not a name"], ["plain"], ["example.com/mine", "kubernetes"], []:
        twins.agree("PUT", f"{path}/finalize", named | {"spec": {"finalizers": finalizers}})
    for phase in "Terminating", "Active", "Bogus":
        twins.agree("PATCH", f"{path}/status", {"status": {"phase": phase}}, content_type=MERGE)
    twins.agree("GET", f"{path}/finalize")
    twins.agree("PATCH", f"{path}/finalize", {}, content_type=MERGE)
    twins.agree("DELETE", "/api/v1/namespaces")
    twins.agree("DELETE", "/api/v1/namespaces/default")
    twins.agree("PUT", path, named | {"spec": {"finalizers": ["Not a name"]}})


def test_a_namespace_of_another_uid_or_version_is_not_deleted(api: Api, path: str) -> None:
    """The conflict is worded as for no other kind."""
    found = api.get(path)["metadata"]
    for name, field, given in ("UID", "uid", "other"), ("ResourceVersion", "resourceVersion", "1"):
        status = api.refused("DELETE", path, {"preconditions": {field: given}})
        where = f"{name} in precondition: {given}, {name} in object meta: {found[field]}"
        assert (status["code"], status["details"]["kind"]) == (409, "namespaces")
        assert status["message"].endswith(f"Precondition failed: {where}")
