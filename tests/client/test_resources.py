"""How texts become resources, and resources paths."""

import pytest

from distq.client import Client, Resource
from distq.errors import ConfigError

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
    """The server's discovery tells plural and scope."""
    assert client.resolve(text) == resource


@pytest.mark.parametrize("text", ["", "Pod", "v1/", "/Pod", "a/b/v1/Pod", "apps//Deployment", "/"])
def test_bad_texts_are_refused(text: str, client: Client) -> None:
    """A text that is no resource at all says what one looks like."""
    with pytest.raises(ConfigError, match=r"bad resource .* Give e\.g\. apps/v1/Deployment or v1/Pod\."):
        client.resolve(text)
