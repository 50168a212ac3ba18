"""A cache of one resource, kept up to date, and handlers that are called with every change.

Source: client-go tools/cache SharedIndexInformer. The Reflector's events go through a RealFIFO
into an Indexer; each handler is called with the resulting changes, by a thread of its own.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import NotFound, ShutDown
from distq.informer.backoff import Backoff
from distq.informer.cache_sink import CacheSink
from distq.informer.delta_fifo import Delta, DeltaType, RealFIFO
from distq.informer.indexer import NAMESPACE_INDEX, Indexer, IndexFunc, meta_namespace_index_func
from distq.informer.lister import IndexerLister, Lister
from distq.informer.listwatch import ListerWatcher
from distq.informer.reflector import Reflector
from distq.informer.registration import (
    Filter,
    Notification,
    Registration,
    ResourceEventHandler,
    validate_handler,
    validate_resync_period,
)
from distq.informer.stored_object import Transform, keeps_all
from distq.seconds import Duration

logger = logging.getLogger(__name__)


class SharedInformer:
    """Keep a cache of a ListWatch's objects, and call handlers (client-go SharedIndexInformer).

    ``indexers`` by name, beside the one by namespace. ``resync_period`` is that of handlers without one of
    their own: each such seconds they receive every object again, 0 for never. ``transform`` is applied once
    to each object that comes in. ``on_watch_error`` receives the error of each failed connection, which is
    logged without it; the informer goes on in any case.

    Where ``transform`` or an index function fails, the error is logged, and the object stays as it was, or
    out of the cache: also in the first list, so an informer that has synced may lack objects. Raises
    ConfigError for a bad ``resync_period``.
    """

    def __init__(
        self,
        list_watch: ListerWatcher,
        *,
        indexers: Mapping[str, IndexFunc] | None = None,
        resync_period: Duration = 0.0,
        transform: Transform | None = None,
        on_watch_error: Callable[[Exception], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.indexer = Indexer({NAMESPACE_INDEX: meta_namespace_index_func, **(indexers or {})})
        # of another ListerWatcher that does not say so, nothing is known
        is_partial = getattr(list_watch, "metadata_only", True)
        is_whole = keeps_all(transform) and not is_partial
        self.lister: Lister = IndexerLister(self.indexer, is_whole=is_whole)
        self._list_watch = list_watch
        self._resync_period = validate_resync_period(resync_period)
        self._on_watch_error = on_watch_error
        self._clock = clock
        self._fifo = RealFIFO(self.indexer)
        self._sink = CacheSink(self._fifo, transform, self._resync)
        self._lock = threading.Lock()  # the cache, and the handlers called with its changes, go together
        self._registrations: list[Registration] = []
        self._leaving: list[Registration] = []  # removed, with a call under way
        self._syncing: list[Registration] = []  # the objects of the last resync are for these
        self._started = self._stopped = False
        self._stop = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Follow the resource until ``stop`` is set; a second call returns at once.

        It returns when no call of a handler is under way. Raises ConfigError. A resource that the API server
        does not know is waited for.
        """
        with self._lock:
            if self._started:
                why = "has ended, and cannot run again" if self._stopped else "runs already"
                logger.warning("%s: its informer %s", self._list_watch, why)
                return
            self._started, self._stop = True, stop
            for registration in self._registrations:
                registration.start()
        name = f"distq-informer-{self._list_watch}"
        processor = threading.Thread(target=self._process_all, name=name, daemon=True)
        processor.start()
        try:
            self._follow(stop)
        finally:
            with self._lock:
                self._stopped = True
                registrations = [*self._registrations, *self._leaving]
            for registration in registrations:
                registration.stop()  # first, since the processor may wait for one
            self._fifo.close()
            processor.join()
            for registration in registrations:
                registration.join()

    def has_synced(self) -> bool:
        """Return whether the first list is in the cache (client-go HasSynced)."""
        return self._fifo.has_synced()

    @property
    def stopped(self) -> bool:
        """Return whether ``run`` has ended; then it cannot run again."""
        return self._stopped

    @property
    def last_sync_resource_version(self) -> str:
        """Return the version up to which the API server was followed, "" before the first list."""
        return self._sink.position()

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        """Add indices by name, also over cached objects (client-go AddIndexers).

        Raises ConfigError for a name that is taken, ValueError where a function fails on a cached object,
        ShutDown after the informer's end; then none is added.
        """
        with self._lock:
            if self._stopped:
                raise ShutDown(f"indices not added: the informer of {self._list_watch} has ended")
            self.indexer.add_indexers(indexers)

    def add_event_handler(
        self,
        handler: ResourceEventHandler,
        *,
        resync_period: Duration | None = None,
        filter: Filter | None = None,  # noqa: A002 - the field's word
    ) -> Registration:
        """Call a handler from now on, first with everything that is in the cache as an add.

        ``resync_period`` in seconds, at least one, 0 for never, None for the informer's. With ``filter`` it
        receives objects that pass; one that begins or ceases to pass is added or deleted for it. Raises
        ConfigError for a bad handler or period, ShutDown after the informer's end.
        Source: client-go AddEventHandler, FilteringResourceEventHandler.
        """
        validate_handler(handler)
        period = self._resync_period if resync_period is None else validate_resync_period(resync_period)
        with self._lock:
            if self._stopped:
                raise ShutDown(f"handler not added: the informer of {self._list_watch} has ended")
            initial = [
                Notification("add", stored, in_initial_list=True) for stored in self.indexer.all_stored()
            ]
            registration = Registration(
                handler,
                name=str(self._list_watch),
                upstream_synced=self.has_synced,
                initial=initial,
                resync_period=period,
                only=filter,
                clock=self._clock,
            )
            self._registrations = [*self._registrations, registration]  # others go through the old list
            if self._started:
                registration.start()
        return registration

    def remove_event_handler(self, registration: Registration, *, wait: bool = False) -> None:
        """Stop calling a handler; with ``wait``, return when a call under way has ended.

        A handler that was removed before, or is another informer's, changes nothing. Source: client-go
        RemoveEventHandler, ShutDownEventHandler.
        """
        with self._lock:
            if registration not in self._registrations:
                return
            self._registrations = [one for one in self._registrations if one is not registration]
            self._leaving = [one for one in [*self._leaving, registration] if one.running]
        registration.stop()
        if wait:
            registration.join()

    # How it follows

    def _follow(self, stop: threading.Event) -> None:
        backoff = Backoff(self._clock)
        reflector = Reflector(
            self._list_watch,
            self._sink,
            stream_lists=True,
            clock=self._clock,
            on_error=self._on_watch_error,
        )
        while not stop.is_set():
            try:
                reflector.run(stop)
            except NotFound as error:
                reflector.failed(error)
                self._clock.wait(stop, backoff.delay())

    def _resync(self) -> None:
        """Hand everything over again to those handlers whose time has come."""
        with self._lock:
            due = [registration for registration in self._registrations if registration.resync_due()]
            if not due:
                return
            self._syncing = due
        self._fifo.resync()

    # How it calls handlers

    def _process_all(self) -> None:
        running = True
        while running:
            try:
                running = self._fifo.pop(self._process)
            except BaseException:  # never dead: an index function of the user's failed, or called sys.exit
                logger.exception("%s: an object was left as it was", self._list_watch)

    def _process(self, deltas: Sequence[Delta], in_initial_list: bool) -> None:
        for delta in deltas:
            if self._stopped or self._stop.is_set():
                return
            with self._lock:
                notification = self._apply(delta, in_initial_list)
                receivers = self._receivers(notification, delta.type)
            for registration in receivers:  # outside of the lock: it waits for a slow handler
                registration.put(notification, self._stop)

    def _apply(self, delta: Delta, in_initial_list: bool) -> Notification:
        new, old = delta.object, self.indexer.stored(delta.object.key)
        if delta.type == DeltaType.DELETED:
            self.indexer.drop(new.key, new.version)
            return Notification("delete", new, final_state_unknown=delta.final_state_unknown)
        self.indexer.put(new)
        if old is None:
            return Notification("add", new, in_initial_list=in_initial_list)
        return Notification("update", new, old)

    def _receivers(self, notification: Notification, why: DeltaType) -> list[Registration]:
        """Return the handlers that receive it: of an unchanged object, only those that are due a resync."""
        old = notification.old
        same_version = old is not None and old.version == notification.object.version
        # an update of the same version may be of another state: the cluster was restored
        if not same_version or why == DeltaType.UPDATED:
            return self._registrations
        return [one for one in self._syncing if one in self._registrations]
