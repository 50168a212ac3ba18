"""Create, update and delete: the emulated server answers as the real one."""

import re

import pytest

from tests.testing.conftest import Api, config_map, deployment, lease, version_of, widget

OTHER_UID = "11111111-1111-1111-1111-111111111111"
TIME = "2026-01-02T03:04:05.000006Z"
STALE = "the object has been modified; please apply your changes to the latest version and try again"


def test_create_fills_the_metadata(api: Api, namespace: str, config_maps: str) -> None:
    """A new object has uid, version, creation time and namespace, and no generation where none counts."""
    metadata = api.create(config_maps, config_map("web", color="red"))["metadata"]
    assert metadata["namespace"] == namespace
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdecimal()
    assert "generation" not in metadata


def test_create_makes_up_a_name(api: Api, config_maps: str) -> None:
    """GenerateName gets five characters."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "web-"}}
    first, second = (api.create(config_maps, body)["metadata"]["name"] for _ in range(2))
    assert re.fullmatch(r"web-[a-z0-9]{5}", first)
    assert first != second


def test_create_refuses_an_object_that_exists(api: Api, namespace: str, config_maps: str) -> None:
    """The second create is AlreadyExists and names the object."""
    api.create(config_maps, config_map("web"))
    status = api.refused("POST", config_maps, config_map("web"))
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'configmaps "web" already exists'
    assert status["details"] == {"name": "web", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("metadata", "code", "message"),
    [
        ({"name": "Bad_Name"}, 422, 'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_'),
        ({"name": ""}, 422, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName'),
        ({"labels": {"a b": "c"}}, 422, 'metadata.labels: Invalid value: "a b": name part must'),
        ({"labels": {"a": "c d"}}, 422, 'metadata.labels: Invalid value: "c d": a valid label must'),
        ({"labels": {"a": 1}}, 400, "cannot unmarshal number into Go struct field"),
        ({"finalizers": ["x"]}, 422, "name is neither a standard finalizer name nor is it fully qualified"),
        ({"namespace": "other"}, 400, "the namespace of the provided object does not match"),
        ({"resourceVersion": "5"}, 500, "resourceVersion should not be set on objects to be created"),
    ],
)
def test_create_refuses_bad_objects(
    api: Api, config_maps: str, metadata: dict[str, object], code: int, message: str
) -> None:
    """An object that breaks a rule is refused with the real code and words."""
    status = api.refused("POST", config_maps, config_map("web", metadata=metadata))
    assert status["code"] == code
    assert message in status["message"]


def test_create_needs_the_namespace(api: Api) -> None:
    """In a missing namespace everything is 404, of the namespace."""
    status = api.refused("POST", "/api/v1/namespaces/absent/configmaps", config_map("web"))
    assert (status["code"], status["message"]) == (404, 'namespaces "absent" not found')


def test_a_version_that_is_no_number_is_an_internal_error(api: Api, config_maps: str, leases: str) -> None:
    """In reads of one object and in writes; lists call it a bad request."""
    api.create(config_maps, config_map("web"))
    refused = api.refused("GET", f"{config_maps}/web", resourceVersion="abc")
    assert (refused["code"], refused["message"][:16]) == (500, "resourceVersion:")
    stale = {"resourceVersion": "abc"}
    assert api.refused("PUT", f"{config_maps}/web", config_map("web", metadata=stale))["code"] == 500
    assert api.refused("PUT", f"{leases}/web", lease("web", metadata=stale))["code"] == 500


def test_a_status_cannot_be_deleted(api: Api, widgets: str) -> None:
    """Only the object with it."""
    api.create(widgets, widget("web"))
    assert api.refused("DELETE", f"{widgets}/web/status")["code"] == 405
    assert api.get(f"{widgets}/web")


def test_create_says_that_the_object_is_being_deleted(api: Api, config_maps: str) -> None:
    """It is still there, for as long as its finalizers hold it."""
    held = config_map("web", metadata={"finalizers": ["x.io/mine"]})
    api.create(config_maps, held)
    api.delete(f"{config_maps}/web")
    refused = api.refused("POST", config_maps, held)
    assert refused["message"] == 'object is being deleted: configmaps "web" already exists'
    api.merge(f"{config_maps}/web", {"metadata": {"finalizers": None}})


def test_absent_objects_and_resources_are_not_found(api: Api, config_maps: str, namespace: str) -> None:
    """An absent object is named in the answer, an absent resource is not."""
    status = api.refused("GET", f"{config_maps}/absent")
    assert (status["code"], status["message"]) == (404, 'configmaps "absent" not found')
    status = api.refused("GET", f"/api/v1/namespaces/{namespace}/nodes")
    assert status["message"] == "the server could not find the requested resource"
    assert api.refused("POST", "/api/v1/configmaps", config_map("web"))["code"] == 405


def test_versions_are_one_sequence_over_all_kinds(
    api: Api, config_maps: str, leases: str, widgets: str
) -> None:
    """Each write's version is above all earlier ones, for any kinds."""
    versions = [
        version_of(api.create(config_maps, config_map("a"))),
        version_of(api.create(leases, lease("a"))),
        version_of(api.create(widgets, widget("a"))),
        version_of(api.merge(f"{config_maps}/a", {"data": {"b": "c"}})),
    ]
    assert versions == sorted(set(versions))


