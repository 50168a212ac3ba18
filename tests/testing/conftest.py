"""What the tests of the emulated API server share: plain requests, to it and to the real one."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from distq.client import Client
from distq.errors import ApiError, NotFound
from tests.support.api_servers import ApiServer, EmulatedServer
from tests.support.eventually import eventually
from tests.support.samples import custom_resource, wait_until_served
from tests.testing import gadgets as gadgets_of
from tests.testing.twins import Twins

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

Answer = dict[str, Any]


class Api:
    """Requests as they are, answers decoded."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(self, method: str, path: str, body: Any = None, /, **query: str) -> Answer:
        """Send a request; ``content_type`` and ``accept`` are headers, what else is named the query."""
        headers = {name: query.pop(name) for name in ("content_type", "accept") if name in query}
        body = self._client.request(method, path, query=query, body=body, **headers)  # type: ignore[arg-type]  # headers are texts
        answer: Answer = msgspec.json.decode(body)
        return answer

    def get(self, path: str, **query: str) -> Answer:
        """GET."""
        return self.ask("GET", path, **query)

    def create(self, path: str, body: Mapping[str, Any]) -> Answer:
        """POST."""
        return self.ask("POST", path, body)

    def put(self, path: str, body: Mapping[str, Any]) -> Answer:
        """PUT."""
        return self.ask("PUT", path, body)

    def merge(self, path: str, patch: Any) -> Answer:
        """PATCH with a merge patch."""
        return self.ask("PATCH", path, patch, content_type="application/merge-patch+json")

    def json_patch(self, path: str, *operations: Mapping[str, Any]) -> Answer:
        """PATCH with a JSON patch."""
        return self.ask("PATCH", path, operations, content_type="application/json-patch+json")

    def apply(self, path: str, configuration: Mapping[str, Any], manager: str = "tests") -> Answer:
        """PATCH by server-side apply."""
        content_type = "application/apply-patch+yaml"
        return self.ask(
            "PATCH", path, configuration, content_type=content_type, fieldManager=manager, force="true"
        )

    def delete(self, path: str, options: Any = None, **query: str) -> Answer:
        """DELETE."""
        return self.ask("DELETE", path, options, **query)

    def refused(self, method: str, path: str, body: Any = None, /, **query: str) -> Answer:
        """Send a request that is refused, and return the Status that says why."""
        with pytest.raises(ApiError) as caught:
            self.ask(method, path, body, **query)
        return dict(caught.value.answer)

    def watch(self, path: str, count: int, **query: str) -> list[Answer]:
        """Return the first events of a watch; fewer where it ends before."""
        accept = query.pop("accept", "application/json")
        events: list[Answer] = []
        with self._client.stream(
            path, query={"watch": "true", **query}, read_timeout=20, accept=accept
        ) as stream:
            for line in stream:
                events.append(msgspec.json.decode(line))
                if len(events) == count:
                    break
        return events

    def version(self, path: str) -> str:
        """Return the version of a collection now."""
        version: str = self.get(path, limit="1")["metadata"]["resourceVersion"]
        return version


@pytest.fixture
def api(api_server: ApiServer) -> Api:
    """Give plain requests to the API server."""
    return Api(api_server.client())


@pytest.fixture
def config_maps(namespace: str) -> str:
    """Give the path of the test's ConfigMaps."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def leases(namespace: str) -> str:
    """Give the path of the test's Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


@pytest.fixture
def deployments(namespace: str) -> str:
    """Give the path of the test's Deployments."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


WIDGET_GROUP = "emulation.example.com"


@pytest.fixture(scope="session")
def widget_definition(api_server: ApiServer) -> str:
    """Give the path of the definition of Widgets, which have a status; it lives for the session."""
    client = api_server.client()
    client.create(custom_resource(WIDGET_GROUP))
    wait_until_served(client, f"{WIDGET_GROUP}/v1/Widget")
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{WIDGET_GROUP}"


@pytest.fixture
def widgets(widget_definition: str, namespace: str) -> str:
    """Give the path of the test's Widgets."""
    assert widget_definition
    return f"/apis/{WIDGET_GROUP}/v1/namespaces/{namespace}/widgets"


def config_map(name: str, *, metadata: Mapping[str, Any] | None = None, **data: str) -> Answer:
    """Return a ConfigMap."""
    named = {"name": name, **(metadata or {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": data}


def labelled(name: str, **labels: str) -> Answer:
    """Return a ConfigMap with labels."""
    return config_map(name, metadata={"labels": labels})


def lease(name: str, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Answer:
    """Return a Lease."""
    named = {"name": name, **(metadata or {})}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named, "spec": spec}


def widget(name: str, *, metadata: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
    """Return a Widget."""
    named = {"name": name, **(metadata or {})}
    return {"apiVersion": f"{WIDGET_GROUP}/v1", "kind": "Widget", "metadata": named, **fields}


def deployment(name: str, **containers: str) -> Answer:
    """Return a Deployment of one replica, of containers by their images."""
    labels = {"app": name}
    pod = {"containers": [{"name": each, "image": image} for each, image in containers.items()]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def names(answer: Answer) -> list[str]:
    """Return the names in a list, in its order."""
    return [item["metadata"]["name"] for item in answer["items"]]


def version_of(obj: Answer) -> int:
    """Return an object's version as a number."""
    return int(obj["metadata"]["resourceVersion"])


def changes(events: list[Answer]) -> list[tuple[str, str]]:
    """Return type and name of each event."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def wait_until_gone(api: Api, path: str) -> None:
    """Wait until a path answers 404."""

    def is_gone() -> bool:
        try:
            api.get(path)
        except NotFound:
            return True
        return False

    eventually(is_gone, f"{path} is gone")


on_both = pytest.mark.parametrize("api_server", ["real"], indirect=True, scope="session")
"""Marks a test that compares what both servers answer."""


@pytest.fixture(scope="session")
def emulator(api_server: ApiServer) -> Iterator[ApiServer]:
    """Give an emulated server beside the real one; both serve Gadgets."""
    assert api_server.kind == "real"
    with EmulatedServer() as emulator:
        for server in api_server, emulator:
            server.client().create(gadgets_of.definition())
            wait_until_served(server.client(), f"{gadgets_of.GROUP}/v1/Gadget")
        yield emulator


@pytest.fixture
def twins(api_server: ApiServer, emulator: ApiServer, namespace: str) -> Twins:
    """Give the real server and an emulated one; both have the test's namespace."""
    emulator.client().create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    return Twins(api_server.client(), emulator.client())


@pytest.fixture
def gadgets(namespace: str) -> str:
    """Give the path of the test's Gadgets."""
    return f"/apis/{gadgets_of.GROUP}/v1/namespaces/{namespace}/gadgets"


@pytest.fixture
def definition() -> str:
    """Give the path of the definition of Gadgets."""
    name = gadgets_of.definition()["metadata"]["name"]
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
