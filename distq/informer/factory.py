"""One informer for all who want the same resource (client-go informers.SharedInformerFactory)."""

import threading
import time
from collections.abc import Callable

from distq.client.client import Client
from distq.informer.listwatch import ListWatch
from distq.informer.shared_informer import SharedInformer
from distq.informer.stored import Transform

POLL = 0.1
"""Seconds between looks of those who wait for caches (client-go syncedPollPeriod)."""


class SharedInformerFactory:
    """Make informers and run them together.

    ``namespace`` None is all of them. ``resync_period`` and ``transform`` as SharedInformer's.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None = None,
        resync_period: float = 0.0,
        transform: Transform | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._resync_period = resync_period
        self._transform = transform
        self._lock = threading.Lock()
        self._informers: dict[ListWatch, SharedInformer] = {}
        self._threads: dict[ListWatch, threading.Thread] = {}
        self._stop = threading.Event()

    def for_resource(
        self,
        resource: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> SharedInformer:
        """Return the informer of "apps/v1/Deployment", the same one each time; ``start`` runs it."""
        list_watch = ListWatch(
            self._client,
            resource,
            namespace=self._namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        )
        with self._lock:
            if list_watch not in self._informers:
                self._informers[list_watch] = SharedInformer(
                    list_watch, resync_period=self._resync_period, transform=self._transform
                )
            return self._informers[list_watch]

    def start(self) -> None:
        """Run the informers that do not run yet, each in a thread of its own, until ``shut_down``."""
        with self._lock:
            for list_watch, informer in self._informers.items():
                if list_watch not in self._threads:
                    thread = threading.Thread(
                        target=informer.run, args=(self._stop,), name=f"distq-{list_watch}", daemon=True
                    )
                    self._threads[list_watch] = thread
                    thread.start()

    def wait_for_cache_sync(self, timeout: float | None = None) -> bool:
        """Wait for the first list of each informer; return whether all came within ``timeout`` seconds."""
        with self._lock:
            informers = list(self._informers.values())
        return wait_for_cache_sync(*(informer.has_synced for informer in informers), timeout=timeout)

    def shut_down(self) -> None:
        """Stop all informers and wait until they have ended."""
        self._stop.set()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()


def wait_for_cache_sync(*has_synced: Callable[[], bool], timeout: float | None = None) -> bool:
    """Wait until all of these say so; return whether they did within ``timeout`` seconds.

    Source: client-go tools/cache WaitForCacheSync.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    while not all(synced() for synced in has_synced):
        if ends is not None and time.monotonic() >= ends:
            return False
        time.sleep(POLL)
    return True
