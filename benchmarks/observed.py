"""What an API server shows of a load: when each object was done, and which requests were made for it."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.children import Child
from benchmarks.cluster import WRITERS
from benchmarks.objects import GROUP, ITEM, REPLICAS, SET, definition, item, pod_of, set_of_pods
from distq.client import Client
from distq.errors import ApiError, Conflict, DistqError, TooManyRequests
from distq.informer import ListWatch

TIMEOUT = 180.0
"""Seconds in which all objects are done."""

LOOK_EVERY = 1.0

LOOKS = 5
"""How often in a row the API server shows the kinds before they are used."""

RESOURCES = ("items", "sets", "pods")

Object = dict[str, Any]
Answer = TypeVar("Answer")


class _Metadata(msgspec.Struct):
    name: str = ""


class _Shown(msgspec.Struct):
    metadata: _Metadata
    status: dict[str, Any] = {}


class _Event(msgspec.Struct):
    type: str
    object: _Shown


_EVENT = msgspec.json.Decoder(_Event)


class Load:
    """Objects in one namespace, and what makes one done."""

    def __init__(self, client: Client, namespace: str, kind: str) -> None:
        self.kind = kind
        self._client = client
        self.namespace = namespace
        self.resource = {"items": ITEM, "sets": SET}[kind]

    def create(self, names: Iterable[str]) -> None:
        """Create objects; of a Set also a Pod that is to be adopted."""
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(self._create_one, names))

    def _create_one(self, name: str) -> None:
        if self.kind == "items":
            self._post(f"/apis/{GROUP}/v1/namespaces/{self.namespace}/items", item(name))
        else:
            self._post(f"/api/v1/namespaces/{self.namespace}/pods", pod_of(name, 0, None))
            self._post(f"/apis/{GROUP}/v1/namespaces/{self.namespace}/sets", set_of_pods(name))

    def _post(self, path: str, obj: Object) -> None:
        _once_ready(lambda: self._client.request("POST", path, body=obj))

    def is_done(self, status: Mapping[str, Any]) -> bool:
        """Return whether an object with this status is done; none is changed after it was created."""
        return bool(
            status.get("observedGeneration") if self.kind == "items" else status.get("replicas") == REPLICAS
        )

    @contextmanager
    def watched(self) -> Iterator["Done"]:
        """Watch, from now on, which objects are done."""
        list_watch = ListWatch(self._client, self.resource, self.namespace)
        with list_watch.watch(_version(list_watch)) as lines:
            done = Done(lines, self.is_done)
            try:
                yield done
            finally:
                lines.close()

    def clear(self) -> None:
        """Delete all that was created."""
        for path in (
            f"/apis/{GROUP}/v1/namespaces/{self.namespace}/{self.kind}",
            f"/api/v1/namespaces/{self.namespace}/pods",
        ):
            self._client.request("DELETE", path, query={"gracePeriodSeconds": "0"}, timeout=TIMEOUT)


class Done:
    """The objects that are done, as a watch shows them."""

    def __init__(self, lines: Any, is_done: Callable[[Mapping[str, Any]], bool]) -> None:
        self._lines = lines
        self._is_done = is_done
        self._at: dict[str, float] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def wait_for(self, number: int, work: Iterable[Child]) -> list[float]:
        """Return when each became done, in their order, once so many are.

        Raises DistqError after a while, or where one of the processes that work has ended.
        """
        deadline = time.monotonic() + TIMEOUT
        with self._changed:
            while not self._changed.wait_for(lambda: len(self._at) >= number, LOOK_EVERY):
                for child in work:
                    child.require_alive()
                if time.monotonic() > deadline:
                    raise DistqError(f"{len(self._at)} of {number} objects were done within {TIMEOUT:g} s")
            return sorted(self._at.values())

    def _follow(self) -> None:
        try:
            for line in self._lines:
                event = _EVENT.decode(line)
                if event.type in {"ADDED", "MODIFIED"} and self._is_done(event.object.status):
                    with self._changed:
                        self._at.setdefault(event.object.metadata.name, time.monotonic())
                        self._changed.notify_all()
        except (ApiError, ValueError):
            return  # it was closed; one that breaks too early ends in a timeout


def _version(list_watch: ListWatch) -> str:
    return _once_ready(list_watch.version)


def _once_ready(ask: Callable[[], Answer]) -> Answer:
    """Ask until the API server is ready for a new kind, which it shows before."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except TooManyRequests:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def define(client: Client, kubeconfig: Path) -> None:
    """Let the API server have the kinds, and wait until each new client finds them: at first some do not."""
    for kind in ("Item", "Set"):
        try:
            client.create(definition(kind))
        except Conflict:
            continue
    deadline, shown = time.monotonic() + 60, 0
    while shown < LOOKS:
        if time.monotonic() > deadline:
            raise DistqError(f"the API server does not show {ITEM} and {SET}")
        shown = shown + 1 if _are_shown(Client(kubeconfig)) else 0
        time.sleep(0.2)


def _are_shown(client: Client) -> bool:
    try:
        return all(client.list(resource, "default") is not None for resource in (ITEM, SET))
    except DistqError:
        return False


_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)


def requests(client: Client) -> Counter[str]:
    """Return how many requests for objects of a load, and for Pods, the API server has answered, by verb."""
    counted: Counter[str] = Counter()
    for labels, number in _REQUESTS.findall(client.request("GET", "/metrics").decode()):
        about = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if about["resource"] in RESOURCES:
            counted[about["verb"]] += int(float(number))
    return counted
