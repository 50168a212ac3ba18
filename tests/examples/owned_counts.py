"""How many objects each owner had at most, in the API server's own words."""

import json
from collections import Counter
from typing import Any

from distq import Client, controller_of
from examples.pods import is_active

Object = dict[str, Any]


class OwnedCounts:
    """Follows the owned objects of a namespace from now on; pods that have ended or are deleted do not count.

    Look at them often, since no server remembers for long.
    """

    def __init__(self, client: Client, resource: str, namespace: str) -> None:
        self.most: Counter[str] = Counter()
        """By owner, the most objects that it had at a time."""
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._path = client.resolve(resource).path(namespace)
        self._objects: dict[str, Object] = {}
        first = json.loads(client.request("GET", self._path, query={"limit": "1"}))
        assert not first["items"], f"there are objects of {resource} already"
        self._version = first["metadata"]["resourceVersion"]

    def look(self) -> Counter[str]:
        """Read what happened since the last look; return how many objects each owner has."""
        listed = self._client.list(self._resource, self._namespace)
        there = {obj["metadata"]["uid"]: obj for obj in listed}
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
        """Return whether the objects are as they were when they were listed, or newer."""
        return there.keys() <= self._objects.keys() and all(
            uid in there and _version(obj) >= _version(there[uid]) for uid, obj in self._objects.items()
        )

    def _see(self, kind: str, obj: Object) -> None:
        assert kind in {"ADDED", "MODIFIED", "DELETED"}, f"{kind}: {obj}"
        self._version = obj["metadata"]["resourceVersion"]
        self._objects[obj["metadata"]["uid"]] = obj
        if kind == "DELETED":
            del self._objects[obj["metadata"]["uid"]]
        for owner, count in self._count().items():
            self.most[owner] = max(self.most[owner], count)

    def _count(self) -> Counter[str]:
        owners = [controller_of(obj) for obj in self._objects.values() if is_active(obj)]
        return Counter(owner["name"] for owner in owners if owner)


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
