"""The patch formats: the emulated server merges as the real one."""

from typing import Any

import pytest

from tests.testing.conftest import (
    MERGE,
    Api,
    changes,
    config_map,
    deployment,
    lease,
    on_both,
    version_of,
    widget,
)
from tests.testing.twins import Twins

STRATEGIC = "application/strategic-merge-patch+json"


def images(obj: dict[str, Any]) -> dict[str, str]:
    """Return a Deployment's containers and their images."""
    return {each["name"]: each["image"] for each in obj["spec"]["template"]["spec"]["containers"]}


def containers(*each: dict[str, Any]) -> dict[str, Any]:
    """Return a patch of a Deployment's containers."""
    return {"spec": {"template": {"spec": {"containers": list(each)}}}}


def test_a_merge_patch_removes_with_null(api: Api, config_maps: str) -> None:
    """Null removes, a field that is not named stays, and no change keeps the version."""
    api.create(config_maps, config_map("web", a="1", b="2"))
    patched = api.merge(f"{config_maps}/web", {"data": {"b": None, "c": "3"}})
    assert patched["data"] == {"a": "1", "c": "3"}
    assert version_of(api.merge(f"{config_maps}/web", {"data": {"b": None}})) == version_of(patched)


def test_a_patch_can_name_the_version(api: Api, config_maps: str) -> None:
    """A resourceVersion in a patch is a condition."""
    created = api.create(config_maps, config_map("web"))
    version = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"a": "1"}}
    assert api.merge(f"{config_maps}/web", patch)["data"] == {"a": "1"}
    patch["data"] = {"a": "2"}
    status = api.refused("PATCH", f"{config_maps}/web", patch, content_type="application/merge-patch+json")
    assert (status["code"], status["reason"]) == (409, "Conflict")


def test_json_patch_tests_guard_the_rest(api: Api, leases: str) -> None:
    """A test that fails is 422 and changes nothing; on an absent object the patch is 404."""
    created = api.create(leases, lease("web", holderIdentity="one"))
    take = {"op": "replace", "path": "/spec/holderIdentity", "value": "two"}
    for path, value in (("/spec/holderIdentity", "other"), ("/spec/renewTime", "x")):
        test = {"op": "test", "path": path, "value": value}
        status = api.refused(
            "PATCH", f"{leases}/web", [test, take], content_type="application/json-patch+json"
        )
        assert (status["code"], status["reason"]) == (422, "Invalid")
        assert status["message"] == "the server rejected our request due to an error in our request"
    assert version_of(api.get(f"{leases}/web")) == version_of(created)
    test = {"op": "test", "path": "/spec/holderIdentity", "value": "one"}
    assert api.json_patch(f"{leases}/web", test, take)["spec"]["holderIdentity"] == "two"
    status = api.refused("PATCH", f"{leases}/absent", [take], content_type="application/json-patch+json")
    assert status["code"] == 404


