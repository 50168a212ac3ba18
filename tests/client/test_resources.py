"""How texts become resources, and resources paths."""

import pytest

from distq.client import Client, Resource
from distq.client.resources import Discovery
from distq.errors import ConfigError, NotFound

PODS = Resource("v1", "Pod", "pods", namespaced=True, has_status=True)
NODES = Resource("v1", "Node", "nodes", namespaced=False, has_status=True)
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", namespaced=True, has_status=True)


def test_paths_of_collections_and_objects() -> None:
    """Core and grouped, namespaced and cluster-scoped resources have the API server's paths."""
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("default", "web") == "/api/v1/namespaces/default/pods/web"
    assert NODES.path(name="node-1") == "/api/v1/nodes/node-1"
    assert DEPLOYMENTS.path("default") == "/apis/apps/v1/namespaces/default/deployments"
    assert DEPLOYMENTS.key_path("default/web") == "/apis/apps/v1/namespaces/default/deployments/web"
    assert NODES.key_path("node-1") == "/api/v1/nodes/node-1"
    assert str(DEPLOYMENTS) == "apps/v1/Deployment"


def test_paths_cannot_be_escaped() -> None:
    """No name or namespace reaches another path than its own."""
    assert NODES.path(name="a?b#c%2F") == "/api/v1/nodes/a%3Fb%23c%252F"
    for namespace, name in (("..", "web"), ("a/b", "web"), ("default", "../secrets")):
        with pytest.raises(ConfigError, match="bad name"):
            PODS.path(namespace, name)


def test_namespaces_fit_the_resource() -> None:
    """A namespace where there is none, or none where it is needed, is refused."""
    with pytest.raises(ConfigError, match="not namespaced"):
        NODES.path("default")
    with pytest.raises(ConfigError, match="no namespace"):
        PODS.path(name="web")


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("v1/Pod", PODS),
        ("apps/v1/Deployment", DEPLOYMENTS),
        ("v1/Namespace", Resource("v1", "Namespace", "namespaces", namespaced=False, has_status=True)),
        (
            "coordination.k8s.io/v1/Lease",
            Resource("coordination.k8s.io/v1", "Lease", "leases", namespaced=True),
        ),
    ],
)
def test_texts_are_resolved(client: Client, text: str, resource: Resource) -> None:
    """The server's discovery has plural and scope."""
    assert client.resolve(text) == resource


@pytest.mark.parametrize("text", ["", "Pod", "v1/", "/Pod", "a/b/v1/Pod", "apps//Deployment", "/"])
def test_bad_texts_are_refused(text: str, client: Client) -> None:
    """A text that is no resource at all says what one looks like."""
    with pytest.raises(ConfigError, match=r"bad resource .* Give e\.g\. apps/v1/Deployment or v1/Pod\."):
        client.resolve(text)


@pytest.mark.first_contact(23)
@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("apps/v1/Deploymnt", 'Did you mean "apps/v1/Deployment"? If not, apply its CRD first.'),
        ("v1/Deployment", 'Did you mean "apps/v1/Deployment"? If not, apply its CRD first.'),
        ("apps/v1beta1/deployments", 'Did you mean "apps/v1/Deployment"? If not, apply its CRD first.'),
        ("app/v1/Statefulset", 'Did you mean "apps/v1/StatefulSet"? If not, apply its CRD first.'),
        ("core/v1/Pod", 'Did you mean "v1/Pod"? If not, apply its CRD first.'),
        ("v2/ConfigMapp", 'Did you mean "v1/ConfigMap"? If not, apply its CRD first.'),
        ("apps/v1/deployment", "Give its kind: apps/v1/Deployment."),
        ("example.com/v1/Quux", "Apply its CRD first."),
    ],
)
def test_a_resource_that_is_nearly_one_is_suggested(client: Client, text: str, remedy: str) -> None:
    """Of its API version or of another one, as discovery has them; a CRD may be missing nevertheless."""
    with pytest.raises(NotFound) as caught:
        client.resolve(text)
    assert str(caught.value) == f"no resource {text}: unknown to the API server. {remedy}"


def test_a_suggestion_is_looked_for_once() -> None:
    """A leader asks for a missing resource again and again; the many requests are made at the first time."""
    asked = list[str]()

    def fetch(path: str) -> object:
        asked.append(path)
        if path != "/apis":
            raise NotFound("there is none", status=404)
        versions = [{"groupVersion": "batch/v1"}]
        return {"groups": [{"name": "batch", "versions": versions, "preferredVersion": versions[0]}]}

    discovery = Discovery(fetch)
    for _ in range(3):
        with pytest.raises(NotFound, match="Apply its CRD first"):
            discovery.resolve("example.com/v1/Quux")
    assert asked.count("/apis/example.com/v1") == 3
    assert asked.count("/apis") == 1


@pytest.mark.parametrize("groups", [None, [], {"groups": [{}]}, {"groups": "?"}])
def test_a_suggestion_that_cannot_be_looked_for_is_left_out(groups: object) -> None:
    """As where discovery is forbidden, or a proxy answers something else."""

    def fetch(path: str) -> object:
        if path == "/apis" and groups is not None:
            return groups
        raise NotFound("there is none", status=404)

    with pytest.raises(NotFound, match="Apply its CRD first"):
        Discovery(fetch).resolve("example.com/v1/Quux")
