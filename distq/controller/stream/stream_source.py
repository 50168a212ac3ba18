"""One watched resource feeding one queue: the leader's path from the API server to Redis.

Keys, the position up to which the resource was followed, and the known set move in one commit. So the next
leader resumes the watch where the last commit ended, and finds changes that no process could watch by
comparing a list with the known set.
"""

import hashlib
import logging
import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from distq.client.resources import UnknownResource
from distq.controller.cached.caching import Caching
from distq.controller.cached.event_context import EventContext, Place, is_waiting
from distq.controller.stream.batch import hand_over
from distq.controller.stream.catching_up import CaughtUp
from distq.controller.stream.committer import Committer
from distq.controller.stream.failures import LastError
from distq.controller.stream.mapping import mapped_keys
from distq.controller.stream.relist import Replacement, Resync, ResyncSchedule
from distq.controller.stream.routing import Router, parked_as_of
from distq.controller.stream.source_config import SourceConfig
from distq.controller.watches import ResourceWatch, title
from distq.errors import DistqError
from distq.informer.listwatch import ListerWatcher, ListWatch
from distq.informer.reflector import Reflector
from distq.informer.sink import PositionMoved
from distq.informer.wire import RawObject, WatchEvent
from distq.redisio.checkpoints import MARK, checkpoint_of, is_readable
from distq.redisio.commit import Commit
from distq.redisio.object_cache import CachedObject
from distq.redisio.records import StreamRecord
from distq.redisio.stream_store import StreamStore
from distq.seconds import in_seconds
from distq.workqueue.rate_limiters import microseconds

logger = logging.getLogger(__name__)

PROBE_INTERVAL = 1.0  # seconds


def stream_name(cluster: str, place: Place, resource: str) -> str:
    """Return the name in Redis of the stream of a watch of this cluster."""
    whole = "\n".join((cluster, place.identity, place.namespace or "", place.queue))
    kind = resource.rpartition("/")[2].lower()
    return f"{kind}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