def test_json_patch_operations(api: Api, widgets: str) -> None:
    """Each operation of RFC 6902 works, on lists too."""
    api.create(widgets, widget("web", spec={"list": [1, 2], "a/b": 1, "old": "x"}))
    patched = api.json_patch(
        f"{widgets}/web",
        {"op": "add", "path": "/spec/list/-", "value": 3},
        {"op": "add", "path": "/spec/list/0", "value": 0},
        {"op": "remove", "path": "/spec/list/1"},
        {"op": "replace", "path": "/spec/a~1b", "value": 2},
        {"op": "move", "from": "/spec/old", "path": "/spec/new"},
        {"op": "copy", "from": "/spec/new", "path": "/spec/copied"},
    )
    assert patched["spec"] == {"list": [0, 2, 3], "a/b": 2, "new": "x", "copied": "x"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/absent"},
        {"op": "add", "path": "/absent/field", "value": "1"},
        {"op": "bogus", "path": "/data/a", "value": "1"},
        {"op": "move", "from": "/data/absent", "path": "/data/a"},
        {"op": "test", "path": "/absent/field", "value": None},
        {"op": "add", "path": "data", "value": {}},
        {"op": "add", "value": {}},
        {"op": "remove", "path": ""},
        {"op": "move", "from": "", "path": "/data/b"},
        {"op": "copy", "from": "", "path": "/data/b"},
        {"op": "copy", "path": "/data/b"},
        {"op": "move", "from": "/data/a", "path": ""},
        {"op": "add", "path": "", "value": "text"},
        None,
    ],
)
def test_json_patch_refuses_impossible_operations(
    api: Api, config_maps: str, operation: dict[str, Any]
) -> None:
    """An operation on what is not there is 422."""
    api.create(config_maps, config_map("web", a="1"))
    status = api.refused(
        "PATCH", f"{config_maps}/web", [operation], content_type="application/json-patch+json"
    )
    assert (status["code"], status["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({}, "object into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": []}], "array into Go struct field jsonPatchOp.op of type string"),
        ([{"op": "add", "path": 1}], "number into Go struct field jsonPatchOp.path of type string"),
        ([{"op": "copy", "from": {}}], "object into Go struct field jsonPatchOp.from of type string"),
    ],
)
def test_a_body_that_is_no_json_patch_is_refused(
    api: Api, config_maps: str, patch: Any, problem: str
) -> None:
    """As a request that makes no sense, in Go's words."""
    api.create(config_maps, config_map("web"))
    status = api.refused("PATCH", f"{config_maps}/web", patch, content_type="application/json-patch+json")
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert status["message"] == f"error decoding patch: json: cannot unmarshal {problem}"


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"$setElementOrder/containers": None}, 500),
        ({"$setElementOrder/containers": "app"}, 500),
        ({"$setElementOrder/dnsPolicy": ["app"]}, 500),
        ({"securityContext": {"$retainKeys": "all"}}, 400),
    ],
)
def test_a_strategic_merge_refuses_odd_directives(
    api: Api, deployments: str, patch: dict[str, Any], code: int
) -> None:
    """With a Status, as all answers are."""
    api.create(deployments, deployment("web", app="app:1"))
    pod = {"spec": {"template": {"spec": patch}}}
    assert api.refused("PATCH", f"{deployments}/web", pod, content_type=STRATEGIC)["code"] == code


def test_a_strategic_merge_deletes_nothing_from_a_value_that_is_no_list(api: Api, deployments: str) -> None:
    """Nor does it refuse that."""
    api.create(deployments, deployment("web", app="app:1"))
    patch = {"metadata": {"$deleteFromPrimitiveList/name": ["web"]}, "spec": {"replicas": 3}}
    assert api.ask("PATCH", f"{deployments}/web", patch, content_type=STRATEGIC)["spec"]["replicas"] == 3


