"""Programs that follow Pods, each in a process of its own: distq's informer and its peers.

``python -m benchmarks.followers SUBJECT ARGUMENTS`` prints "ready" when all is imported, waits for a line,
begins, prints "synced N" when all is there, and ends with its standard input. So does client-go's
(``tests.go.clientgo``). Those that report single events print "heard NAME TIME", on the monotonic clock.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from distq.client import Client
from distq.errors import ApiError
from distq.informer import ListWatch, ResourceEventHandlerFuncs, SharedInformer, strip_managed_fields
from distq.informer.listwatch import Lines
from distq.informer.stored_object import Transform
from distq.informer.wire import Page, WatchEvent
from distq.redisio.limits import PAGE_SIZE

PODS = "v1/Pod"
Begin = Callable[[], int]
"""Follows until all is there, and returns how much that is."""


def run(begin: Begin) -> None:
    """Print when it is ready and when all is there."""
    say("ready")
    sys.stdin.readline()
    say(f"synced {begin()}")
    sys.stdin.read()


# Lists


def distq(kubeconfig: str, namespace: str, objects: str) -> Begin:
    """Follow with distq's informer, without managedFields, as distq's own controllers would."""
    return _informer(kubeconfig, namespace, int(objects), strip_managed_fields)


def distq_whole(kubeconfig: str, namespace: str, objects: str) -> Begin:
    """Follow with distq's informer, which keeps managedFields here."""
    return _informer(kubeconfig, namespace, int(objects), None)


def _informer(kubeconfig: str, namespace: str, objects: int, transform: Transform | None) -> Begin:
    informer = SharedInformer(ListWatch(new_client(kubeconfig), PODS, namespace), transform=transform)

    def begin() -> int:
        _start(informer)
        until(informer.has_synced)
        assert len(informer.indexer) == objects
        return objects

    return begin


def official(kubeconfig: str, namespace: str, objects: str) -> Begin:
    """Follow with the informer of the ``kubernetes`` package."""
    from kubernetes import client, config
    from kubernetes.informer import SharedInformer as OfficialInformer

    config.load_kube_config(kubeconfig)
    informer = OfficialInformer(client.CoreV1Api().list_namespaced_pod, namespace=namespace)

    def begin() -> int:
        informer.start()
        until(lambda: len(informer.cache.list()) == int(objects))
        return int(objects)

    return begin


def lightkube(kubeconfig: str, namespace: str, objects: str) -> Begin:
    """List with lightkube, in pages, into a dict: it has no informer."""
    peer, pod = _lightkube(kubeconfig)
    cache: dict[str, Any] = {}

    def begin() -> int:
        for obj in peer.list(pod, namespace=namespace, chunk_size=PAGE_SIZE):
            cache[obj.metadata.name] = obj
        assert len(cache) == int(objects)
        return len(cache)

    return begin


# Events of the past: a watch from an old version


class _FromVersion:
    """A ListWatch that lists nothing, as of an old version, so that an informer watches from there."""

    def __init__(self, list_watch: ListWatch, version: str) -> None:
        self._list_watch = list_watch
        self._version = version
        self.version = list_watch.version
        self.decode = list_watch.decode

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:  # noqa: ARG002 - the protocol's
        return Page(self._version, [], "")

    def watch(self, version: str, *, stream_list: bool = False, brief: bool = False) -> Lines:  # noqa: ARG002
        if stream_list:
            raise ApiError("no list is streamed here", status=400)
        return self._list_watch.watch(version)


class _Count:
    """Counts up to a number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, *_: object) -> None:
        self.left -= 1


def distq_backlog(kubeconfig: str, namespace: str, events: str, version: str) -> Begin:
    """Receive events through distq's informer: each goes into the cache, and whole to a handler."""
    list_watch = _FromVersion(ListWatch(new_client(kubeconfig), PODS, namespace), version)
    informer = SharedInformer(list_watch, transform=strip_managed_fields)
    count = _Count(int(events))
    informer.add_event_handler(ResourceEventHandlerFuncs(add=count, update=count, delete=count))

    def begin() -> int:
        _start(informer)
        until(lambda: count.left <= 0)
        return int(events)

    return begin


def distq_watch(kubeconfig: str, namespace: str, events: str, version: str) -> Begin:
    """Decode a watch as distq's streams do: keys and versions, the rest when it is read."""
    list_watch = ListWatch(new_client(kubeconfig), PODS, namespace)

    def begin() -> int:
        with list_watch.watch(version) as lines:
            return sum(1 for _ in islice(map(list_watch.decode, lines), int(events)))

    return begin


def lightkube_backlog(kubeconfig: str, namespace: str, events: str, version: str) -> Begin:
    """Receive events through lightkube's watch, whose objects decode themselves when looked at."""
    peer, pod = _lightkube(kubeconfig)

    def begin() -> int:
        watch = peer.watch(pod, namespace=namespace, resource_version=version)
        return sum(1 for _ in islice(watch, int(events)))

    return begin


# Events as they happen


def raw_watch(kubeconfig: str, namespace: str, version: str) -> Begin:
    """Print when lines of a watch came: as soon as any client can know."""
    list_watch = ListWatch(new_client(kubeconfig), PODS, namespace)

    def begin() -> int:
        threading.Thread(target=watch, daemon=True).start()
        return 0

    def watch() -> None:
        with list_watch.watch(version) as lines:
            for line in lines:
                at = time.monotonic()
                event: WatchEvent = list_watch.decode(line)
                if event.type != "BOOKMARK":
                    say(f"heard {event.object.key} {at}")

    return begin


# What they share


def new_client(kubeconfig: str) -> Client:
    """Return a Client that has read its kubeconfig and knows Pods: no part of a list."""
    client = Client(kubeconfig)
    client.resolve(PODS)
    return client


def _lightkube(kubeconfig: str) -> tuple[Any, type[Any]]:
    from lightkube import Client as LightkubeClient
    from lightkube import KubeConfig
    from lightkube.resources.core_v1 import Pod

    return LightkubeClient(config=KubeConfig.from_file(kubeconfig), trust_env=False), Pod


def _start(informer: SharedInformer) -> None:
    threading.Thread(target=informer.run, args=(threading.Event(),), daemon=True).start()


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not condition():
        time.sleep(0.005)


def say(text: str) -> None:
    """Print a line for the parent."""
    print(text, flush=True)


SUBJECTS: Mapping[str, Callable[..., Begin]] = {
    "distq": distq,
    "distq_whole": distq_whole,
    "official": official,
    "lightkube": lightkube,
    "distq_backlog": distq_backlog,
    "distq_watch": distq_watch,
    "lightkube_backlog": lightkube_backlog,
    "raw_watch": raw_watch,
}

if __name__ == "__main__":
    run(SUBJECTS[sys.argv[1]](*sys.argv[2:]))
