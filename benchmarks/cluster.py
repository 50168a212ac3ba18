"""A cluster to measure in: the one of KUBECONFIG, or a kube-apiserver and etcd of its own.

Pods come in a namespace that no other program uses and that is removed afterwards. No scheduler takes them,
so that nothing runs, in any cluster.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import msgspec

from distq.client import Client
from distq.errors import ApiError, ConfigError, Expired
from distq.informer import ListWatch
from distq.testing import envtest
from tests.support.api_servers import RealApiServer

WRITERS = 4
"""Threads that write; more of them only wait for the API server."""

Object = dict[str, Any]


@contextmanager
def cluster() -> Iterator[Path]:
    """Give the kubeconfig of the cluster to measure in; raise ConfigError where there is none."""
    if given := os.environ.get("KUBECONFIG"):
        yield Path(given)
        return
    programs = envtest.assets()
    if programs is None:
        raise ConfigError(f"no cluster: KUBECONFIG is not set. Set it, or run: {envtest.COMMAND}")
    with RealApiServer(programs) as server:
        yield server.kubeconfig


@contextmanager
def namespace(client: Client) -> Iterator[str]:
    """Give the name of a new namespace, and remove it and its Pods afterwards."""
    name = f"distq-benchmark-{uuid.uuid4().hex[:8]}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        _remove(client, name)


def _remove(client: Client, namespace: str) -> None:
    """Remove a namespace and its Pods; of very many an API server removes as many as it can in a minute."""
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": "0"}
    for left in reversed(range(TRIES)):
        try:
            client.request("DELETE", path, query=query, timeout=600.0)
            break
        except ApiError as error:
            if error.status not in {0, 504} or not left:
                raise
    client.delete("v1/Namespace", namespace)


TRIES = 10
_STEP = 500


@dataclass(frozen=True)
class Backlog:
    """How many events came after a version."""

    version: str
    events: int


class _Written(msgspec.Struct):
    metadata: dict[str, Any]


_WRITTEN = msgspec.json.Decoder(_Written)


class Pods:
    """The Pods of one namespace, of 3 to 5 KB with their managedFields, and changes of them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.namespace = namespace
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._changes = count(1)
        self.names: list[str] = []
        self.version = "0"
        """The highest version that any Pod has."""

    def create(self, objects: int) -> None:
        """Create Pods until there are that many."""
        names = [f"web-{number:06}" for number in range(len(self.names), objects)]
        self._each(names, lambda name: self._client.request("POST", self._path, body=_pod(name)))
        self.names += names

    def change(self, events: int) -> "Backlog":
        """Change an annotation of one Pod after another; return as much of that as can still be watched.

        An API server keeps as many events as it expects watches to need, which depends on their pace.
        """
        names = (self.names[number % len(self.names)] for number in range(events))
        begins: list[Backlog] = []
        for done in range(0, events, _STEP):
            begins.append(Backlog(self.version, events - done))
            self._each(islice(names, _STEP), self.change_one)
        return next(filter(self._can_be_watched, begins), begins[-1])

    def _can_be_watched(self, backlog: "Backlog") -> bool:
        list_watch = ListWatch(self._client, "v1/Pod", self.namespace)
        try:
            with list_watch.watch(backlog.version) as lines:
                list_watch.decode(next(iter(lines)))
        except Expired:
            return False
        return True

    def change_one(self, name: str) -> bytes:
        """Change an annotation of one Pod; return what it is now."""
        change = str(next(self._changes))
        return self._client.request(
            "PATCH",
            f"{self._path}/{name}",
            query={"fieldManager": "benchmark"},
            body={"metadata": {"annotations": {"example.com/change": change}}},
            content_type="application/merge-patch+json",
        )

    def _each(self, names: Iterable[str], write: Callable[[str], bytes]) -> None:
        with ThreadPoolExecutor(WRITERS) as writers:
            for written in writers.map(write, names):
                version = _WRITTEN.decode(written).metadata["resourceVersion"]
                self.version = max(self.version, version, key=int)


def _pod(name: str) -> Object:
    environment = [
        {"name": f"SETTING_{n}", "value": f"the value of setting {n} of {name}"} for n in range(12)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web", "tier": "front", "example.com/instance": name},
            "annotations": {f"example.com/note-{n}": f"what somebody noted about {name}" for n in range(6)},
        },
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "web", "image": "example.com/web:1", "env": environment}],
        },
    }
