"""Pods for tests of caches, a handler that notes its calls, and a way to wait for calls."""

import threading
from collections.abc import Callable
from typing import Any

from distq.client import Object
from distq.informer import SharedInformer
from distq.informer.stored_object import DeletedFinalStateUnknown, StoredObject, store_object
from distq.testing.fake_clock import FakeClock
from tests.support.eventually import eventually

Start = Callable[..., SharedInformer]
"""Makes an informer, whose options it takes."""

Run = Callable[..., threading.Thread]
"""Runs an informer until the test's end; with ``synced``, it returns when that has synced."""


def pod(name: str, version: int | str = "", **labels: str) -> Object:
    """Return a pod of the namespace "prod" unless the name says another."""
    namespace, _, name = name.rpartition("/")
    metadata: dict[str, Any] = {"namespace": namespace or "prod", "name": name, "labels": labels}
    if version:
        metadata["resourceVersion"] = str(version)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def stored(name: str, version: int | str = "") -> StoredObject:
    """Return it as a cache keeps it."""
    return store_object(pod(name, version))


class Notes:
    """A handler that notes each call as text, and may be made to wait or fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.failing: set[str] = set()
        self.error: type[BaseException] = RuntimeError

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Note ``add name@version``, with ``first`` for one of the first list."""
        self._note(f"add {_name(obj)}{' first' if is_in_initial_list else ''}", obj)

    def on_update(self, old: Object, new: Object) -> None:
        """Note ``update name@old-new``."""
        self._note(f"update {_name(old)}-{new['metadata'].get('resourceVersion', '')}", new)

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """Note ``delete name@version``, or ``missed``."""
        if isinstance(obj, DeletedFinalStateUnknown):
            self._note(f"missed {_name(obj.obj)}", obj.obj)
        else:
            self._note(f"delete {_name(obj)}", obj)

    def _note(self, text: str, obj: Object) -> None:
        assert self.go_on.wait(30)
        self.calls.append(text)
        if obj["metadata"]["name"] in self.failing:
            raise self.error("as the test wants")

    def gets(self, *texts: str) -> None:
        """Wait until exactly these calls were noted."""
        eventually(lambda: self.calls == list(texts), lambda: f"got {self.calls}, expected {list(texts)}")


def _name(obj: Object) -> str:
    return f"{obj['metadata']['name']}@{obj['metadata'].get('resourceVersion', '')}"


def names(objects: list[Object]) -> list[str]:
    """Return the sorted names of objects."""
    return sorted(obj["metadata"]["name"] for obj in objects)


def stepping(clock: FakeClock, condition: Callable[[], object]) -> Callable[[], object]:
    """Return the condition, at every look at which a quarter of a second has passed."""

    def stepped() -> object:
        clock.step(0.25)
        return condition()

    return stepped


def step_until(clock: FakeClock, condition: Callable[[], object]) -> None:
    """Let time pass until something is so."""
    eventually(stepping(clock, condition))
