"""One informer for all users of a resource (client-go informers.SharedInformerFactory)."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from distq.client.client import Client
from distq.errors import ConfigError
from distq.informer.indexer import IndexFunc
from distq.informer.listwatch import ListerWatcher, ListWatch
from distq.informer.shared_informer import SharedInformer
from distq.informer.stored_object import Transform
from distq.seconds import Duration, in_seconds

logger = logging.getLogger(__name__)

POLL = 0.1
"""Seconds between looks of a wait for caches (client-go syncedPollPeriod)."""


@dataclass
class _Made:
    """An informer, its options, and the thread that runs it once there is one."""

    informer: SharedInformer
    options: Mapping[str, Any]
    thread: threading.Thread | None = None

    def run(self, resource: str, stop: threading.Event) -> None:
        """Run the informer, and log the error that ends it: no caller could catch it in this thread."""
        try:
            self.informer.run(stop)
        except ConfigError as error:
            logger.error("%s: its informer has ended: %s", resource, error)

    def serve(self, resource: str, indexers: Mapping[str, IndexFunc], options: Mapping[str, Any]) -> None:
        """Add indices that are new; raise ConfigError for options that this informer does not have."""
        for name, wanted in options.items():
            if wanted is not None and wanted != self.options[name]:
                raise ConfigError(
                    f"bad {name} of {resource}: its informer was made with another. Give that, or None."
                )
        has = self.informer.indexer.get_indexers()
        if new := {name: function for name, function in indexers.items() if has.get(name) != function}:
            self.informer.add_indexers(new)


class SharedInformerFactory:
    """Make informers and run them together.

    ``namespace`` None is all of them. ``resync_period`` and ``transform`` as SharedInformer's.
    ``new_list_watch`` is called as ListWatch is, and may return another ListerWatcher: a FakeListWatch in
    tests, where the Client connects to nothing.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None = None,
        resync_period: Duration = 0.0,
        transform: Transform | None = None,
        new_list_watch: Callable[..., ListerWatcher] = ListWatch,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._resync_period = resync_period
        self._transform = transform
        self._new_list_watch = new_list_watch
        self._lock = threading.Lock()
        self._made: dict[tuple[object, ...], _Made] = {}
        self._stop = threading.Event()

    def for_resource(
        self,
        resource: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        indexers: Mapping[str, IndexFunc] | None = None,
        transform: Transform | None = None,
        on_watch_error: Callable[[Exception], None] | None = None,
    ) -> SharedInformer:
        """Return the informer of "apps/v1/Deployment", the same one each time; ``start`` runs it.

        Later calls may bring further ``indexers``. The informer is made with ``transform``, None for the
        factory's, and ``on_watch_error``; later calls give the same, or None. Raises ConfigError for text
        that is no resource, and where the informer was made with others.
        """
        narrowing = {
            "label_selector": label_selector,
            "field_selector": field_selector,
            "metadata_only": metadata_only,
        }
        options = {"transform": transform, "on_watch_error": on_watch_error}
        key = (resource, *narrowing.values())
        with self._lock:
            made = self._made.get(key) or self._make(resource, narrowing, options)
            made.serve(resource, indexers or {}, options)
            self._made[key] = made  # not before: one that is refused must not run
            return made.informer

    def start(self) -> None:
        """Run the informers that do not run yet, each in a thread of its own, until ``shut_down``.

        An error that ends one of them before, such as a missing kubeconfig, is logged.
        """
        with self._lock:
            for (resource, *_), made in self._made.items():
                if made.thread is None:
                    made.thread = threading.Thread(
                        target=made.run, args=(resource, self._stop), name=f"distq-{resource}", daemon=True
                    )
                    made.thread.start()

    def wait_for_cache_sync(
        self, stop: threading.Event | None = None, *, timeout: float | None = None
    ) -> bool:
        """Wait for the first list of each informer that was started; return whether all came.

        False after ``timeout`` seconds, when ``stop`` is set, and when one has ended.
        """
        with self._lock:
            started = [made.informer for made in self._made.values() if made.thread]
        return wait_for_cache_sync(*started, timeout=timeout, stop=stop)

    def shut_down(self) -> None:
        """Stop all informers and wait until they have ended."""
        self._stop.set()
        with self._lock:
            threads = [made.thread for made in self._made.values() if made.thread]
        for thread in threads:
            thread.join()

    def _make(self, resource: str, narrowing: Mapping[str, Any], options: Mapping[str, Any]) -> _Made:
        options = {**options, "transform": options["transform"] or self._transform}
        list_watch = self._new_list_watch(self._client, resource, namespace=self._namespace, **narrowing)
        return _Made(SharedInformer(list_watch, resync_period=self._resync_period, **options), options)


class Syncing(Protocol):
    """Syncs with a first list: an informer, or a handler by its Registration."""

    def has_synced(self) -> bool:
        """Return whether all that was there at the beginning has been received."""

    @property
    def stopped(self) -> bool:
        """Return whether it has ended; then it never syncs unless it has synced."""


def wait_for_cache_sync(
    *caches: Syncing | Callable[[], bool],
    timeout: Duration | None = None,
    stop: threading.Event | None = None,
) -> bool:
    """Wait until informers, and Registrations of handlers, have synced; return whether they have.

    False after ``timeout`` seconds, when ``stop`` is set, and when one has ended before it synced. Functions
    such as ``informer.has_synced`` will do, too. Raises ConfigError for anything else.
    Source: client-go tools/cache WaitForCacheSync.
    """
    has_synced = [_has_synced(cache) for cache in caches]
    # the owner of a bound has_synced knows whether it has ended
    syncing = [getattr(synced, "__self__", None) for synced in has_synced]
    ends = None if timeout is None else time.monotonic() + in_seconds(timeout)
    stop = stop or threading.Event()
    while not all(synced() for synced in has_synced):
        over = stop.is_set() or any(getattr(one, "stopped", False) for one in syncing)
        if over or (ends is not None and time.monotonic() >= ends):
            return False
        stop.wait(POLL)
    return True


def _has_synced(cache: Syncing | Callable[[], bool]) -> Callable[[], bool]:
    has_synced = getattr(cache, "has_synced", cache)
    if not callable(has_synced):
        raise ConfigError(f"cannot wait for {cache!r:.80}: it has no has_synced. Give an informer.")
    return has_synced
