"""An item's page has the command that shows its object."""

import re

import pytest
from flask.testing import FlaskClient

from distq.dashboard.item_id import encoded
from distq.dashboard.pages import kubectl_get
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import Purpose
from tests.dashboard.conftest import HOSTILE_KEYS
from tests.dashboard.test_pages import Read, read


@pytest.mark.parametrize(
    ("resource", "key", "command"),
    [
        ("v1/Pod", "prod/web", "kubectl get Pod -n prod web"),
        ("apps/v1/Deployment", "prod/web", "kubectl get Deployment.v1.apps -n prod web"),
        ("example.com/v1beta1/Foo", "p-1/a.b", "kubectl get Foo.v1beta1.example.com -n p-1 a.b"),
        ("v1/Namespace", "prod", "kubectl get Namespace prod"),
        (
            "rbac.authorization.k8s.io/v1/ClusterRole",
            "system:node",
            "kubectl get ClusterRole.v1.rbac.authorization.k8s.io system:node",
        ),
    ],
)
def test_a_key_becomes_a_command(resource: str, key: str, command: str) -> None:
    """By kind, version and group, so that it names one resource; with a namespace where the key has one."""
    assert kubectl_get(resource, key) == command


@pytest.mark.parametrize(
    "key", ["a/b/c", "-n/web", "prod/--all", "/web", "prod/", "a b", "$(id)", "a;b", "..", "", "x" * 254]
)
def test_a_key_that_names_no_object_has_no_command(key: str) -> None:
    """No word of a command that is pasted into a shell is anything but a name."""
    assert kubectl_get("v1/Pod", key) is None


@pytest.mark.parametrize("resource", [None, "", "Pod", "v1/pods", "v1/Pod;id", "a b/v1/Foo", "A/v1/Foo"])
def test_without_a_resource_there_is_no_command(resource: str | None) -> None:
    """A text that is no apiVersion and kind was written by another program."""
    assert kubectl_get(resource, "prod/web") is None


def command_of(browser: FlaskClient, key: str) -> str | None:
    """Return the command on the page of an item."""
    page: Read = read(browser, f"/queues/foos/items/{encoded(key)}")
    fields = [attributes for tag, attributes in page.tags if attributes.get("id") == "kubectl"]
    return fields[0]["value"] if fields else None


def test_the_page_has_the_command_while_a_worker_is_there(
    browser: FlaskClient, connection: Connection
) -> None:
    """Also of an item that is done: its object may be there. A queue of any program has none."""
    queue = Queue("foos", connection)
    queue.add("prod/web")
    assert command_of(browser, "prod/web") is None
    queue.purpose = lambda: Purpose("example.com/v1/Foo")
    queue.settle(queue.get(timeout=5))
    for key in ("prod/web", "prod/gone"):
        command = f"kubectl get Foo.v1.example.com -n prod {key.partition('/')[2]}"
        assert command_of(browser, key) == command
    for key in HOSTILE_KEYS:
        assert re.fullmatch("[A-Za-z0-9 ._:-]*", command_of(browser, key) or ""), key
    queue.close()
    assert command_of(browser, "prod/web") is None


def test_a_leader_knows_the_resource_where_no_worker_is(browser: FlaskClient, connection: Connection) -> None:
    """By its stream; two programs on a shared queue leave it open which object is meant."""
    Queue("foos", connection).add("prod/web")
    for number, resource in enumerate(("v1/Pod", "v1/Pod", "v1/Node")):
        about = {"resource": "pods", **Purpose(resource).about()}
        StreamStore(connection, "foos", f"s{number}").commit(
            Commit(epoch="7", after="", new="1", batch="b", about=about)
        )
        expected = "kubectl get Pod -n prod web" if resource == "v1/Pod" else None
        assert command_of(browser, "prod/web") == expected
