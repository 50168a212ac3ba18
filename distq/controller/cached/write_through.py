"""A write of this process by a Client is in the caches before the call returns.

The watch would bring it a moment later; a reconcile that reads in between would not see its own write. The
API server has the last word: a call does not fail if the caches cannot take its write.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from distq.client.client import Client
from distq.client.objects import metadata
from distq.client.writes import Write, observed
from distq.clock import SYSTEM_CLOCK
from distq.controller.cached.caches import Caches
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.watches import group_kind
from distq.forks import begin_after_fork
from distq.informer.listwatch import ListWatch
from distq.informer.selectors import label_selector
from distq.metrics import MetricsProvider
from distq.outage import Outage
from distq.redisio.keys import is_key

_logger = logging.getLogger("distq")


@contextmanager
def writing_through(
    controllers: Sequence[Caches], client: Client, metrics: MetricsProvider | None
) -> Iterator[None]:
    """Let the caches use this client, and show the writes of all Clients of this process meanwhile."""
    for caches in controllers:
        caches.bind(client, metrics)
    try:
        with observed(WriteThrough(controllers, client)):
            yield
    finally:
        for caches in controllers:
            caches.close()


class WriteThrough:
    """Observes the writes of all Clients of this process; ``client`` says which cluster the caches show."""

    def __init__(self, controllers: Sequence[Caches], client: Client) -> None:
        self._caches: dict[tuple[str, str], list[tuple[Caches, StreamCache]]] = {}
        for caches in controllers:
            for cache in caches:
                self._caches.setdefault(group_kind(cache.watch.resource), []).append((caches, cache))
        self._client = client
        self._clusters: dict[str, bool] = {}
        self.begin()
        begin_after_fork(self)

    def begin(self) -> None:
        """Forget all failures, at first and in the child of a fork: a thread may have held the lock there."""
        self._lock = Lock()
        self._outages: dict[tuple[str, bool], Outage] = {}
        """By resource, and whether the caches list after such a write: a worker may lack the right to it."""

    def __call__(self, write: Write) -> None:
        """Put a write into the caches of its resource and cluster, if its key is a key of Redis."""
        for caches, cache in self._caches.get(group_kind(str(write.resource)), ()):
            looks = write.obj is None or _must_look(cache, write)
            try:
                namespace = write.key.rpartition("/")[0]
                takes_key = is_key(write.key, len(write.key.encode(errors="replace")))
                if not (cache.covers(namespace) and takes_key and self._is_of_this_cluster(write.client)):
                    continue
                (_look if looks else _write_through)(cache, write)
            except Exception as error:  # noqa: BLE001 - the write is done, with or without a copy
                caches.unwritten(cache)
                with self._lock:
                    self._outage_of(cache, looks).failed(error)
            else:
                with self._lock:
                    self._outage_of(cache, looks).over()

    def _outage_of(self, cache: StreamCache, looks: bool) -> Outage:
        kind = cache.watch.resource, looks
        if kind not in self._outages:
            self._outages[kind] = Outage(f"cached reads of {cache.watch.resource}", _logger, SYSTEM_CLOCK)
        return self._outages[kind]

    def _is_of_this_cluster(self, client: Client) -> bool:
        """Return whether a Client reaches the cluster of the caches; asked once for each API server."""
        if client is self._client:
            return True
        server, ours = client.server, self._client
        if server not in self._clusters:
            self._clusters[server] = server == ours.server or client.cluster_id() == ours.cluster_id()
        return self._clusters[server]


def _write_through(cache: StreamCache, write: Write) -> None:
    raw = cache.caching.raw(write.answer, write.resource)
    selector = cache.watch.label_selector
    if not selector or label_selector(selector)(raw.metadata.get("labels") or {}):
        cache.wrote(cache.caching.keep(raw).object)
    else:  # its labels no longer match, which a watch reports as a deletion
        cache.wrote(dropped={raw.key: raw.version})


def _must_look(cache: StreamCache, write: Write) -> bool:
    """Return whether to list: another version, a field selector, or perhaps a deletion hides it."""
    about = metadata(write.obj or {})
    ends = bool(about.get("deletionTimestamp")) and not about.get("finalizers")
    return ends or bool(cache.watch.field_selector) or str(write.resource) != cache.watch.resource


def _look(cache: StreamCache, write: Write) -> None:
    """Keep the result of a list of this one object; if it is gone, it is so as of the list's version.

    The API server finds an object by its name alone as it does for a GET.
    """
    # a list: the answer to a deletion has no version, nor has that to a GET of an object that is gone
    namespace, _, name = write.key.rpartition("/")
    watch = cache.watch
    this = f"metadata.name={name}"
    list_watch = ListWatch(
        write.client,
        watch.resource,
        namespace or None,
        label_selector=watch.label_selector,
        field_selector=f"{watch.field_selector},{this}" if watch.field_selector else this,
        metadata_only=watch.metadata_only,
    )
    page = list_watch.page(limit=1)
    if page.objects:
        cache.wrote(cache.caching.keep(page.objects[0]).object)
    else:
        cache.wrote(dropped={write.key: page.version})