def test_an_identical_put_changes_nothing(api: Api, config_maps: str) -> None:
    """It answers the old version."""
    created = api.create(config_maps, config_map("web", color="red"))
    assert version_of(api.put(f"{config_maps}/web", created)) == version_of(created)
    changed = created | {"data": {"color": "blue"}}
    assert version_of(api.put(f"{config_maps}/web", changed)) > version_of(created)


def test_a_stale_put_is_a_conflict(api: Api, config_maps: str) -> None:
    """An update of an old version is refused in the words that clients look for."""
    created = api.create(config_maps, config_map("web", color="red"))
    api.put(f"{config_maps}/web", created | {"data": {"color": "blue"}})
    status = api.refused("PUT", f"{config_maps}/web", created | {"data": {"color": "green"}})
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["message"] == f'Operation cannot be fulfilled on configmaps "web": {STALE}'


def test_a_put_without_version_wins_where_that_is_allowed(api: Api, config_maps: str, leases: str) -> None:
    """ConfigMaps may be overwritten blindly, Leases and custom resources may not."""
    api.create(config_maps, config_map("web", color="red"))
    assert api.put(f"{config_maps}/web", config_map("web", color="blue"))["data"] == {"color": "blue"}
    api.create(leases, lease("web", holderIdentity="one"))
    status = api.refused("PUT", f"{leases}/web", lease("web", holderIdentity="two"))
    assert status["code"] == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]


def test_a_put_of_another_object_is_refused(api: Api, config_maps: str) -> None:
    """Name and uid must be the object's."""
    api.create(config_maps, config_map("web"))
    assert (
        "does not match the name on the URL"
        in api.refused("PUT", f"{config_maps}/web", config_map("db"))["message"]
    )
    status = api.refused("PUT", f"{config_maps}/web", config_map("web", metadata={"uid": OTHER_UID}))
    assert status["code"] == 409
    assert f"Precondition failed: UID in precondition: {OTHER_UID}, UID in object meta: " in status["message"]


def test_put_creates_only_some_kinds(api: Api, config_maps: str, leases: str, widgets: str) -> None:
    """A PUT on an absent Lease creates it, even with an old version; on other kinds it is 404."""
    assert api.refused("PUT", f"{config_maps}/web", config_map("web"))["code"] == 404
    assert api.refused("PUT", f"{widgets}/web", widget("web"))["code"] == 404
    assert api.put(f"{leases}/one", lease("one", holderIdentity="me"))["spec"] == {"holderIdentity": "me"}
    old = {"resourceVersion": "7"}
    assert version_of(api.put(f"{leases}/two", lease("two", metadata=old))) > 7
    status = api.refused("PUT", f"{leases}/three", lease("three", metadata={"uid": OTHER_UID}))
    assert (status["code"], status["reason"]) == (409, "Conflict")


