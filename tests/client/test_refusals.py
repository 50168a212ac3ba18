"""What the API server refuses is named with what grants it, or with what it is instead of a right."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from distq.client import Client
from distq.errors import ApiError, NotFound, StatusCause
from tests.support.api_servers import ApiServer, RealApiServer, write_kubeconfig
from tests.support.samples import config_map

pytestmark = pytest.mark.first_contact(11)


def outsider(api_server: ApiServer, tmp_path: Path) -> Client:
    """Return a client that may do nothing but discovery."""
    if not isinstance(api_server, RealApiServer):
        pytest.skip("the emulated server lets everybody do everything")
    cluster = {"server": api_server.url, "certificate-authority": str(api_server.certificate_authority)}
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster, user={"token": api_server.outsider_token})
    return Client(tmp_path / "kubeconfig")


@pytest.mark.parametrize(
    ("ask", "grant"),
    [
        (
            lambda client: client.get("apps/v1/Deployment", "shop/web"),
            'Role in shop of this user: - {apiGroups: ["apps"], resources: ["deployments"], verbs: ["get"]}',
        ),
        (
            lambda client: client.request("GET", "/api/v1/pods", query={"limit": "1"}),
            'ClusterRole of this user: - {apiGroups: [""], resources: ["pods"], verbs: ["list"]}',
        ),
        (
            lambda client: client.stream("/api/v1/pods", query={"watch": "true"}, read_timeout=5),
            'ClusterRole of this user: - {apiGroups: [""], resources: ["pods"], verbs: ["watch"]}',
        ),
        (
            lambda client: client.request(
                "PUT", "/apis/apps/v1/namespaces/shop/deployments/web/status", body={}
            ),
            'Role in shop of this user: - {apiGroups: ["apps"], resources: ["deployments/status"], '
            'verbs: ["update"]}',
        ),
        (
            lambda client: client.request("GET", "/metrics"),
            'ClusterRole of this user: - {nonResourceURLs: ["/metrics"], verbs: ["get"]}',
        ),
    ],
    ids=["object", "list", "watch", "subresource", "path"],
)
def test_a_right_that_is_missing_is_named_as_the_rule_that_grants_it(
    api_server: ApiServer, tmp_path: Path, ask: Callable[[Client], Any], grant: str
) -> None:
    """Verb, resource and namespace, as one line of RBAC."""
    with pytest.raises(ApiError, match="403") as caught:
        ask(outsider(api_server, tmp_path))
    message = str(caught.value)
    assert message.endswith(f" Add to a {grant}.")
    yaml.safe_load(message.partition("user: ")[2].removesuffix("."))


def test_a_namespace_that_terminates_is_called_that(api_server: ApiServer) -> None:
    """It is no matter of rights, although the API server answers 403."""
    client = api_server.client()
    name = f"leaving-{secrets.token_hex(4)}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    last = config_map(name, "last")
    last["metadata"]["finalizers"] = ["example.com/held"]
    client.create(last)
    client.delete("v1/Namespace", name)
    with pytest.raises(ApiError, match=r"403 .*Its namespace is being deleted: take another one") as caught:
        client.create(config_map(name, "late"))
    assert "Role" not in str(caught.value)


def test_a_namespace_that_is_missing_is_named(api_server: ApiServer) -> None:
    """The error names the namespace to create."""
    with pytest.raises(NotFound, match=r"Create the namespace nowhere-at-all\.$"):
        api_server.client().create(config_map("nowhere-at-all", "a"))


def test_an_apply_of_a_field_that_no_schema_knows_is_to_be_corrected(api_server: ApiServer) -> None:
    """The API server calls it an error of its own (500), but to repeat it does not help."""
    mistyped = config_map("default", "mistyped") | {"daat": {"a": "b"}}
    with pytest.raises(ApiError, match=r"500 .*field not declared in schema\. Correct the object\.$"):
        api_server.client().apply(mistyped)


def test_an_error_names_each_cause(api_server: ApiServer, namespace: str) -> None:
    """With its reason, message and field, as the Status of the answer has them."""
    wrong = config_map(namespace, "wrong") | {"data": {"no key": "a", "nor this": "b"}}
    with pytest.raises(ApiError, match="422") as caught:
        api_server.client().create(wrong)
    causes = sorted(caught.value.causes, key=lambda cause: cause.field)
    assert [(cause.reason, cause.field) for cause in causes] == [
        ("FieldValueInvalid", "data[no key]"),
        ("FieldValueInvalid", "data[nor this]"),
    ]
    assert all("a valid config key must consist of" in cause.message for cause in causes)


def test_a_cause_without_a_field_is_one(api_server: ApiServer) -> None:
    """A namespace that is being deleted refuses by a reason of its own."""
    client = api_server.client()
    name = f"leaving-{secrets.token_hex(4)}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    last = config_map(name, "last")
    last["metadata"]["finalizers"] = ["example.com/held"]
    client.create(last)
    client.delete("v1/Namespace", name)
    with pytest.raises(ApiError) as caught:
        client.create(config_map(name, "late"))
    (cause,) = caught.value.causes
    assert cause.reason == "NamespaceTerminating"
    assert name in cause.message


@pytest.mark.parametrize(
    "answer",
    [None, {}, {"details": None}, {"details": "odd"}, {"details": {}}, {"details": {"causes": "odd"}}],
)
def test_an_answer_without_causes_has_none(answer: Any) -> None:
    """Any other value may be in their place: proxies answer, too."""
    assert ApiError("no", answer=answer).causes == ()


def test_odd_causes_are_read_as_far_as_they_can_be() -> None:
    """A cause that is no object is left out, and a part that is missing is empty."""
    answer = {"details": {"causes": [None, "odd", {"reason": "Full", "field": None}, {"message": 1}]}}
    assert ApiError("no", answer=answer).causes == (
        StatusCause("Full", "", ""),
        StatusCause("", "1", ""),
    )
