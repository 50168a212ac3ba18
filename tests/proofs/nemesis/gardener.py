"""Changes objects of a cluster while faults happen, and knows the last state of each."""

import random
import threading
import time
from collections.abc import Callable

from distq.client import Client
from distq.errors import ApiError
from tests.proofs.nemesis.journal import Change

NAMESPACE = "nemesis"
NAMES = [f"{'long' if number % 8 == 0 else 'map'}-{number}" for number in range(24)]


class Gardener(threading.Thread):
    """Creates, changes and deletes ConfigMaps, ``per_second``; repeats a failed request until it succeeds."""

    def __init__(self, client: Client, chance: random.Random, per_second: float) -> None:
        super().__init__(name="gardener", daemon=True)
        self.living: set[str] = set()
        self._client = client
        self._chance = chance
        self._period = 1 / per_second
        self._version = 0
        self._changes: list[Change] = []
        self._may_work = threading.Event()
        self._rests = threading.Event()
        self._ended = threading.Event()

    def run(self) -> None:
        """Change one object after another."""
        while not self._ended.is_set():
            if not self._may_work.is_set():
                self._rests.set()
                self._may_work.wait(0.05)
                continue
            self._change(self._chance.choice(NAMES))
            self._ended.wait(self._period)

    def forget(self) -> None:
        """Begin anew: what was changed before is over."""
        self._changes = []

    def go_on(self) -> None:
        """Change again."""
        self._may_work.set()

    def rest(self) -> None:
        """Return when nothing changes any more."""
        self._may_work.clear()
        self._rests.clear()  # it may have been set as work began; the thread sets it again
        self._rests.wait()

    def go_on_from_cluster(self) -> None:
        """Work on after the cluster was put back meanwhile: what it has now is the last of each object."""
        found: dict[str, int] = {}

        def look() -> None:
            for each in self._client.list("v1/ConfigMap", NAMESPACE, label_selector="nemesis=yes"):
                found[each["metadata"]["name"]] = int(each["data"]["version"])

        self._until_done(look)
        now = time.monotonic()
        for name in self.living | found.keys():
            gone = name not in found
            self._changes.append(Change(f"{NAMESPACE}/{name}", found.get(name, 0), gone, now, now))
        self.living = set(found)
        self.go_on()

    def end(self) -> None:
        """Stop for good."""
        self._ended.set()
        self._may_work.set()
        self.join()

    def changes(self) -> list[Change]:
        """Return what was changed since ``forget``, in that order."""
        return list(self._changes)

    def _change(self, name: str) -> None:
        key = f"{NAMESPACE}/{name}"
        self._version += 1
        gone = name in self.living and self._chance.random() < 0.15
        change = Change(key, self._version, gone, asked=time.monotonic())
        if gone:
            self._until_done(lambda: self._client.delete("v1/ConfigMap", key))
            self.living.discard(name)
        else:
            self._until_done(lambda: self._client.apply(self._config_map(name)))
            self.living.add(name)
        change.answered = time.monotonic()
        self._changes.append(change)

    def _until_done(self, act: Callable[[], object]) -> None:
        while not self._ended.is_set():
            try:
                act()
            except ApiError:
                time.sleep(0.2)
            else:
                return

    def _config_map(self, name: str) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"nemesis": "yes"}},
            "data": {"version": str(self._version)},
        }
