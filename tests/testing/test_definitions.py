"""CustomResourceDefinitions and discovery, on the emulated and the real server."""

import uuid
from typing import Any

import pytest

from distq.client import Client
from distq.errors import ApiError
from distq.testing import EmulatedApiServer
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.samples import custom_resource, wait_until_served
from tests.testing.conftest import MERGE, Answer, Api, changes, version_of, wait_until_gone

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def defined(client: Client) -> str:
    """Define Widgets in a new group, wait until they are served, and return the group."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    client.create(custom_resource(group))
    wait_until_served(client, f"{group}/v1/Widget")
    return group


def test_a_definition_serves_its_resource(api: Api, api_server: ApiServer) -> None:
    """It says so in its status, and discovery lists it."""
    group = defined(api_server.client())
    definition = api.get(f"{DEFINITIONS}/widgets.{group}")
    conditions = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
    assert (conditions["Established"], conditions["NamesAccepted"]) == ("True", "True")
    assert definition["spec"]["names"]["listKind"] == "WidgetList"
    assert definition["status"]["acceptedNames"] == definition["spec"]["names"]
    listed = {each["name"]: each["versions"] for each in api.get("/apis")["groups"]}
    assert listed[group] == [{"groupVersion": f"{group}/v1", "version": "v1"}]
    resources = {each["name"]: each for each in api.get(f"/apis/{group}/v1")["resources"]}
    assert resources["widgets"]["kind"] == "Widget"
    assert "watch" in resources["widgets"]["verbs"]
    assert sorted(resources["widgets/status"]["verbs"]) == ["get", "patch", "update"]
    api.delete(f"{DEFINITIONS}/widgets.{group}")


def test_the_stablest_version_of_a_group_is_preferred(api: Api, api_server: ApiServer) -> None:
    """Whatever the order of its definition: kubectl and others take the first one."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    definition = custom_resource(group)
    (only,) = definition["spec"]["versions"]
    names = ["foo10", "v1alpha1", "v2beta1", "v1", "foo1", "v2beta11", "v10"]
    versions = [only | {"name": name, "storage": name == "v1alpha1"} for name in names]
    definition["spec"] |= {"versions": versions}
    client = api_server.client()
    client.create(definition)
    for name in names:
        wait_until_served(client, f"{group}/{name}/Widget")

    def listed() -> list[str]:
        return [each["version"] for each in api.get(f"/apis/{group}")["versions"]]

    eventually(lambda: listed() == ["v10", "v1", "v2beta11", "v2beta1", "v1alpha1", "foo1", "foo10"])
    assert api.get(f"/apis/{group}")["preferredVersion"]["version"] == "v10"
    api.delete(f"{DEFINITIONS}/widgets.{group}")


def test_a_deleted_definition_takes_its_objects_along(api: Api, api_server: ApiServer) -> None:
    """They are deleted one by one, as watches see, and the resource is no longer served."""
    group = defined(api_server.client())
    widgets = f"/apis/{group}/v1/namespaces/default/widgets"
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "web"}}
    start = str(version_of(api.create(widgets, body)))
    query = {"watch": "true", "resourceVersion": start}
    with api_server.client().stream(widgets, query=query, read_timeout=30) as stream:
        api.delete(f"{DEFINITIONS}/widgets.{group}")
        assert b'"DELETED"' in next(iter(stream))
    wait_until_gone(api, f"{DEFINITIONS}/widgets.{group}")
    wait_until_gone(api, widgets)


def test_a_deleted_definition_waits_for_finalizers(api: Api, api_server: ApiServer) -> None:
    """Its objects are marked; it takes no new ones, and goes with the last of them."""
    group = defined(api_server.client())
    widgets = f"/apis/{group}/v1/namespaces/default/widgets"
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "free"}}
    held = {**body, "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    for each in body, held:
        api.create(widgets, each)
    marked = api.delete(f"{DEFINITIONS}/widgets.{group}")
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    wait_until_gone(api, f"{widgets}/free")
    assert api.get(f"{widgets}/held")["metadata"]["deletionTimestamp"]
    refused = api.refused("POST", widgets, body)
    assert (refused["code"], refused["message"]) == (
        403,
        f'widgets.{group} "free" is forbidden: create not allowed while custom resource definition is '
        "terminating",
    )
    api.merge(f"{widgets}/held", {"metadata": {"finalizers": None}})
    wait_until_gone(api, f"{DEFINITIONS}/widgets.{group}")
    wait_until_gone(api, widgets)


@pytest.mark.parametrize("change", [{"scope": "Cluster"}, {"names": {"kind": "Gizmo"}}])
def test_a_definition_keeps_scope_and_kind(api: Api, widget_definition: str, change: Answer) -> None:
    """Its objects have them."""
    refused = api.refused("PATCH", widget_definition, {"spec": change}, content_type=MERGE)
    assert "field is immutable" in refused["message"]


def test_a_definition_must_bear_its_own_name(api: Api) -> None:
    """Any other name than plural.group is invalid."""
    definition = custom_resource("example.com") | {"metadata": {"name": "other.example.com"}}
    status = api.refused("POST", DEFINITIONS, definition)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert 'must be spec.names.plural+"."+spec.group' in status["message"]


def test_discovery_lists_the_built_in_resources(api: Api) -> None:
    """Clients find kinds, scopes and short names as on the real server."""
    assert api.get("/version")["minor"] == "36"
    assert api.get("/api")["versions"] == ["v1"]
    core = {each["name"]: each for each in api.get("/api/v1")["resources"]}
    assert core["configmaps"]["shortNames"] == ["cm"]
    assert core["namespaces"]["namespaced"] is False
    apps = {each["name"]: each for each in api.get("/apis/apps/v1")["resources"]}
    assert apps["deployments"]["kind"] == "Deployment"
    assert "deployments/status" in apps
    assert api.get("/apis/coordination.k8s.io")["preferredVersion"]["version"] == "v1"


def test_a_changed_status_of_a_definition_ends_no_watch(api: Api, api_server: ApiServer) -> None:
    """Labels on a definition leave its resource's watches alone."""
    group = defined(api_server.client())
    widgets = f"/apis/{group}/v1/namespaces/default/widgets"
    start = api.version(widgets)
    api.merge(f"{DEFINITIONS}/widgets.{group}", {"metadata": {"labels": {"a": "b"}}})
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "web"}}
    api.create(widgets, body)
    assert changes(api.watch(widgets, 1, resourceVersion=start)) == [("ADDED", "web")]
    api.delete(f"{DEFINITIONS}/widgets.{group}")


