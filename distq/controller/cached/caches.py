"""The caches in Redis of one controller's watches, and how they are read (controller-runtime's cache)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from distq.client.client import Client
from distq.client.objects import Object, encode
from distq.controller.cached import event_context
from distq.controller.cached.caching import UNLABELLED, Caching
from distq.controller.cached.event_context import Place
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.watches import Watch, identities, resource_watches
from distq.errors import ConfigError
from distq.informer.indexer import NAMESPACE_INDEX, Objects
from distq.informer.lister import Lister, selection
from distq.informer.objects import is_older
from distq.informer.selectors import Labels, label_pairs
from distq.informer.stored_object import StoredObject
from distq.metrics import CACHE_OVERSIZED, CACHE_UNWRITTEN, Metric, MetricsProvider
from distq.redisio.connection import Connection
from distq.redisio.object_cache import CachedObject, CacheIncomplete, ObjectCache
from distq.workqueue.handle import QueueHandle
from distq.workqueue.queue import Queue

WRITE_WITHIN = 2.0
"""Seconds that Redis gets to keep a written object: the writer waits, and the event brings it anyway."""


class Caches:
    """The caches of a controller's watches; ``shared`` is whether programs of other clusters use its queue.

    Raises ConfigError if the queue is not in Redis, or two watches would cache one resource.
    """

    def __init__(
        self, watches: Sequence[Watch], queue: QueueHandle, *, timeout: float, shared: bool = False
    ) -> None:
        self._client: Client | None = None
        self._metrics: MetricsProvider | None = None
        self._name = queue.name
        self._connections: dict[Connection, Connection] = {}
        """Those with short timeouts, by the queue's; a dict, since two threads may make one at once."""
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
                shared=shared,
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
        """Return the client that reaches the cluster."""
        if self._client is None:
            self._client = Client()
        return self._client

    def lister(self, resource: str) -> Lister:
        """Return a lister; raise ConfigError if no watch keeps the resource."""
        caches = [cache for cache in self._caches if cache.watch.resource == resource]
        if not caches:
            cached = ", ".join(dict.fromkeys(cache.watch.resource for cache in self._caches)) or "nothing"
            raise ConfigError(
                f"no lister of {resource}: {self._name} caches {cached}. Add cached=True to a watch of it."
            )
        return CacheLister(caches, self.client, partial(self._count, CACHE_OVERSIZED, caches[0]))

    def _with_short_timeouts(self, queue: Queue) -> Connection:
        present = queue.connection
        if (found := self._connections.get(present)) is not None:
            return found
        return self._connections.setdefault(present, present.with_timeout(WRITE_WITHIN, repeats=True))

    def close(self) -> None:
        """Close the connections by which writes were kept; the next one opens another."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    def unwritten(self, cache: StreamCache) -> None:
        """Count a write that the cache does not show until the watch brings it."""
        self._count(CACHE_UNWRITTEN, cache)

    def _count(self, metric: Metric, cache: StreamCache) -> None:
        if self._metrics is not None:
            self._metrics.count(metric, (self._name, cache.watch.resource), 1)


class CacheLister(Lister):
    """A lister, in any process of a fleet, of the objects that the leading informer keeps in Redis.

    ``oversized`` is called for each object that the lister reads from the API server: it is too large for
    Redis, or the transform fails on it.
    """

    def __init__(
        self, caches: Sequence[StreamCache], client: Callable[[], Client], oversized: Callable[[], None]
    ) -> None:
        self._caches = caches
        self._watch = caches[0].watch
        self._client = client
        self._oversized = oversized
        self.is_whole = caches[0].caching.is_whole and not self._watch.metadata_only

    def get(self, key: str) -> Object | None:
        """Return the object of a key."""

        def read(objects: ObjectCache) -> Sequence[CachedObject]:
            found = objects.get(key)
            return [found] if found else []

        caches = self._covering(key.rpartition("/")[0])
        return next(self._read(caches, read, lambda ahead: ahead.name == key), None)

    def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> Objects:
        """Return all objects, or those of a namespace, whose labels match."""
        selected = selection(label_selector)
        caches = self._caches if namespace is None else self._covering(namespace)
        index, pairs = self._caches[0].caching.labels_index, label_pairs(label_selector)

        def read(objects: ObjectCache) -> Sequence[CachedObject]:
            if index and pairs:
                with suppress(CacheIncomplete):  # a leader of another release may not have the index
                    return objects.by_index(index, *pairs, UNLABELLED, namespace=namespace)
            return [found for page in objects.pages(namespace) for found in page]

        def is_meant(ahead: CachedObject) -> bool:
            return namespace is None or ahead.name.startswith(f"{namespace}/")

        return list(self._read(caches, read, is_meant, selected))

    def by_index(self, name: str, value: str) -> Objects:
        """Return the objects that an index has under a value."""
        if name == NAMESPACE_INDEX:
            return self.list(value)
        if name not in self._watch.indexers:
            there = ", ".join(sorted([NAMESPACE_INDEX, *self._watch.indexers]))
            raise ConfigError(
                f'no index "{name}" of {self._watch.resource} (has: {there}). Add it to the indexers.'
            )
        index = self._caches[0].caching.indices[name]
        found = self._read(
            self._caches,
            lambda objects: objects.by_index(index, value),
            lambda ahead: value in ahead.indices.get(index, ()),
        )
        return list(found)

    def _covering(self, namespace: str) -> Sequence[StreamCache]:
        caches = [cache for cache in self._caches if cache.covers(namespace)]
        if not caches:
            watched = ", ".join(str(cache.place.namespace) for cache in self._caches)
            raise ConfigError(
                f'no {self._watch.resource} of namespace "{namespace}" is cached: the watch looks at '
                f"{watched}. Add it to its namespaces."
            )
        return caches

    def _read(
        self,
        caches: Sequence[StreamCache],
        read: Callable[[ObjectCache], Sequence[CachedObject]],
        is_meant: Callable[[CachedObject], bool],
        selected: Callable[[StoredObject], bool] = lambda _: True,
    ) -> Iterator[Object]:
        for found in [each for cache in caches for each in _laid_over(cache, cache.read(read), is_meant)]:
            stored = self._stored(found)
            if stored is not None and selected(stored):
                yield stored.decode()

    def _stored(self, found: CachedObject) -> StoredObject | None:
        """Return an object from the cache, or from the API server if the cache does not keep it."""
        if found.data:
            return StoredObject(found.name, found.version, found.data)
        self._oversized()
        client, caching = self._client(), self._caches[0].caching
        obj = client.get(self._watch.resource, found.name)
        if obj is None:
            return None
        return caching.shown(caching.raw(encode(obj), client.resolve(self._watch.resource)))


def _laid_over(
    cache: StreamCache, found: Sequence[CachedObject], is_meant: Callable[[CachedObject], bool]
) -> Sequence[CachedObject]:
    """Return the objects found, replaced by those that this thread is handing over, if these are newer."""
    stream = event_context.current()
    if stream is None or stream.place != cache.place:
        return found
    merged = {each.name: each for each in found}
    for name, ahead in stream.objects.items():
        there = merged.pop(name, None)
        # the fleet's own writes are in the cache before their events
        if ahead is not None and there is not None and is_older(ahead.version, there.version):
            merged[name] = there
        elif ahead is not None and is_meant(ahead):
            merged[name] = ahead
    return list(merged.values())