class StreamSource:
    """A checkpointed stream, in the process that leads: the sink of one Reflector.

    ``identity`` is a text that no other watch of the queue has, see ``watches.identities``.
    """

    def __init__(
        self, watch: ResourceWatch, config: SourceConfig, *, identity: str, namespace: str | None = None
    ) -> None:
        self.resource = watch.resource
        self.namespace = namespace
        self.synced = False
        """It resumed, or its first list was committed."""
        self.resumed_at = ""
        """The version at which it resumed, "" if a list was needed; set before ``synced``."""
        self.lists = 0
        """Whole ones."""
        self.objects = 0
        self.enqueued = 0
        """Keys that were not pending before."""
        self.is_cached = watch.cached
        """Its objects are read from Redis."""
        self.last_error = LastError(config.clock)
        self.caught_up = CaughtUp(watch.resource, config.clock)
        self._watch = watch
        self._config = config
        self._clock = config.clock
        self._place = Place(config.queue, identity, namespace)
        self._parked_as = parked_as_of(watch, identity)
        self._caching = Caching.of(watch)
        self._cache_is_whole = False
        """The cache holds all objects, with the indexes of this watch; its record says so to readers."""
        self.list_watch: ListerWatcher = ListWatch(
            config.client,
            watch.resource,
            namespace=namespace,
            label_selector=watch.label_selector,
            field_selector=watch.field_selector,
            metadata_only=watch.metadata_only,
        )
        """The ListWatch of its Reflector; before it runs, a member of a shared one may replace it."""
        self._stop = threading.Event()
        self._opened = False
        """The position is known, and ``_router`` and ``_committer`` are there."""
        self._open_since: float | None = None
        """When the present watch was opened, None once it failed."""
        self._fed: float | None = None
        """When keys were enqueued last, by the server's clock."""
        self._must_list = False
        """The position is no use: the API server does not know it any more."""
        self._connected_at = ""
        """The version from which the present watch began, "" without one."""
        self._bookmark = ""
        """A version to commit with the next probe; no older than the position, which it would move back."""
        self._oldest: float | None = None
        """When the oldest event came that is not committed yet."""
        self._revision = ""
        self._resyncs = ResyncSchedule(
            config.resync_period,
            lambda: Resync(self.list_watch, self._committer, self._router),
            self._clock,
        )
        self._went_on_at = math.inf
        """When its thread last made progress; infinite without a thread, which is no stall."""

    def run(self, stop: threading.Event) -> None:
        """Feed the queue until ``stop`` is set.

        Raises LeaseLost if another process leads, NotFound if the API server does not know the resource and
        nothing was ever handed over, ConfigError, LayoutTooNew.
        """
        self._stop = stop
        self._opened = False
        self._went_on_at = self._clock.monotonic()
        self._reflector = Reflector(self.list_watch, self, clock=self._clock, on_error=self._on_error)
        try:
            self._reflector.run(stop)
        finally:
            if self._opened and not self._committer.moved:
                with suppress(DistqError, PositionMoved):  # then its silence shows later that it left
                    self._committer.confirm(left=True)
            self._went_on_at = math.inf

    def __str__(self) -> str:
        return title(replace(self._watch, namespaces=[self.namespace] if self.namespace else None))

    def name(self) -> str:
        """Return the stream's name in Redis: one of all that watch the same for the same queue."""
        return stream_name(self._config.client.cluster_id(), self._place, self.resource)

    @property
    def lag(self) -> float:
        """Return the age of the oldest event that is not yet committed, seconds."""
        oldest = self._oldest
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    @property
    def stands_still_for(self) -> float:
        """Return for how many seconds its thread has made no progress, in any function or sink.

        A try to reach Redis or the API server counts as progress, and so does a wait for another cache: both
        end.
        """
        if is_waiting(self._place):
            return 0.0
        moments = [self._went_on_at]
        if self._opened:
            moments += [self._router.routed_at, self._committer.tried_at]
        return self._clock.monotonic() - max(moments)

    # The sink: called by the Reflector, in one thread.

    def position(self) -> str:
        """Return the version to resume from; "" asks for a list."""
        self._went_on_at = self._clock.monotonic()
        if not self._opened:
            self._open()
        if self._committer.moved:
            self._load()
        checkpoint = checkpoint_of(self._committer.position)
        return "" if self._must_list or checkpoint == MARK else checkpoint

    def wants_bookmarks(self) -> bool:
        """Return whether something waits until it has caught up."""
        return self.caught_up.is_awaited

    def connected(self, present: str) -> None:
        """Commit the leader's name, which shows whether Redis is still at our position."""
        self._open_since = self._clock.monotonic()
        self.caught_up.connected(present)
        self._connected_at, self._bookmark = checkpoint_of(self._committer.position), ""
        self._committer.confirm()
        self.caught_up.check(self._connected_at)

    def events(self, events: Sequence[WatchEvent], since: float) -> None:
        """Hand over events in their order, in as few commits as possible."""
        self._went_on_at = self._clock.monotonic()
        self._oldest = since if self._oldest is None else min(self._oldest, since)
        if named := [event for event in events if event.object.key]:
            self._bookmark = ""  # it is older than these
            try:
                with EventContext(self._place, self._stop, self._publish):
                    hand_over(named, self._router, self._committer)
            except BaseException:  # these events come again, and would be compared with themselves
                self._router.last_seen.forget_all()
                raise
        if len(named) < len(events):
            self._pass_nameless(events)
        self._oldest = None
        self.last_error.over()

    def begin_list(self) -> None:
        """Begin a chain of commits that leaves the checkpoint where it is."""
        self._lose_touch()
        self._list = Replacement(self._committer, self._router)
        # entries of another history, or from before a leader that kept no cache, would seem newer for ever
        self._committer.begin_list(clear_cache=self._caching is not None and not self._cache_is_whole)

    def page(self, objects: Sequence[RawObject]) -> None:
        """Hand over objects that changed since they were last handed over, or all."""
        self._went_on_at = self._clock.monotonic()
        with EventContext(self._place, self._stop, self._publish):
            self._list.page(objects)
        self.last_error.went_on()
        self._probe()

    def unlist(self, obj: RawObject) -> None:
        """Do nothing: lists come in pages here, since commits may be slower than the network."""

    def end_list(self, version: str) -> None:
        """Enqueue the keys of vanished objects, then move the checkpoint to the list's version."""
        with EventContext(self._place, self._stop, self._publish):
            self.objects = self._list.end(version)
        # all before the commit, whose record has it
        self.lists += 1
        self._must_list = False
        self._cache_is_whole = self._caching is not None
        if self._list.everything:
            self._resyncs.plan(self._clock.now())
        self._oldest = None
        self.last_error.over()
        self._committer.commit(Commit(new=version, about={"synced": True}))
        self.synced = True
        self.caught_up.reached()
        logger.info("%s: listed at version %s, objects: %d", self.list_watch, version, self.objects)

    def expired(self) -> None:
        """List next: the API server no longer knows the checkpoint."""
        self._lose_touch()
        self._must_list = True

    def rewound(self, version: str) -> None:  # noqa: ARG002 - any list will do
        """List next, and enqueue everything: events that were handed over may never have happened."""
        self._lose_touch()
        self._mark()

    def tick(self) -> None:
        """Check each second that Redis is still at our position; resync when it is time."""
        self._went_on_at = self._clock.monotonic()
        if not self._opened or self._committer.moved:
            return
        if self._connected_at and not self.synced:  # "too old" would have come by now
            self.objects, self.resumed_at = self._committer.known_count(), self._connected_at
            self.synced = True  # last: readers in other threads read the rest once they see this
            logger.info("%s: resumed at version %s", self.list_watch, self.resumed_at)
            self._committer.confirm()
        if self._open_since is not None and self._clock.monotonic() - self._open_since >= PROBE_INTERVAL:
            self.last_error.over()  # an error that ends a watch at once would have come by now
        self._probe()
        self.caught_up.check(checkpoint_of(self._committer.position))
        if self.synced and self._resyncs.due():
            with EventContext(self._place, self._stop):  # no publish: a page may be older than the cache
                was_last_step = self._resyncs.step()
            if was_last_step:
                self.lists += 1
                self._committer.confirm()

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, UnknownResource) and error.resource != self.resource:
            # the owner's: its own stream reports it
            logger.debug("%s: waits for its owners' resource: %s", self.list_watch, error)
        else:
            self._reflector.report(error)
        self._open_since = None
        self.last_error.failed(error)
        if self._opened and not self._committer.position and not self._committer.moved:
            with suppress(DistqError, PositionMoved):
                self._committer.begin_list()  # its record says why the first list waits

    def _open(self) -> None:
        config = self._config
        self._router = Router(
            self._watch,
            config.queue,
            mapped_keys(self._watch, config.client, config.owned_by),
            self._parked_as,
            failed=partial(config.count_failures, self.resource, 1),
            clock=self._clock,
        )
        config.count_failures(self.resource, 0)
        self._about_watch = {
            "resource": self.resource,
            "namespace": self.namespace,
            "cluster": config.client.cluster_id(),
            "owner": config.owner,
            "mapped": self._watch.mapped,
            "lease": config.lease_duration,
            **({"parked_as": self._parked_as} if self._parked_as else {}),
            **({"watch": self._place.identity} if self._caching else {}),  # by which readers find its cache
        }
        self._committer = Committer(
            StreamStore(config.connection, config.queue, self.name(), fair_by=config.fair_by),
            config.leadership,
            self._clock,
            self._stop,
            about=self._about,
            present_version=self.list_watch.version,
            committed=self._count,
            span=partial(config.commit_span, self.resource),
            failed=self.last_error.failed,
            parked_as=self._parked_as,
            delay=microseconds(in_seconds(self._watch.after)),
        )
        self._load()
        self._opened = True

    def _load(self) -> None:
        """Read the position, and the other data that the last leader left, from Redis."""
        record = self._committer.load()
        about = record.about if record else {}
        self._lose_touch()
        self._must_list = self._cache_is_whole = False
        self._oldest = None
        self._fed = record.moment("fed") if record else None
        resynced = record.moment("resynced") if record else None
        self._resyncs.plan(self._clock.now() if resynced is None else resynced)
        had = str(about.get("revision", ""))
        self._revision = self._config.revision or had
        if record and self._revision != had:
            logger.info("%s: revision %s, was %s: all again", self.list_watch, self._revision, had or "none")
            self._mark()
        elif record and not is_readable(record.position):
            logger.warning("%s: checkpoint %s cannot be read: all again", self.list_watch, record.position)
            self._mark()
        elif record:
            self._load_cache(record)

    def _load_cache(self, record: StreamRecord) -> None:
        """Go on with the cache that the record describes, or list everything to fill it."""
        cached = record.cached_indices()
        if self._caching is None:
            if "watch" in record.about:  # complete or not
                self._committer.commit(Commit(new=self._committer.position, clear_cache=True))
            return
        self._cache_is_whole = cached is not None and sorted(cached) == self._caching.kept
        if not self._cache_is_whole and checkpoint_of(record.position) not in {"", MARK}:
            logger.info("%s: cached now, with %s", self.list_watch, ", ".join(self._caching.kept))
            self._mark()

    def _mark(self) -> None:
        """Ask for a list of everything, of this leader or the next; until then no cache is complete."""
        self._cache_is_whole = False  # before the commit, whose record says so to readers
        self._committer.commit(Commit(new=MARK))

    def _lose_touch(self) -> None:
        self.synced, self.resumed_at, self._connected_at, self._bookmark = False, "", "", ""
        self._router.last_seen.forget_all()
        self._resyncs.interrupt()

    def _pass_nameless(self, events: Sequence[WatchEvent]) -> None:
        """Note bookmarks, and objects that cannot be read: the watch has shown all up to their version."""
        for event in events:
            if event.type == "BOOKMARK":
                self.caught_up.bookmarked()
            elif not event.object.key:
                self._router.failures.left_out(event.object)
        if not events[-1].object.key:
            self._bookmark = events[-1].version

    def _publish(self, name: str, cached: CachedObject | None, version: str) -> None:
        """Put an object into the cache ahead of its keys; without these the next leader hands it over."""
        objects, dropped = ([cached], {}) if cached else ([], {name: version})
        self._committer.commit(Commit(new=self._committer.position, objects=objects, dropped=dropped))

    def _probe(self) -> None:
        """Commit nothing, each second: it carries bookmarks, and notices a Redis that went back in time."""
        is_awaited = self.caught_up.is_awaited and bool(self._bookmark)
        if self._clock.monotonic() - self._committer.committed_at < PROBE_INTERVAL and not is_awaited:
            return
        bookmark, self._bookmark = self._bookmark, ""
        if bookmark:
            self._committer.commit(Commit(new=bookmark))
        else:
            self._committer.confirm()

    def _count(self, added: int) -> None:
        self.enqueued += added
        if added:
            self._fed = self._moment(self._clock.monotonic())
        self._config.count_commit(self.resource, added)

    def _about(self) -> dict[str, Any]:
        """Return the data of the stream for people and for the next leader."""
        return {
            **self._about_watch,
            "leader": self._config.leadership.identity,
            "led_since": self._moment(self._config.leadership.began),
            "revision": self._revision,
            "synced": self.synced,
            "resumed_at": self.resumed_at,
            "lists": self.lists,
            "objects": self.objects,
            "lag": round(self.lag, 3),
            **({"behind": behind} if (behind := self.caught_up.behind) else {}),
            "seen": self._moment(self._clock.monotonic()),
            "fed": self._fed,
            "resynced": round(self._resyncs.last, 3),
            **self.last_error.about(self._moment),
            **({"cached": self._caching.kept} if self._caching and self._cache_is_whole else {}),
            **(self._config.purpose().about() if self._config.purpose else {}),
        }

    def _moment(self, monotonic: float) -> float:
        return round(self._committer.server_ahead + monotonic, 3)  # by the server's clock
