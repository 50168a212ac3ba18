"""What becomes of fields and values that a kind does not have; on both servers."""

from typing import Any

import pytest

from distq.testing.apiserver import quantities
from tests.testing.conftest import Answer, Api, config_map, deployment, lease, version_of, widget

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
UNDECODABLE = '{0} in version "v1" cannot be handled as a {0}: {1}'
FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


def secret(**fields: Any) -> Answer:
    """Return a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, **fields}


def causes(refused: Answer) -> list[str]:
    """Return the fields that an Invalid answer names."""
    return [cause["field"] for cause in refused["details"]["causes"]]


def test_a_field_that_a_type_does_not_have_is_dropped(api: Api, config_maps: str, leases: str) -> None:
    """So writing it changes nothing, not even the version."""
    for path, obj in (config_maps, config_map("web", a="1")), (leases, lease("web", holderIdentity="ada")):
        created = api.create(path, obj | {"other": {"a": 1}, "status": {"ready": True}})
        assert "other" not in created
        assert "status" not in created
        replaced = api.put(f"{path}/web", created | {"other": 2})
        assert version_of(replaced) == version_of(created)
        assert version_of(api.merge(f"{path}/web", {"status": {}})) == version_of(created)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"data": {"a": 1}}, FIELD.format("number", "ConfigMap.data", "string")),
        ({"data": {"a": True}}, FIELD.format("bool", "ConfigMap.data", "string")),
        ({"data": {"a": {}}}, FIELD.format("object", "ConfigMap.data", "string")),
        ({"data": "x"}, FIELD.format("string", "ConfigMap.data", "map[string]string")),
        ({"binaryData": {"a": "%%"}}, "illegal base64 data at input byte 0"),
        ({"metadata": "x"}, FIELD.format("string", "ConfigMap.metadata", "v1.ObjectMeta")),
        (
            {"metadata": {"name": "web", "labels": ["x"]}},
            FIELD.format("array", "ObjectMeta.metadata.labels", "map[string]string"),
        ),
        (
            {"metadata": {"name": "web", "labels": {"a": False}}},
            FIELD.format("bool", "ObjectMeta.metadata.labels", "string"),
        ),
    ],
)
def test_values_of_the_wrong_type_are_refused(
    api: Api, config_maps: str, fields: Answer, problem: str
) -> None:
    """Before anything else is looked at, also whether there is such an object."""
    refused = api.refused("POST", config_maps, config_map("web") | fields)
    assert (refused["code"], refused["message"]) == (400, UNDECODABLE.format("ConfigMap", problem))
    assert api.refused("PUT", f"{config_maps}/web", config_map("web") | fields)["code"] == 400


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"data": {"a": "not base64!"}}, "illegal base64 data at input byte 3"),
        ({"stringData": {"a": 1}}, FIELD.format("number", "Secret.stringData", "string")),
    ],
)
def test_secrets_hold_texts_in_base64(api: Api, namespace: str, fields: Answer, problem: str) -> None:
    """Plain text goes to stringData, and is text."""
    refused = api.refused("POST", f"/api/v1/namespaces/{namespace}/secrets", secret(**fields))
    assert (refused["code"], refused["message"]) == (400, UNDECODABLE.format("Secret", problem))


@pytest.mark.parametrize("duration", ["15", 2**31, 1.5, True])
def test_lease_durations_are_numbers_of_32_bits(api: Api, leases: str, duration: Any) -> None:
    """Not texts, fractions or greater ones."""
    refused = api.refused("POST", leases, lease("web", leaseDurationSeconds=duration))
    assert refused["code"] == 400
    assert "LeaseSpec.spec.leaseDurationSeconds of type int32" in refused["message"]


def test_all_that_is_wrong_with_a_lease_is_reported(api: Api, leases: str) -> None:
    """In one answer."""
    refused = api.refused("POST", leases, lease("web", leaseDurationSeconds=0, leaseTransitions=-1))
    assert (refused["code"], causes(refused)) == (
        422,
        ["spec.leaseDurationSeconds", "spec.leaseTransitions"],
    )


def test_null_texts_are_empty(api: Api, config_maps: str) -> None:
    """In labels as in data."""
    created = api.create(
        config_maps, config_map("web", metadata={"labels": {"a": None}}) | {"data": {"b": None}}
    )
    assert (created["metadata"]["labels"], created["data"]) == ({"a": ""}, {"b": ""})


def test_keys_of_data_are_file_names(api: Api, config_maps: str) -> None:
    """Letters, digits, and - _ . only."""
    data = {"bad key!": "x", "good.key": "x"}
    refused = api.refused("POST", config_maps, config_map("web") | {"data": data})
    assert (refused["code"], causes(refused)) == (422, ["data[bad key!]"])


def test_immutable_data_stays(api: Api, config_maps: str) -> None:
    """Its data and the mark itself; labels may change."""
    api.create(config_maps, config_map("web", a="1") | {"immutable": True})
    web = f"{config_maps}/web"
    for patch, field in ({"data": {"a": "2"}}, "data"), ({"immutable": None}, "immutable"):
        refused = api.refused("PATCH", web, patch, content_type=MERGE)
        assert (refused["code"], causes(refused)) == (422, [field])
    assert api.merge(web, {"metadata": {"labels": {"a": "b"}}})["data"] == {"a": "1"}


@pytest.mark.parametrize(
    "patch", [{"data": {"a": 1}}, {"metadata": {"labels": {"a": 1}}}, {"kind": "Other"}, {"apiVersion": "v9"}]
)
def test_a_patch_that_leaves_no_object_is_invalid(api: Api, config_maps: str, patch: Answer) -> None:
    """The answer quotes what it would have been."""
    api.create(config_maps, config_map("web"))
    refused = api.refused("PATCH", f"{config_maps}/web", patch, content_type=MERGE)
    assert (refused["code"], refused["reason"], causes(refused)) == (422, "Invalid", ["patch"])
    assert refused["message"].startswith(' "" is invalid: patch: Invalid value: "{')


@pytest.mark.parametrize("patch", ["text", 1, [1]])
def test_a_merge_patch_is_a_map(api: Api, config_maps: str, patch: Any) -> None:
    """Else it is a bad request."""
    api.create(config_maps, config_map("web"))
    refused = api.refused("PATCH", f"{config_maps}/web", patch, content_type=MERGE)
    assert refused["code"] == 400
    assert refused["message"].endswith("into Go value of type map[string]interface {}")


def test_a_strategic_patch_changes_no_type(api: Api, config_maps: str) -> None:
    """Kind and version are no fields of the object that it merges into."""
    api.create(config_maps, config_map("web"))
    patch = {"kind": "Other", "apiVersion": "v9", "data": {"a": "1"}}
    patched = api.ask("PATCH", f"{config_maps}/web", patch, content_type=STRATEGIC)
    assert (patched["kind"], patched["data"]) == ("ConfigMap", {"a": "1"})


def test_a_patch_cannot_change_the_uid(api: Api, config_maps: str, widgets: str) -> None:
    """It is invalid where a PUT is a conflict."""
    api.create(config_maps, config_map("web"))
    api.create(widgets, widget("web"))
    for path in config_maps, widgets:
        patch = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}
        refused = api.refused("PATCH", f"{path}/web", patch, content_type=MERGE)
        assert (refused["code"], set(causes(refused))) == (422, {"metadata.uid"})


def test_owner_references_are_whole(api: Api, config_maps: str) -> None:
    """An owner without a uid owns nothing, and would never be found."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    orphan = config_map("web", metadata={"ownerReferences": [owner]})
    refused = api.refused("POST", config_maps, orphan)
    assert (refused["code"], causes(refused)) == (422, ["metadata.ownerReferences.uid"])
    assert api.refused("GET", f"{config_maps}/web")["code"] == 404