def test_rules_in_cel_are_said_not_to_be_evaluated(caplog: pytest.LogCaptureFixture) -> None:
    """Once, when their definition comes."""
    definition = custom_resource("rules.example.com")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "self.spec.size > 0"}]
    with EmulatedApiServer() as server:
        server.load(definition)
    assert caplog.messages == [
        "widgets.rules.example.com has rules in CEL: the emulated API server does not evaluate them."
    ]


@pytest.mark.parametrize(
    ("spec", "of_version", "field"),
    [
        ({"versions": []}, {}, "spec.versions"),
        ({}, {"storage": False}, "spec.versions"),
        ({}, {"schema": None}, "spec.versions[0].schema.openAPIV3Schema"),
        ({"scope": "Everywhere"}, {}, "spec.scope"),
    ],
)
def test_a_definition_without_a_stored_version_a_schema_or_a_scope_is_refused(
    api: Api, spec: dict[str, Any], of_version: dict[str, Any], field: str
) -> None:
    """One that no cluster takes is worth nothing in a test either."""
    definition = custom_resource("example.com")
    versions = [{**definition["spec"]["versions"][0], **of_version}]
    wrong = {**definition, "spec": {**definition["spec"], "versions": versions, **spec}}
    refused = api.refused("POST", DEFINITIONS, wrong)
    assert refused["code"] == 422
    assert field in {cause["field"] for cause in refused["details"]["causes"]}


def test_a_definition_names_each_of_its_versions_once(api: Api) -> None:
    """Another of the same name would be served in its place."""
    definition = custom_resource("example.com")
    (version,) = definition["spec"]["versions"]
    again = {**definition["spec"], "versions": [version, {**version, "storage": False}]}
    refused = api.refused("POST", DEFINITIONS, {**definition, "spec": again})
    assert "must contain unique version names" in refused["message"]


TEXT = {"type": "string"}


def of_a(**schema: Any) -> dict[str, Any]:
    """Return a schema whose field ``a`` has this one."""
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "cause"),
    [
        ({}, ".type: Required value: must not be empty at the root"),
        ({"type": "string"}, '.type: Invalid value: "string": must be object at the root'),
        (of_a(), ".properties[a].type: Required value: must not be empty for specified object fields"),
        (of_a(type="text"), '.properties[a].type: Unsupported value: "text"'),
        (of_a(type="array"), ".properties[a].items: Required value: must be specified"),
        (
            of_a(type="array", items={}),
            ".properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            of_a(type="object", additionalProperties={}),
            ".properties[a].additionalProperties.type: Required value",
        ),
        (
            of_a(type="object", properties={"b": TEXT}, additionalProperties=TEXT),
            ".properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual",
        ),
        (
            of_a(type="object", anyOf=[TEXT]),
            ".properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "object", "properties": {"metadata": of_a(**TEXT)}},
            ".properties[metadata]: Forbidden: must not specify anything other than name and generateName",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(api: Api, schema: dict[str, Any], cause: str) -> None:
    """With the path of each mistake in it."""
    assert cause in refusal(api, schema)


def refusal(api: Api, schema: dict[str, Any]) -> str:
    """Return why a definition with this schema is refused, or nothing."""
    definition = custom_resource("example.com")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {**definition, "spec": {**definition["spec"], "versions": [version]}}
    try:
        api.ask("POST", DEFINITIONS, body, dryRun="All")
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        of_a(**{"x-kubernetes-preserve-unknown-fields": True}),
        of_a(**{"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]}),
        of_a(type="object", additionalProperties=TEXT),
        {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": TEXT}}}},
    ],
)
def test_a_schema_needs_no_type_where_it_names_nothing(api: Api, schema: dict[str, Any]) -> None:
    """For example for a free field, or a number or a text."""
    assert refusal(api, schema) == ""


@pytest.mark.parametrize("schema", [{"type": ["object"]}, {"type": "object", "properties": []}, 7])
def test_a_value_that_is_no_schema_cannot_be_decoded(api: Api, schema: Any) -> None:
    """It is a request that makes no sense, and no schema with mistakes."""
    definition = custom_resource("example.com")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {**definition, "spec": {**definition["spec"], "versions": [version]}}
    assert api.refused("POST", DEFINITIONS, body, dryRun="All")["code"] == 400
