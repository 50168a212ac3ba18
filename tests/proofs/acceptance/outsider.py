"""A client of the cluster that shares no code with distq: it makes the load and judges the outcome."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

import workers
from tests.support.eventually import eventually

CRD = Path(workers.__file__).parent / "sample-controller-crd.yaml"
SERVED_WITHIN = 30.0
AUDIENCE = "https://kubernetes.default.svc"

Object = dict[str, Any]


class Outsider:
    """Speaks plain HTTP with an administrator's rights; ``namespace`` is where everything happens."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.cluster: Object = cluster
        self._token = user.get("token", "")
        self._pool = urllib3.PoolManager(
            ca_certs=cluster.get("certificate-authority"), retries=False, timeout=30.0, maxsize=4
        )
        self._foos = f"/apis/samplecontroller.k8s.io/v1alpha1/namespaces/{namespace}/foos"
        self._deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def __enter__(self) -> "Outsider":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()

    def furnish(self) -> None:
        """Create the CRD and the namespace, and wait until Foos are served."""
        crd = yaml.safe_load(CRD.read_text())
        self._request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        self._request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        eventually(
            lambda: self._ask("GET", self._foos).status == 200, "Foos are served", timeout=SERVED_WITHIN
        )

    def service_account(self, name: str) -> str:
        """Create a service account that may do everything; return a token of it."""
        self._request(
            "POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", {"metadata": {"name": name}}
        )
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "namespace": self.namespace, "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        self._request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        token: str = self._request("POST", path, {"spec": {"audiences": [AUDIENCE]}})["status"]["token"]
        return token

    def create(self, name: str, replicas: int) -> None:
        """Create a Foo."""
        foo = {
            "apiVersion": "samplecontroller.k8s.io/v1alpha1",
            "kind": "Foo",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"deploymentName": name, "replicas": replicas},
        }
        self._request("POST", self._foos, foo)

    def scale(self, name: str, replicas: int) -> None:
        """Change how many replicas a Foo wants."""
        patch = {"spec": {"replicas": replicas}}
        self._request("PATCH", f"{self._foos}/{name}", patch, "application/merge-patch+json")

    def delete(self, name: str) -> None:
        """Delete a Foo."""
        self._request("DELETE", f"{self._foos}/{name}")

    def collect_garbage(self) -> None:
        """Delete the Deployments whose Foos are gone, as a whole cluster does by itself."""
        living = {foo["metadata"]["uid"] for foo in self._list(self._foos)}
        for deployment in self._list(self._deployments):
            if not living & {owner["uid"] for owner in deployment["metadata"]["ownerReferences"]}:
                self._request("DELETE", f"{self._deployments}/{deployment['metadata']['name']}")

    def complaints(self, replicas: Mapping[str, int]) -> Iterator[str]:
        """Yield what is not as it should be: each name a Foo that owns a Deployment with so many replicas."""
        foos = {foo["metadata"]["name"]: foo for foo in self._list(self._foos)}
        deployments = {each["metadata"]["name"]: each for each in self._list(self._deployments)}
        yield from (f"{name} is there" for name in foos.keys() - replicas.keys())
        yield from (f"{name} is not there" for name in replicas.keys() - foos.keys())
        for name in foos.keys() & replicas.keys():
            if (deployment := deployments.get(name)) is None:
                yield f"{name} has no Deployment"
                continue
            if (found := deployment["spec"]["replicas"]) != replicas[name]:
                yield f"{name} has {found} replicas, not {replicas[name]}"
            owners = [each["uid"] for each in deployment["metadata"]["ownerReferences"] if each["controller"]]
            if owners != [foos[name]["metadata"]["uid"]]:
                yield f"{name} is owned by {owners}"

    def _list(self, path: str) -> list[Object]:
        items: list[Object] = self._request("GET", path)["items"]
        return items

    def _request(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> Object:
        response = self._ask(method, path, body, content_type)
        assert response.status < 300, f"{method} {path}: {response.status} {response.data[:500]!r}"
        answer: Object = response.json()
        return answer

    def _ask(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        content = None if body is None else json.dumps(body).encode()
        return self._pool.request(method, self.cluster["server"] + path, body=content, headers=headers)


@dataclass
class Change:
    """What is done to one object, and when, by the monotonic clock, it was asked for and answered."""

    name: str
    act: Callable[[], None]
    asked: float = 0.0
    answered: float = 0.0


class Load(threading.Thread):
    """Makes changes, at most so many a second."""

    def __init__(self, changes: Sequence[Change], per_second: float) -> None:
        super().__init__(name="load", daemon=True)
        self.changes = changes
        self.done = 0
        self._period = 1 / per_second
        self._error: Exception | None = None

    def run(self) -> None:
        """Make the changes one after another."""
        began = time.monotonic()
        try:
            for number, change in enumerate(self.changes):
                time.sleep(max(0.0, began + number * self._period - time.monotonic()))
                change.asked = time.monotonic()
                change.act()
                change.answered = time.monotonic()
                self.done += 1
        except Exception as error:  # noqa: BLE001 - check raises it
            self._error = error

    def is_over(self) -> bool:
        """Return whether all changes were made; raise what one of them failed with."""
        if self._error is not None:
            raise self._error
        return self.done == len(self.changes)
