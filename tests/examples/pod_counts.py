"""How many pods each owner had at most, in the API server's own words."""

import json
from collections import Counter
from typing import Any

from distq import Client, controller_of
from examples.pods import is_active

POD = "v1/Pod"

Object = dict[str, Any]


class PodCounts:
    """Follows the pods of a namespace from now on; look at them often, since no server remembers for long."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.most: Counter[str] = Counter()
        """By owner, the most pods that lived at a time."""
        self._client = client
        self._namespace = namespace
        self._path = client.resolve(POD).path(namespace)
        self._pods: dict[str, Object] = {}
        first = json.loads(client.request("GET", self._path, query={"limit": "1"}))
        assert not first["items"], "there are pods already"
        self._version = first["metadata"]["resourceVersion"]

    def look(self) -> Counter[str]:
        """Read what happened since the last look; return how many pods each owner has."""
        there = {pod["metadata"]["uid"]: pod for pod in self._client.list(POD, self._namespace)}
        query = {"watch": "true", "resourceVersion": self._version}
        if not self._has_seen(there):
            with self._client.stream(self._path, query=query, read_timeout=20) as lines:
                for line in lines:
                    event = json.loads(line)
                    self._see(event["type"], event["object"])
                    if self._has_seen(there):
                        break
        return self._count()

    def _has_seen(self, there: dict[str, Object]) -> bool:
        """Return whether the pods are as they were when they were listed, or newer."""
        return there.keys() <= self._pods.keys() and all(
            uid in there and _version(pod) >= _version(there[uid]) for uid, pod in self._pods.items()
        )

    def _see(self, kind: str, pod: Object) -> None:
        assert kind in {"ADDED", "MODIFIED", "DELETED"}, f"{kind}: {pod}"
        self._version = pod["metadata"]["resourceVersion"]
        self._pods[pod["metadata"]["uid"]] = pod
        if kind == "DELETED":
            del self._pods[pod["metadata"]["uid"]]
        for owner, count in self._count().items():
            self.most[owner] = max(self.most[owner], count)

    def _count(self) -> Counter[str]:
        return Counter((controller_of(pod) or {})["name"] for pod in self._pods.values() if is_active(pod))


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
