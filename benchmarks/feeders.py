"""What feeds a queue from Pods, and what takes from it, each in a process of its own.

``python -m benchmarks.feeders SUBJECT ARGUMENTS`` does as ``benchmarks.followers``.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.followers import PODS, Begin, new_client, run, say, until
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.sources import share_list_watches
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, identities
from distq.informer.objects import is_older
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request

QUEUE = "benchmark"


class _Term:
    """A term of leadership without an end."""

    identity = "benchmark"
    epoch = "1"
    began = 0.0

    def may_act(self) -> bool:
        return True


def stream(kubeconfig: str, namespace: str, versions: str, redis: str) -> Begin:
    """Hand events over to a queue, from a checkpoint in Redis on: ``first-last`` version."""
    return _feed([QUEUE], kubeconfig, namespace, versions, redis)


def two_watches(kubeconfig: str, namespace: str, versions: str, redis: str) -> Begin:
    """Hand the same events over to two queues, each by a watch of its own."""
    return _feed([QUEUE, "other"], kubeconfig, namespace, versions, redis)


def one_watch(kubeconfig: str, namespace: str, versions: str, redis: str) -> Begin:
    """Hand the same events over to two queues by one watch, as controllers of one process do."""
    return _feed([QUEUE, "other"], kubeconfig, namespace, versions, redis, shared=True)


def _feed(
    queues: Sequence[str], kubeconfig: str, namespace: str, versions: str, redis: str, *, shared: bool = False
) -> Begin:
    version, last = versions.split("-")
    connection, client = Connection(redis), new_client(kubeconfig)
    watch = For(PODS, namespaces=[namespace])
    streams, stores = [], []
    for queue in queues:
        config = SourceConfig(
            queue=queue, connection=connection, client=client, leadership=_Term(), resync_period=0
        )
        stream = StreamSource(watch, config, identity=identities([watch])[0], namespace=namespace)
        store = StreamStore(connection, queue, stream.name())
        store.commit(Commit(epoch="1", after="", new=version, batch="benchmark"))
        streams.append(stream)
        stores.append(store)
    if shared:
        share_list_watches(streams)

    def at_last() -> bool:
        records = [store.load() for store in stores]
        return all(record is not None and not is_older(record.position, last) for record in records)

    def begin() -> int:
        for stream in streams:
            threading.Thread(target=stream.run, args=(threading.Event(),), daemon=True).start()
        until(at_last)
        return stores[0].known_count()

    return begin


def manager(kubeconfig: str, namespace: str, objects: str, redis: str) -> Begin:
    """Lead and feed a queue, as ``distq informer`` does."""
    return _lead(kubeconfig, For(PODS, namespaces=[namespace]), namespace, objects, redis)


def many_watches(kubeconfig: str, watches: str, objects: str, redis: str) -> Begin:
    """Do the same with a watch for each of some namespaces, which are named by numbers."""
    namespaces = [f"team-{number}" for number in range(int(watches))]
    return _lead(kubeconfig, For("v1/ConfigMap", namespaces=namespaces), namespaces[0], objects, redis)


def _lead(kubeconfig: str, watch: For, namespace: str, objects: str, redis: str) -> Begin:
    settings = Settings(lease_namespace=namespace, lease_name="benchmark")
    running = Manager(
        [Controller(QUEUE, _reconcile, watches=[watch])],
        redis=redis,
        client=new_client(kubeconfig),
        settings=settings,
    )
    store = Connection(redis)

    def begin() -> int:
        threading.Thread(target=running.run, kwargs={"workers": False}, daemon=True).start()
        queue = Queue(QUEUE, store)
        until(lambda: running.is_leader() and queue.depth() == int(objects))
        return int(objects)

    return begin


def consumer(redis: str) -> Begin:
    """Claim keys and print when."""

    def begin() -> int:
        threading.Thread(target=consume, daemon=True).start()
        return 0

    def consume() -> None:
        queue = Queue(QUEUE, redis)
        while True:
            request = queue.get()
            say(f"heard {request.key} {time.monotonic()}")
            queue.settle(request)

    return begin


def _reconcile(request: Request) -> None:
    """Do nothing; it is not called."""


SUBJECTS: Mapping[str, Callable[..., Begin]] = {
    "stream": stream,
    "two_watches": two_watches,
    "one_watch": one_watch,
    "manager": manager,
    "many_watches": many_watches,
    "consumer": consumer,
}

if __name__ == "__main__":
    run(SUBJECTS[sys.argv[1]](*sys.argv[2:]))
