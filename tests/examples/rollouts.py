"""How often the pods of a workload were made anew, in the API server's own words."""

import json
from itertools import pairwise
from typing import Any

from distq import Client, key_of


def rollouts(client: Client, created: dict[str, Any]) -> int:
    """Return how often the pod template has changed since the workload was created, by its watch."""
    resource = f"{created['apiVersion']}/{created['kind']}"
    now = client.get(resource, key_of(created))
    assert now is not None
    templates = [created["spec"]["template"]]
    version = created["metadata"]["resourceVersion"]
    query = {"watch": "true", "fieldSelector": f"metadata.name={created['metadata']['name']}"}
    path = client.resolve(resource).path(created["metadata"]["namespace"])
    if version != now["metadata"]["resourceVersion"]:
        with client.stream(path, query={**query, "resourceVersion": version}, read_timeout=20) as lines:
            for line in lines:
                obj = json.loads(line)["object"]
                templates.append(obj["spec"]["template"])
                if obj["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"]:
                    break
    return sum(one != next_one for one, next_one in pairwise(templates))


class Rollouts:
    """Counts the same of all workloads of a namespace from now on.

    It goes on where it was, since no server remembers for long: on a slow machine the creation is forgotten.
    """

    def __init__(self, client: Client, resource: str, namespace: str) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._last = self._present()
        self._counts = dict.fromkeys(self._last, 0)

    def counts(self) -> list[int]:
        """Return how often each pod template has changed."""
        wanted = {name: _version(workload) for name, workload in self._present().items()}
        path = self._client.resolve(self._resource).path(self._namespace)
        query = {"watch": "true", "resourceVersion": str(max(map(_version, self._last.values())))}
        if any(_version(self._last[name]) < version for name, version in wanted.items()):
            with self._client.stream(path, query=query, read_timeout=20) as lines:
                for line in lines:
                    self._see(json.loads(line)["object"])
                    if all(_version(self._last[name]) >= version for name, version in wanted.items()):
                        break
        return list(self._counts.values())

    def _see(self, workload: dict[str, Any]) -> None:
        name = workload["metadata"]["name"]
        before, self._last[name] = self._last[name], workload
        self._counts[name] += before["spec"]["template"] != workload["spec"]["template"]

    def _present(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self._client.list(self._resource, self._namespace)}


def _version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])
