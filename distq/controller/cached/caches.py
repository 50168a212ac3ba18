"""All that the watches of one controller keep in Redis."""

from collections.abc import Iterator, Sequence
from functools import partial

from distq.client.client import Client
from distq.controller.cached.cache_lister import CacheLister
from distq.controller.cached.caching import Caching
from distq.controller.cached.event_context import Place
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.watches import Watch, identities, resource_watches
from distq.errors import ConfigError
from distq.informer.lister import Lister
from distq.metrics import CACHE_OVERSIZED, CACHE_UNWRITTEN, Metric, MetricsProvider
from distq.redisio.connection import Connection
from distq.workqueue.handle import QueueHandle
from distq.workqueue.queue import Queue

WRITE_WITHIN = 2.0
"""Seconds that Redis gets to keep what was written: the writer waits, and the event brings it anyhow."""


class Caches:
    """The caches of a controller's watches.

    Raises ConfigError where the queue is not in Redis, or two watches would cache one resource.
    """

    def __init__(self, watches: Sequence[Watch], queue: QueueHandle, *, timeout: float) -> None:
        self._client: Client | None = None
        self._metrics: MetricsProvider | None = None
        self._name = queue.name
        self._connections: tuple[Connection, Connection] | None = None
        resources = resource_watches(watches)
        cached = [watch.resource for watch in resources if watch.cached]
        if cached and not isinstance(queue, Queue):
            raise ConfigError(f"cannot cache {cached[0]}: {queue.name} is not in Redis. Use a Queue.")
        for resource in cached:
            if cached.count(resource) > 1:
                raise ConfigError(f"{resource} is cached by two watches of {queue.name}. Cache it in one.")
        self._caches = [
            StreamCache(
                watch,
                caching,
                Place(queue.name, identity, namespace),
                queue=queue,  # type: ignore[arg-type]  # a Queue, as was just seen
                client=self.client,
                with_short_timeouts=partial(self._with_short_timeouts, queue),  # type: ignore[arg-type]
                timeout=timeout,
            )
            for watch, identity in zip(resources, identities(resources), strict=True)
            if (caching := Caching.of(watch)) is not None
            for namespace in watch.namespaces or (None,)
        ]

    def __iter__(self) -> Iterator[StreamCache]:
        return iter(self._caches)

    def bind(self, client: Client, metrics: MetricsProvider | None) -> None:
        """Reach the cluster by this client, instead of the kubeconfig or service account, and count."""
        self._client, self._metrics = client, metrics

    def client(self) -> Client:
        """Return what reaches the cluster."""
        if self._client is None:
            self._client = Client()
        return self._client

    def lister(self, resource: str) -> Lister:
        """Return a lister; raise ConfigError where no watch keeps the resource."""
        caches = [cache for cache in self._caches if cache.watch.resource == resource]
        if not caches:
            cached = ", ".join(dict.fromkeys(cache.watch.resource for cache in self._caches)) or "nothing"
            raise ConfigError(
                f"no lister of {resource}: {self._name} caches {cached}. Add cached=True to a watch of it."
            )
        return CacheLister(caches, self.client, partial(self._count, CACHE_OVERSIZED, caches[0]))

    def _with_short_timeouts(self, queue: Queue) -> Connection:
        present, connections = queue.connection, self._connections
        if connections is None or connections[0] is not present:
            self._connections = connections = present, present.with_timeout(WRITE_WITHIN, repeats=True)
        return connections[1]

    def close(self) -> None:
        """Close the connection by which writes were kept; the next one opens another."""
        connections, self._connections = self._connections, None
        if connections is not None:
            connections[1].close()

    def unwritten(self, cache: StreamCache) -> None:
        """Count a write that the cache does not show until the watch brings it."""
        self._count(CACHE_UNWRITTEN, cache)

    def _count(self, metric: Metric, cache: StreamCache) -> None:
        if self._metrics is not None:
            self._metrics.count(metric, (self._name, cache.watch.resource), 1)