def test_lease_times_have_exactly_six_decimals(api: Api, leases: str) -> None:
    """Any other precision is 400; another zone is turned to UTC."""
    for time in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123456789Z"):
        status = api.refused("POST", leases, lease("web", renewTime=time))
        assert status["code"] == 400
        assert f'parsing time "{time}"' in status["message"]
    stored = api.create(leases, lease("web", renewTime="2026-01-02T04:04:05.000006+01:00", acquireTime=TIME))
    assert stored["spec"] == {"renewTime": TIME, "acquireTime": TIME}


def test_leases_keep_the_fields_of_their_type(api: Api, leases: str) -> None:
    """Nulls and gated fields are dropped, there is no generation, bad numbers are refused."""
    body = lease("web", holderIdentity="me", leaseTransitions=None, renewTime=None)
    body["spec"] |= {"strategy": "OldestEmulationVersion", "preferredHolder": "you"}
    stored = api.create(leases, body)
    assert stored["spec"] == {"holderIdentity": "me"}
    assert "generation" not in stored["metadata"]
    assert (
        "must be greater than 0" in api.refused("POST", leases, lease("a", leaseDurationSeconds=0))["message"]
    )
    assert api.refused("POST", leases, lease("a", leaseDurationSeconds="15"))["code"] == 400
    assert api.refused("POST", leases, lease("a", leaseTransitions=-1))["code"] == 422


def test_status_and_spec_are_written_apart(api: Api, widgets: str) -> None:
    """The main path ignores status, the status path all else; only the spec's changes are counted."""
    created = api.create(widgets, widget("web", spec={"size": 1}, status={"ready": 1}))
    assert "status" not in created
    assert created["metadata"]["generation"] == 1
    changed = created | {"spec": {"size": 2}, "status": {"ready": 2}}
    updated = api.put(f"{widgets}/web", changed)
    assert (updated["spec"], updated["metadata"]["generation"]) == ({"size": 2}, 2)
    assert "status" not in updated
    labels = updated["metadata"] | {"labels": {"a": "b"}}
    ready = api.put(
        f"{widgets}/web/status", updated | {"spec": {}, "status": {"ready": 3}, "metadata": labels}
    )
    assert (ready["spec"], ready["status"]) == ({"size": 2}, {"ready": 3})
    assert "labels" not in ready["metadata"]
    assert ready["metadata"]["generation"] == 2
    merged = api.merge(f"{widgets}/web/status", {"spec": {"size": 9}, "status": {"seen": True}})
    assert (merged["spec"], merged["status"]) == ({"size": 2}, {"ready": 3, "seen": True})
    assert api.merge(f"{widgets}/web", {"metadata": {"labels": {"c": "d"}}})["metadata"]["generation"] == 2


def test_deployments_count_changes_of_spec_and_annotations(api: Api, deployments: str) -> None:
    """Labels and status do not count."""
    api.create(deployments, deployment("web", app="nginx"))
    patches = [
        ({"spec": {"replicas": 2}}, 2),
        ({"metadata": {"annotations": {"a": "b"}}}, 3),
        ({"metadata": {"labels": {"a": "b"}}}, 3),
        ({"status": {"replicas": 5}}, 3),
    ]
    for patch, generation in patches:
        patched = api.merge(f"{deployments}/web", patch)
        assert patched["metadata"]["generation"] == generation
        assert not patched["status"]
    assert api.merge(f"{deployments}/web/status", {"status": {"replicas": 1}})["status"] == {"replicas": 1}


def test_delete_answers_without_a_version(api: Api, config_maps: str) -> None:
    """A Status says which object went."""
    uid = api.create(config_maps, config_map("web"))["metadata"]["uid"]
    status = api.delete(f"{config_maps}/web")
    assert (status["kind"], status["status"], status["metadata"]) == ("Status", "Success", {})
    assert status["details"] == {"name": "web", "kind": "configmaps", "uid": uid}
    assert api.refused("DELETE", f"{config_maps}/web")["code"] == 404


