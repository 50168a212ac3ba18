"""An independent client that creates, changes and deletes objects, and knows how each should end."""

import random
import threading
import time
from dataclasses import dataclass

from distq.cli.demo.controller import RESOURCE
from distq.client.client import Client

_UPDATES = 2
_DELETED = 0.15
_FAILURES = (0, 0, 0, 0, 0, 0, 0, 1, 1, 2)


@dataclass(frozen=True, order=True)
class Change:
    """What happens to an object, and when: ``at`` is a part of the duration."""

    at: float
    verb: str
    name: str


def plan(objects: int, random_numbers: random.Random) -> list[Change]:
    """Return the changes in their order: each object is created, updated twice, and perhaps deleted."""
    changes = []
    for number in range(objects):
        name = f"foo-{number:04}"
        created = random_numbers.uniform(0.0, 0.5)
        changes.append(Change(created, "create", name))
        changes += [Change(random_numbers.uniform(created, 0.9), "update", name) for _ in range(_UPDATES)]
        if random_numbers.random() < _DELETED:
            changes.append(Change(random_numbers.uniform(0.9, 1.0), "delete", name))
    return sorted(changes)


class Generator(threading.Thread):
    """Carries out a plan within ``duration`` seconds; ``alive`` is what exists when it is through."""

    def __init__(self, client: Client, namespace: str, objects: int, duration: float) -> None:
        super().__init__(name="generator", daemon=True)
        self.alive: set[str] = set()
        self.error: Exception | None = None
        self._random = random.Random(objects)
        self._plan = plan(objects, self._random)
        self._client = client
        self._namespace = namespace
        self._duration = duration

    @property
    def keys(self) -> set[str]:
        """Return the keys of all objects, also of the deleted."""
        return {f"{self._namespace}/{change.name}" for change in self._plan}

    def run(self) -> None:
        """Make the changes, none before its time."""
        began = time.monotonic()
        try:
            for change in self._plan:
                time.sleep(max(0.0, began + change.at * self._duration - time.monotonic()))
                self._make(change)
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits for it
            self.error = error

    def _make(self, change: Change) -> None:
        key = f"{self._namespace}/{change.name}"
        spec = {
            "change": round(change.at * 1_000_000),
            "milliseconds": self._random.randrange(5, 60),
            "failures": self._random.choice(_FAILURES),
        }
        if change.verb == "delete":
            self._client.delete(RESOURCE, key)
            self.alive.discard(key)
        elif change.verb == "update":
            self._client.patch(RESOURCE, key, {"spec": spec})
        else:
            api_version, _, kind = RESOURCE.rpartition("/")
            metadata = {"namespace": self._namespace, "name": change.name}
            foo = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
            self._client.create(foo)
            self.alive.add(key)