def test_custom_resources_bear_their_version(api: Api, widgets: str) -> None:
    """Built-in kinds can do without."""
    bare = widget("web")
    del bare["apiVersion"]
    refused = api.refused("POST", widgets, bare)
    assert refused["code"] == 400
    assert refused["message"].startswith("the API version in the data () does not match")


def test_finalizers_of_some_kinds_need_no_domain(
    api: Api, config_maps: str, leases: str, widgets: str
) -> None:
    """Those of the groups core, apps and batch do."""
    metadata = {"finalizers": ["mine"]}
    for path, obj in (leases, lease("web", metadata=metadata)), (widgets, widget("web", metadata=metadata)):
        assert api.create(path, obj)["metadata"]["finalizers"] == ["mine"]
        api.merge(f"{path}/web", {"metadata": {"finalizers": None}})
    refused = api.refused("POST", config_maps, config_map("web", metadata=metadata))
    assert (refused["code"], causes(refused)) == (422, ["metadata.finalizers[0]"])


def test_a_deleted_pod_is_answered_as_the_delete_left_it(api: Api, namespace: str) -> None:
    """Marked, and under the version at which it was removed."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "image:1"}]}}
    created = api.create(pods, pod)
    deleted = api.delete(f"{pods}/web")
    assert deleted["metadata"]["deletionTimestamp"]
    last = api.watch(pods, 2, resourceVersion=str(version_of(created)))[-1]
    assert (last["type"], version_of(last["object"])) == ("DELETED", version_of(deleted))


def test_status_writes_of_built_in_kinds_take_metadata_along(
    api: Api, namespace: str, deployments: str
) -> None:
    """Annotations and finalizers do, also labels but those of Deployments; the spec stays."""
    api.create(deployments, deployment("web", app="image:1"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "app", "image": "image:1"}]}
    api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    metadata = {"annotations": {"a": "b"}, "labels": {"c": "d"}}
    for path, labels in (pods, {"c": "d"}), (deployments, None):
        patch = {"metadata": metadata, "spec": {"replicas": 5}}
        patched = api.merge(f"{path}/web/status", patch)
        assert patched["metadata"]["annotations"]["a"] == "b"
        assert patched["metadata"].get("labels") == labels
        assert patched["spec"].get("replicas") != 5


def test_status_writes_of_custom_resources_leave_metadata(api: Api, widgets: str) -> None:
    """With any metadata in the write."""
    api.create(widgets, widget("web"))
    patched = api.merge(f"{widgets}/web/status", {"metadata": {"labels": {"a": "b"}}, "status": {"ok": 1}})
    assert "labels" not in patched["metadata"]
    assert patched["status"] == {"ok": 1}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (10**20, "100E"),
        ("92233720368547758070", "92233720368547758070"),
        ("12345678901234567891.5", "12345678901234567891500m"),
        ("1e19", "10e18"),
        ("-123e25", "-1230e24"),
        ("1e300", "1e300"),
        ("8Ei", "9223372036854775807"),
    ],
)
def test_a_quantity_may_be_large(api: Api, config_maps: str, given: Any, kept: str) -> None:
    """It is written as any other; one in powers of 1024 ends where 64 bits do."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "web"},
        "spec": {"limits": [{"type": "Pod", "max": {"cpu": given}}]},
    }
    path = config_maps.replace("configmaps", "limitranges")
    created = api.create(
        path, {"kind": "LimitRange", "apiVersion": "v1", "metadata": {"name": "web"}, **limits}
    )
    assert created["spec"]["limits"][0]["max"]["cpu"] == kept


def test_a_quantity_of_any_exponent_is_one_or_is_refused() -> None:
    """Neither takes long."""
    assert quantities.canonical("1e-999999") == "1e-9"
    assert quantities.canonical("0e-999999") == "0"
    with pytest.raises(ValueError, match="must match"):
        quantities.canonical("1e99999999999")