def test_delete_heeds_preconditions(api: Api, config_maps: str) -> None:
    """Another uid or version is a conflict, and an unknown policy is invalid."""
    created = api.create(config_maps, config_map("web"))
    for preconditions in ({"uid": OTHER_UID}, {"resourceVersion": "1"}):
        status = api.refused("DELETE", f"{config_maps}/web", {"preconditions": preconditions})
        assert (status["code"], status["reason"]) == (409, "Conflict")
        assert "in the precondition" in status["message"]
    assert api.refused("DELETE", f"{config_maps}/web", {"propagationPolicy": "Bogus"})["code"] == 422
    version = created["metadata"]["resourceVersion"]
    assert (
        api.delete(f"{config_maps}/web", {"preconditions": {"resourceVersion": version}})["status"]
        == "Success"
    )


def test_only_a_delete_marks_an_object(api: Api, config_maps: str) -> None:
    """Who writes the mark is refused."""
    api.create(config_maps, config_map("web", metadata={"resourceVersion": "0"}))
    body = config_map("web", metadata={"deletionTimestamp": TIME})
    for method, how in ("PUT", {}), ("PATCH", {"content_type": "application/merge-patch+json"}):
        status = api.refused(method, f"{config_maps}/web", body, **how)
        assert {each["field"] for each in status["details"]["causes"]} == {"metadata.deletionTimestamp"}


def test_finalizers_hold_a_deleted_object(api: Api, config_maps: str) -> None:
    """It is marked once, takes no new finalizer, and goes with its last one, under its old version."""
    api.create(config_maps, config_map("web", metadata={"finalizers": ["example.com/hold"]}))
    marked = api.delete(f"{config_maps}/web")
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    api.delete(f"{config_maps}/web")
    assert version_of(api.get(f"{config_maps}/web")) == version_of(marked)
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    status = api.refused("PATCH", f"{config_maps}/web", more, content_type="application/merge-patch+json")
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    released = api.merge(f"{config_maps}/web", {"metadata": {"finalizers": None}})
    assert version_of(released) == version_of(marked)
    assert api.refused("GET", f"{config_maps}/web")["code"] == 404


def test_delete_marks_count_as_a_generation(api: Api, widgets: str) -> None:
    """Marking a custom resource for deletion counts as a change of its intent."""
    api.create(widgets, widget("web", metadata={"finalizers": ["example.com/hold"]}))
    assert api.delete(f"{widgets}/web")["metadata"]["generation"] == 2
    api.merge(f"{widgets}/web", {"metadata": {"finalizers": None}})


def test_delete_of_a_collection_heeds_selectors(api: Api, config_maps: str) -> None:
    """Only what is selected goes."""
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.create(config_maps, config_map(name, metadata={"labels": {"color": color}}))
    api.delete(config_maps, labelSelector="color=red")
    assert [each["metadata"]["name"] for each in api.get(config_maps)["items"]] == ["b"]


def test_secrets_encode_plain_text(api: Api, namespace: str) -> None:
    """StringData becomes data."""
    body = {"metadata": {"name": "web"}, "stringData": {"password": "secret"}}
    stored = api.create(f"/api/v1/namespaces/{namespace}/secrets", body)
    assert stored["data"] == {"password": "c2VjcmV0"}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


def test_the_namespaces_of_a_cluster_are_there(api: Api) -> None:
    """Kube-system has the uid by which distq knows a cluster; default cannot be deleted."""
    namespace = api.get("/api/v1/namespaces/kube-system")
    assert namespace["metadata"]["uid"]
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "kube-system"}
    assert namespace["status"] == {"phase": "Active"}
    status = api.refused("DELETE", "/api/v1/namespaces/default")
    assert (status["code"], status["reason"]) == (403, "Forbidden")
