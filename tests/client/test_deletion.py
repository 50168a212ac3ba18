"""What a deletion spares, takes along and waits for."""

from typing import Any

import pytest

from distq import set_controller_reference
from distq.client import Client, Object
from distq.errors import ConfigError, Conflict
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.samples import config_map

CONFIG_MAP = "v1/ConfigMap"
HELD = "example.com/held"


def family(client: Client, namespace: str) -> Object:
    """Create a ConfigMap that owns another, both held by a finalizer; return the owner."""
    owner = client.add_finalizer(client.create(config_map(namespace, "owner")), HELD)
    owned = config_map(namespace, "owned")
    set_controller_reference(owner, owned)
    client.add_finalizer(client.create(owned), HELD)
    return owner


def release(client: Client, namespace: str) -> None:
    """Let both go."""
    for obj in client.list(CONFIG_MAP, namespace):
        client.remove_finalizer(obj, HELD)


def finalizers(client: Client, key: str) -> list[str]:
    """Return the finalizers of a ConfigMap that is there."""
    found = client.get(CONFIG_MAP, key)
    assert found is not None
    return list(found["metadata"].get("finalizers") or ())


def test_delete_spares_another_object_of_the_name(client: Client, namespace: str) -> None:
    """With ``uid`` only the object that was meant is deleted, not one that was created anew."""
    old = client.create(config_map(namespace, "web"))
    assert client.delete(CONFIG_MAP, f"{namespace}/web", uid=old["metadata"]["uid"])
    new = client.create(config_map(namespace, "web"))
    with pytest.raises(Conflict):
        client.delete(CONFIG_MAP, f"{namespace}/web", uid=old["metadata"]["uid"])
    assert client.get(CONFIG_MAP, f"{namespace}/web") == new
    about = new["metadata"]
    assert client.delete(
        CONFIG_MAP, f"{namespace}/web", uid=about["uid"], resource_version=about["resourceVersion"]
    )


def test_delete_in_the_foreground_waits_for_dependents(client: Client, namespace: str) -> None:
    """The object stays, marked so, until what it owns is gone."""
    family(client, namespace)
    assert client.delete(CONFIG_MAP, f"{namespace}/owner", propagation="Foreground")
    assert finalizers(client, f"{namespace}/owner") == [HELD, "foregroundDeletion"]
    release(client, namespace)


def test_delete_leaves_orphans(api_server: ApiServer, client: Client, namespace: str) -> None:
    """Dependents stay, and lose their owner; on the bare API server the mark is all that can be seen."""
    family(client, namespace)
    assert client.delete(CONFIG_MAP, f"{namespace}/owner", propagation="Orphan")
    if api_server.kind == "real":
        assert finalizers(client, f"{namespace}/owner") == [HELD, "orphan"]
    else:
        eventually(lambda: "ownerReferences" not in owned(client, namespace)["metadata"], "an orphan")
        assert "deletionTimestamp" not in owned(client, namespace)["metadata"]
    release(client, namespace)


def owned(client: Client, namespace: str) -> Object:
    """Return the owned ConfigMap."""
    found = client.get(CONFIG_MAP, f"{namespace}/owned")
    assert found is not None
    return found


def test_delete_gives_a_pod_its_time(client: Client, namespace: str) -> None:
    """A running Pod gets ``grace_period`` seconds to end; 0 ends it at once."""
    container = {"name": "web", "image": "nginx"}
    about = {"name": "web", "namespace": namespace}
    spec = {"containers": [container], "nodeName": "somewhere"}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})
    assert client.delete("v1/Pod", f"{namespace}/web", grace_period=7)
    pod = client.get("v1/Pod", f"{namespace}/web")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 7
    assert client.delete("v1/Pod", f"{namespace}/web", grace_period=0)
    assert client.get("v1/Pod", f"{namespace}/web") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"propagation": "background"}, r"bad propagation 'background'\. Give one of Background, Foreground"),
        ({"propagation": None}, "bad propagation None"),
        ({"grace_period": -1}, r"bad grace_period -1\. Give whole seconds, 0 or more"),
        ({"grace_period": 1.5}, "bad grace_period"),
        ({"grace_period": True}, "bad grace_period"),
    ],
)
def test_delete_refuses_a_wrong_option(
    client: Client, namespace: str, options: dict[str, Any], message: str
) -> None:
    """A wrong option is a ConfigError, and the object stays."""
    created = client.create(config_map(namespace, "web"))
    with pytest.raises(ConfigError, match=message):
        client.delete(CONFIG_MAP, f"{namespace}/web", **options)
    assert client.get(CONFIG_MAP, f"{namespace}/web") == created