def test_a_merge_key_may_be_of_any_type_in_an_order(api: Api, deployments: str) -> None:
    """It is then no item's."""
    api.create(deployments, deployment("web", app="app:1"))
    pod: dict[str, Any] = {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": []}]}}}}
    patched = api.ask("PATCH", f"{deployments}/web", pod, content_type=STRATEGIC)
    assert images(patched) == {"app": "app:1"}


def test_a_json_patch_may_do_nothing(api: Api, config_maps: str) -> None:
    """Without operations, by a test for null of an absent value, and by a copy of it."""
    created = api.create(config_maps, config_map("web"))
    absent = {"op": "test", "path": "/metadata/labels", "value": None}
    copied = {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}
    for patch in [], [absent], [copied]:
        assert version_of(api.json_patch(f"{config_maps}/web", *patch)) == version_of(created)


def test_strategic_merge_keeps_the_order_of_the_patch(api: Api, config_maps: str) -> None:
    """In lists that are sets; a value that it does not name stays beside its neighbours."""
    api.create(config_maps, config_map("web", metadata={"finalizers": ["x.io/a", "x.io/b"]}))
    patch = {"metadata": {"finalizers": ["x.io/z", "x.io/b", "x.io/y"]}}
    patched = api.ask("PATCH", f"{config_maps}/web", patch, content_type=STRATEGIC)
    assert patched["metadata"]["finalizers"] == ["x.io/z", "x.io/a", "x.io/b", "x.io/y"]
    api.merge(f"{config_maps}/web", {"metadata": {"finalizers": None}})


def test_strategic_merge_knows_containers_by_name(api: Api, deployments: str) -> None:
    """Containers are merged by name, added and deleted one by one."""
    path = f"{deployments}/web"
    api.create(deployments, deployment("web", app="app:1", proxy="proxy:1"))
    merge = {"name": "app", "image": "app:2"}, {"name": "log", "image": "log:1"}
    patched = api.ask("PATCH", path, containers(*merge), content_type=STRATEGIC)
    assert images(patched) == {"app": "app:2", "proxy": "proxy:1", "log": "log:1"}
    delete = {"name": "proxy", "$patch": "delete"}
    patched = api.ask("PATCH", path, containers(delete), content_type=STRATEGIC)
    assert images(patched) == {"app": "app:2", "log": "log:1"}


POD: dict[str, Any] = {
    "containers": [
        {
            "name": "app",
            "image": "app:1",
            "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "args": ["one", "two"],
        },
        {"name": "proxy", "image": "proxy:1"},
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "one"}],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
    "nodeSelector": {"a": "1", "b": "2"},
}
STRATEGIES: dict[str, Any] = {
    "containers by name": {"containers": [{"name": "proxy", "image": "proxy:2"}]},
    "a container before others": {"containers": [{"name": "log", "image": "log:1"}, {"name": "app"}]},
    "containers in another order": {"containers": [{"name": "proxy"}, {"name": "app", "args": ["three"]}]},
    "container gone": {"containers": [{"name": "proxy", "$patch": "delete"}]},
    "container that never was gone": {"containers": [{"name": "log", "$patch": "delete"}]},
    "containers replaced": {"containers": [{"name": "log", "image": "log:1"}, {"$patch": "replace"}]},
    "containers ordered": {"$setElementOrder/containers": [{"name": "proxy"}, {"name": "app"}]},
    "containers ordered and merged": {
        "$setElementOrder/containers": [{"name": "log"}, {"name": "proxy"}],
        "containers": [{"name": "log", "image": "log:1"}],
    },
    "containers out of order": {
        "$setElementOrder/containers": [{"name": "proxy"}],
        "containers": [{"name": "log", "image": "log:1"}],
    },
    "container without a name": {"containers": [{"image": "log:1"}]},
    "env, ports and mounts": {
        "containers": [
            {
                "name": "app",
                "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
                "ports": [{"containerPort": 443, "name": "https"}, {"containerPort": 8080}],
                "volumeMounts": [{"name": "data", "mountPath": "/more"}],
            }
        ]
    },
    "env by null": {"containers": [{"name": "app", "env": None, "args": None}]},
    "a volume of another source": {
        "volumes": [{"name": "data", "$retainKeys": ["name", "configMap"], "configMap": {"name": "a"}}]
    },
    "tolerations as a whole": {"tolerations": [{"key": "b", "operator": "Exists"}]},
    "aliases by address": {"hostAliases": [{"ip": "10.0.0.2", "hostnames": ["b"]}]},
    "secrets by name": {"imagePullSecrets": [{"name": "two"}, {"name": "one"}]},
    "spread by topology": {
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    "a map replaced": {"nodeSelector": {"$patch": "replace", "c": "3"}},
    "a map emptied": {"nodeSelector": {"$patch": "delete"}},
    "a map merged": {"nodeSelector": {"a": None, "c": "3"}},
    "nulls of what never was": {"nodeSelector": {"z": None}, "affinity": {"nodeAffinity": None}},
    "no such directive": {"nodeSelector": {"$patch": "bogus"}},
}


@on_both
@pytest.mark.parametrize("patch", STRATEGIES.values(), ids=STRATEGIES)
def test_strategic_merge_follows_the_schema(twins: Twins, deployments: str, patch: dict[str, Any]) -> None:
    """By merge keys, directives and orders; a patch that it cannot merge is refused as by the real server."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    twins.agree("POST", deployments, web)
    body = {"spec": {"template": {"spec": patch}}}
    twins.concur("PATCH", f"{deployments}/web", body, content_type=STRATEGIC)


@on_both
@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"ports": [{"port": 443, "name": "https"}]}},
        {"spec": {"ports": [{"port": 80, "name": "web", "targetPort": 8080}]}},
        {"metadata": {"finalizers": ["x.io/b"]}},
        {
            "metadata": {
                "finalizers": ["x.io/b", "x.io/a"],
                "$setElementOrder/finalizers": ["x.io/b", "x.io/a"],
            }
        },
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}},
        {"metadata": {"labels": {"a": "1", "$patch": "replace"}}},
    ],
)
def test_strategic_merge_of_other_lists(twins: Twins, config_maps: str, patch: dict[str, Any]) -> None:
    """Ports of a Service by their numbers, finalizers one by one."""
    services = config_maps.replace("configmaps", "services")
    about = {"name": "web", "finalizers": ["x.io/a"], "labels": {"b": "2"}}
    spec = {"clusterIP": "None", "ports": [{"port": 80, "name": "http"}]}
    twins.agree("POST", services, {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec})
    twins.concur("PATCH", f"{services}/web", patch, content_type=STRATEGIC)
    merge = "application/merge-patch+json"
    twins.ask("PATCH", f"{services}/web", {"metadata": {"finalizers": None}}, content_type=merge)


def test_custom_resources_take_no_strategic_merge(api: Api, widgets: str) -> None:
    """It is 415."""
    api.create(widgets, widget("web"))
    assert api.refused("PATCH", f"{widgets}/web", {"spec": {}}, content_type=STRATEGIC)["code"] == 415


def test_apply_creates_and_merges(api: Api, config_maps: str) -> None:
    """The first apply creates, the same again changes nothing, and another's fields stay."""
    path = f"{config_maps}/web"
    created = api.apply(path, config_map("web", a="1"))
    assert version_of(api.apply(path, config_map("web", a="1"))) == version_of(created)
    assert api.apply(path, config_map("web", b="2"), "another")["data"] == {"a": "1", "b": "2"}
    assert api.apply(path, config_map("web", a="3"))["data"] == {"a": "3", "b": "2"}


def test_an_apply_that_changes_a_managers_fields_alone_is_a_new_version(api: Api, config_maps: str) -> None:
    """It is an event for watches, too: the real server keeps the managers in the object."""
    path, same = f"{config_maps}/web", config_map("web", a="1")
    bare = {field: value for field, value in same.items() if field != "data"}
    start = api.version(config_maps)
    shared = [api.apply(path, same), api.apply(path, same, manager="other")]
    assert version_of(shared[1]) > version_of(shared[0])
    assert version_of(api.apply(path, same, manager="other")) == version_of(shared[1])
    assert version_of(api.apply(path, bare, manager="nothing")) == version_of(shared[1])
    alone = api.apply(path, bare, manager="other")
    assert version_of(alone) > version_of(shared[1])
    events = api.watch(config_maps, 3, resourceVersion=start, timeoutSeconds="5")
    assert changes(events) == [("ADDED", "web"), ("MODIFIED", "web"), ("MODIFIED", "web")]


def test_apply_removes_fields_that_its_manager_left_out(api: Api, config_maps: str, widgets: str) -> None:
    """What a manager applied before and no longer applies goes, unless another applies it."""
    path = f"{config_maps}/web"
    api.apply(path, config_map("web", mine="1", ours="1"))
    api.apply(path, config_map("web", ours="1"), "another")
    api.merge(path, {"data": {"patched": "1"}})
    assert api.apply(path, config_map("web", new="1"))["data"] == {"ours": "1", "new": "1", "patched": "1"}
    path = f"{widgets}/web"
    finalizers = {"finalizers": ["example.com/a", "example.com/b"]}
    api.apply(path, widget("web", metadata=finalizers, spec={"size": 1, "deep": {"a": 1, "b": 2}}))
    api.merge(path, {"spec": {"deep": {"c": 3}}})
    applied = api.apply(
        path, widget("web", metadata={"finalizers": ["example.com/b"]}, spec={"deep": {"a": 1}})
    )
    assert applied["spec"] == {"deep": {"a": 1, "c": 3}}
    assert applied["metadata"]["finalizers"] == ["example.com/b"]
    api.merge(path, {"metadata": {"finalizers": None}})


def test_apply_may_name_the_version_or_not(api: Api, leases: str) -> None:
    """Fields that name the object of a configuration belong to no manager, and are not removed."""
    applied = api.apply(f"{leases}/web", lease("web", holderIdentity="ada"))
    named = {"resourceVersion": applied["metadata"]["resourceVersion"]}
    api.apply(f"{leases}/web", lease("web", metadata=named, holderIdentity="bob"))
    assert api.apply(f"{leases}/web", lease("web", holderIdentity="cyd"))["metadata"]["name"] == "web"


def test_apply_adds_finalizers_behind_those_that_are_there(api: Api, config_maps: str, widgets: str) -> None:
    """Those that it shares stay where they are."""
    finalizers = ["x.io/a", "x.io/b"]
    for path, make in (config_maps, config_map), (widgets, widget):
        api.create(path, make("web", metadata={"finalizers": finalizers}))
        applied = api.apply(f"{path}/web", make("web", metadata={"finalizers": ["x.io/c"]}))
        assert applied["metadata"]["finalizers"] == [*finalizers, "x.io/c"]
        api.merge(f"{path}/web", {"metadata": {"finalizers": None}})


def test_apply_merges_containers_by_name(api: Api, deployments: str) -> None:
    """A manager's containers come and go, others stay."""
    path = f"{deployments}/web"
    api.apply(path, deployment("web", app="app:1", log="log:1"))
    api.ask("PATCH", path, containers({"name": "proxy", "image": "proxy:1"}), content_type=STRATEGIC)
    applied = api.apply(path, deployment("web", app="app:2"))
    assert images(applied) == {"app": "app:2", "proxy": "proxy:1"}


def test_apply_of_status_leaves_the_spec(api: Api, widgets: str) -> None:
    """The status path applies status alone."""
    api.apply(f"{widgets}/web", widget("web", spec={"size": 1}))
    applied = api.apply(f"{widgets}/web/status", widget("web", spec={"size": 2}, status={"ready": 1}))
    assert (applied["spec"], applied["status"]) == ({"size": 1}, {"ready": 1})


def test_apply_refuses_a_body_that_is_no_configuration(api: Api, config_maps: str) -> None:
    """It needs a manager, a kind, the name of the URL, and the newest version if any."""
    apply = {"content_type": "application/apply-patch+yaml"}
    path = f"{config_maps}/web"
    assert api.refused("PATCH", path, config_map("web"), **apply)["code"] == 422
    apply["fieldManager"] = "tests"
    assert api.refused("PATCH", path, {"data": {}}, **apply)["code"] == 400
    assert api.refused("PATCH", path, config_map("other"), **apply)["code"] == 400
    managed = config_map("web", metadata={"managedFields": []})
    assert api.refused("PATCH", path, managed, **apply)["code"] == 400
    api.apply(path, config_map("web"))
    stale = config_map("web", metadata={"resourceVersion": "1"})
    assert api.refused("PATCH", path, stale, **apply)["code"] == 409


@on_both
@pytest.mark.parametrize(
    ("query", "is_taken"),
    [
        ({"force": "true"}, False),
        ({"force": "false"}, False),
        ({"fieldManager": "m" * 128}, True),
        ({"fieldManager": "m" * 129}, False),
    ],
)
def test_options_of_a_patch_are_possible(
    twins: Twins, config_maps: str, query: dict[str, str], is_taken: bool
) -> None:
    """Force is of an apply alone, and a manager has 128 letters at most."""
    twins.agree("POST", config_maps, config_map("web"))
    answer = twins.agree("PATCH", f"{config_maps}/web", {"data": {"a": "b"}}, **query, content_type=MERGE)
    assert ("code" not in answer) is is_taken
