"""Kubernetes' sample-controller on distq does what the original does."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import workers
from distq import Inspector, Request, get_condition
from distq.client import recorder
from distq.client.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.errors import Conflict
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import FailureRecord
from distq.workqueue.queue import Queue
from tests.controller.test_manager import Running
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.samples import wait_until_served
from workers import sample_controller as sample

FOLDER = Path(workers.__file__).parent
DEPLOYMENT = sample.DEPLOYMENT
pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


@pytest.fixture
def client(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Give a Client of a cluster that knows Foos, which the sample uses, too."""
    client = api_server.client()
    crd = yaml.safe_load((FOLDER / "sample-controller-crd.yaml").read_text())
    with suppress(Conflict):  # an earlier test's
        client.create(crd)
    wait_until_served(client, sample.FOO)
    monkeypatch.setattr(sample, "client", client)
    return client


@pytest.fixture
def running(
    client: Client, connection: Connection, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Run the sample's reconcile and watches over the test's own Redis."""
    controller = Controller(Queue("foos", connection), sample.reconcile, watches=sample.controller.watches)
    monkeypatch.setattr(sample, "controller", controller)
    settings = Settings(lease_name="sample", lease_namespace=namespace)
    manager = Running(Manager([controller], redis=connection, client=client, settings=settings))
    yield
    manager.stop()
    if manager.error is not None:
        raise manager.error


def foo(namespace: str, **spec: Any) -> dict[str, Any]:
    """Return the example Foo, in another namespace and with another spec."""
    example: dict[str, Any] = yaml.safe_load((FOLDER / "sample-foo.yaml").read_text())
    example["metadata"]["namespace"] = namespace
    example["spec"] |= spec
    return example


def events(client: Client, namespace: str) -> list[tuple[str, str]]:
    """Return type and reason of the events said about Foos."""
    assert recorder.flush(60) == 0
    said = client.list("v1/Event", namespace)
    return [(event["type"], event["reason"]) for event in said if event["involvedObject"]["kind"] == "Foo"]


def synced(client: Client, key: str) -> tuple[str, str] | None:
    """Return status and reason of the Foo's condition."""
    condition = get_condition(client.get(sample.FOO, key) or {}, "Synced")
    return (condition["status"], condition["reason"]) if condition else None


@pytest.mark.usefixtures("running")
def test_a_foo_owns_a_deployment_that_follows_it(client: Client, namespace: str) -> None:
    """It is created with the Foo as its controller, scaled with it and created again, and has an event."""
    key = f"{namespace}/example-foo"
    owner = client.create(foo(namespace))
    eventually(lambda: client.get(DEPLOYMENT, key))
    deployment = client.get(DEPLOYMENT, key)
    assert deployment is not None
    (reference,) = deployment["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (owner["metadata"]["uid"], True)
    assert deployment["spec"]["replicas"] == 1

    client.patch(sample.FOO, key, {"spec": {"replicas": 3}})
    eventually(lambda: (client.get(DEPLOYMENT, key) or {})["spec"]["replicas"] == 3)
    client.patch(DEPLOYMENT, key, {"spec": {"replicas": 7}})
    eventually(lambda: (client.get(DEPLOYMENT, key) or {})["spec"]["replicas"] == 3)
    client.delete(DEPLOYMENT, key)
    eventually(
        lambda: (
            (client.get(DEPLOYMENT, key) or deployment)["metadata"]["uid"] != deployment["metadata"]["uid"]
        )
    )
    eventually(lambda: ("Normal", "Synced") in events(client, namespace))


@pytest.mark.usefixtures("running")
def test_the_status_says_how_many_replicas_are_available(client: Client, namespace: str) -> None:
    """The Deployment's status becomes the Foo's, through the subresource."""
    key = f"{namespace}/example-foo"
    client.create(foo(namespace))

    def available() -> object:
        return (client.get(sample.FOO, key) or {}).get("status", {}).get("availableReplicas")

    eventually(lambda: available() == 0)
    status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    client.patch(DEPLOYMENT, key, {"status": status}, status=True)
    eventually(lambda: available() == 1)
    assert synced(client, key) == ("True", "Synced")


@pytest.mark.usefixtures("running")
def test_an_object_that_is_as_it_should_be_is_not_written(
    client: Client, connection: Connection, namespace: str
) -> None:
    """A reconcile of a Foo that is synced changes neither it nor its Deployment, and says nothing."""
    key = f"{namespace}/example-foo"
    client.create(foo(namespace))
    eventually(lambda: synced(client, key) == ("True", "Synced"))
    eventually(lambda: Inspector(connection).item("foos", key) is None)
    before = [client.get(resource, key) for resource in (sample.FOO, DEPLOYMENT)]
    said = events(client, namespace)
    sample.reconcile(Request(key))
    assert [client.get(resource, key) for resource in (sample.FOO, DEPLOYMENT)] == before
    assert events(client, namespace) == said


@pytest.mark.usefixtures("running")
def test_a_deployment_of_another_owner_is_left_alone(
    client: Client, connection: Connection, namespace: str
) -> None:
    """The Foo fails with an event and is tried again; the Deployment stays as it was."""
    key = f"{namespace}/example-foo"
    stranger = sample.new_deployment(
        {**foo(namespace), "metadata": {"uid": "x", **foo(namespace)["metadata"]}}
    )
    del stranger["metadata"]["ownerReferences"]
    before = client.create(stranger)
    client.create(foo(namespace, replicas=5))
    eventually(lambda: ("Warning", "ErrResourceExists") in events(client, namespace))
    eventually(lambda: _failure(connection, key) is not None)
    failure = _failure(connection, key)
    assert failure is not None
    assert "already exists and is not managed by Foo" in failure.error
    assert synced(client, key) == ("False", "ErrResourceExists")
    assert client.get(DEPLOYMENT, key) == before


@pytest.mark.usefixtures("running")
def test_an_empty_deployment_name_is_terminal_until_the_foo_changes(
    client: Client, connection: Connection, namespace: str
) -> None:
    """It is parked, not retried; a new name revives it."""
    key = f"{namespace}/example-foo"
    client.create(foo(namespace, deploymentName=""))

    def is_parked() -> bool:
        failure = _failure(connection, key)
        return failure is not None and failure.reason == "terminal"

    eventually(is_parked)
    assert synced(client, key) == ("False", "NoDeploymentName")
    client.patch(sample.FOO, key, {"spec": {"deploymentName": "named"}})
    eventually(lambda: client.get(DEPLOYMENT, f"{namespace}/named"))
    eventually(lambda: _failure(connection, key) is None)
    eventually(lambda: synced(client, key) == ("True", "Synced"))


def _failure(connection: Connection, key: str) -> FailureRecord | None:
    (record,) = QueueStore(connection, "foos").read(("HGET", "failures", key))
    return FailureRecord.parse(record) if record else None
