"""One watched resource feeding one queue: the leader's path from the API server to Redis.

Keys, the position up to which the resource was followed, and what is known of each object move in
one commit. So whoever leads next resumes the watch where the last commit ended, and what happened
while nobody could watch is found by comparing a list with the known set.
"""

import hashlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from distq.client.client import Client
from distq.clock import SYSTEM_CLOCK, Clock
from distq.controller.event import Event, EventType
from distq.controller.stream.batch import Batch, parse_known
from distq.controller.stream.committer import Committer, Leadership
from distq.controller.stream.relist import Listing
from distq.controller.stream.resync import Resync, Resyncs
from distq.controller.stream.routing import Router
from distq.controller.watches import KeysOf, Owns, ResourceWatch, Watches, function_keys, own_key, owner_keys
from distq.informer.listwatch import PAGE_SIZE, ListWatch
from distq.informer.reflector import Reflector
from distq.informer.sink import PositionMoved
from distq.informer.wire import RawObject, WatchEvent
from distq.metrics import ADDS, STREAM_COMMITS, MetricsProvider
from distq.redisio.checkpoints import MARK, checkpoint_of
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore

logger = logging.getLogger(__name__)

PROBE_INTERVAL = 1.0  # seconds
EVENT_TYPES: dict[str, EventType] = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """What all streams of one controller share.

    ``owner`` names the group of processes of which one leads, so that it finds the streams that it no longer
    watches; ``owned_by`` is the For's resource, which Owns needs. ``resync_period`` in seconds, 0 for never.
    ``metrics`` hears of commits.
    """

    queue: str
    connection: Connection
    client: Client
    leadership: Leadership
    owner: str = ""
    owned_by: str = ""
    revision: str = ""
    resync_period: float = 36000.0
    metrics: MetricsProvider | None = None
    clock: Clock = SYSTEM_CLOCK

    def count_commit(self, resource: str, added: int) -> None:
        """Tell of a commit; what it added are adds of the queue, as those of other producers."""
        if self.metrics is not None:
            self.metrics.count(STREAM_COMMITS, (self.queue, resource), 1)
            if added:
                self.metrics.count(ADDS, (self.queue, self.queue), added)


class Stream:
    """A checkpointed stream, in the process that leads: the sink of one Reflector.

    ``identity`` tells the watch from the queue's others, see ``watches.identities``.

    For people: ``synced`` (it resumed, or its first list was committed), ``resumed_at`` (the version, where
    no list was needed), ``lists`` (whole ones), ``objects``, ``enqueued`` (keys that were not pending
    before).
    """

    def __init__(
        self, watch: ResourceWatch, config: StreamConfig, *, identity: str, namespace: str | None = None
    ) -> None:
        self.resource = watch.resource
        self.namespace = namespace
        self.synced = False
        self.resumed_at = ""
        self.lists = 0
        self.objects = 0
        self.enqueued = 0
        self._watch = watch
        self._config = config
        self._clock = config.clock
        self._identity = identity
        self._list_watch = ListWatch(
            config.client,
            watch.resource,
            namespace=namespace,
            label_selector=watch.label_selector,
            field_selector=watch.field_selector,
            metadata_only=watch.metadata_only,
        )
        self._stop = threading.Event()
        self._opened = False  # the position is known
        self._moved = False  # it has to be read again
        self._must_list = False
        self._connected_at = ""  # the version from which the present watch began
        self._bookmark = ""  # a version to commit with the next probe
        self._oldest: float | None = None  # when the oldest event not yet committed came
        self._revision = ""
        self._resyncs = Resyncs(config.resync_period, self._new_resync, self._clock)

    def run(self, stop: threading.Event) -> None:
        """Feed the queue until ``stop`` is set.

        Raises LeaseLost when another leads, NotFound where the API server does not know the resource and
        nothing was ever handed over, ConfigError, LayoutTooNew.
        """
        self._stop = stop
        self._opened = False
        Reflector(self._list_watch, self, clock=self._clock).run(stop)

    def name(self) -> str:
        """Return the stream's name in Redis: the same for all who watch the same for the same queue."""
        cluster = self._config.client.cluster_id()
        whole = "\n".join((cluster, self._identity, self.namespace or "", self._config.queue))
        kind = self.resource.rpartition("/")[2].lower()
        return f"{kind}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"

    def present_version(self) -> str:
        """Return the cluster's version now, as far as the watched resource shows it."""
        return self._list_watch.version()

    @property
    def lag(self) -> float:
        """Return the age of the oldest event that is not yet committed, seconds."""
        oldest = self._oldest
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    @property
    def failures(self) -> int:
        """Return how often a predicate or mapping function failed since the start."""
        return self._router.failures if self._opened else 0

    # The sink: called by the Reflector, in one thread.

    def position(self) -> str:
        """Return the version to resume from; "" asks for a list."""
        if not self._opened:
            self._open()
        if self._moved:
            self._load()
        checkpoint = checkpoint_of(self._committer.position)
        return "" if self._must_list or checkpoint == MARK else checkpoint

    def connected(self) -> None:
        """Tell Redis who leads, and learn whether it still stands where we think."""
        self._connected_at, self._bookmark = checkpoint_of(self._committer.position), ""
        self._commit(self._committer.position)

    def events(self, events: Sequence[WatchEvent], since: float) -> None:
        """Hand over events in their order, in as few commits as they fit."""
        self._oldest = since if self._oldest is None else min(self._oldest, since)
        batch = Batch(lambda full: self._commit(full.version or self._committer.step(), full))
        try:
            before = self._keys_before(events)
            for event in events:
                if event.type == "BOOKMARK":
                    self._bookmark = event.version
                else:
                    self._bookmark = ""
                    self._hand_over(event, batch, before)
            batch.flush()
        except BaseException:
            self._router.forget()
            raise
        self._oldest = None
        self._probe()

    def begin_list(self) -> None:
        """Begin a chain of commits that leaves the checkpoint where it is."""
        self._lose_touch()
        self._router.forget()
        checkpoint = checkpoint_of(self._committer.position)
        self._listing = Listing(checkpoint, self._committer, self._router, self._commit)
        self._commit(self._committer.step())

    def page(self, objects: Sequence[RawObject]) -> None:
        """Hand over what changed since it was last handed over, or everything."""
        self._listing.page(objects)
        self._probe()

    def unlist(self, obj: RawObject) -> None:
        """Do nothing: lists come in pages here, since commits may be slower than the network."""

    def end_list(self, version: str) -> None:
        """Enqueue the keys of what vanished, then move the checkpoint to the list's version."""
        self._listing.bury_the_vanished()
        self.lists += 1
        self.objects = len(self._listing.listed)
        self.synced, self._must_list = True, False
        self._listing.listed.clear()
        if self._listing.everything:
            self._resyncs.plan(self._clock.now())
        self._oldest = None
        self._commit(version)
        logger.info("%s: listed at version %s, objects: %d", self._list_watch, version, self.objects)

    def expired(self) -> None:
        """List next: the API server no longer knows the checkpoint."""
        self._lose_touch()
        self._must_list = True

    def rewound(self, version: str) -> None:  # noqa: ARG002 - any list will do
        """List next, and enqueue everything: what was handed over may never have happened."""
        self._lose_touch()
        self._commit(MARK)

    def tick(self) -> None:
        """Look whether Redis still stands where we think, each second; resync when it is time."""
        if not self._opened or self._moved:
            return
        if self._connected_at and not self.synced:  # "too old" would have come by now
            self._tell_resumed()
        self._probe()
        if self.synced and self._resyncs.due() and self._resyncs.step():
            self.lists += 1
            self._commit(self._committer.position)

    # How it does it.

    def _open(self) -> None:
        config = self._config
        store = StreamStore(config.connection, config.queue, self.name())
        self._router = Router(self._watch, self._keys_function())
        self._committer = Committer(
            store,
            config.leadership,
            self._list_watch.version,
            self._clock,
            self._stop,
            committed=partial(config.count_commit, self.resource),
        )
        self._load()
        self._opened = True

    def _keys_function(self) -> KeysOf:
        watch, owner = self._watch, self._config.owned_by
        if isinstance(watch, Watches):
            return function_keys(watch.keys)
        if isinstance(watch, Owns):
            namespaced = self._config.client.resolve(owner).namespaced
            return owner_keys(owner, namespaced=namespaced, only_controller=watch.only_controller)
        return own_key

    def _load(self) -> None:
        """Stand where Redis stands."""
        record = self._committer.load()
        about = record.about if record else {}
        self._lose_touch()
        self._moved = self._must_list = False
        self._oldest = None
        self._resyncs.plan(float(about.get("resynced", self._clock.now())))
        had = str(about.get("revision", ""))
        self._revision = self._config.revision or had
        if record and self._revision != had:
            logger.info("%s: revision %s, was %s: all again", self._list_watch, self._revision, had or "none")
            self._commit(MARK)

    def _tell_resumed(self) -> None:
        self.objects, self.resumed_at = self._committer.known_count(), self._connected_at
        self.synced = True  # last: who sees this reads the rest
        logger.info("%s: resumed at version %s", self._list_watch, self.resumed_at)
        self._commit(self._committer.position)

    def _lose_touch(self) -> None:
        self.synced, self.resumed_at, self._connected_at, self._bookmark = False, "", "", ""
        self._resyncs.interrupt()

    def _new_resync(self) -> Resync:
        return Resync(self._list_watch, self._committer, self._router, self._commit, limit=PAGE_SIZE)

    def _keys_before(self, events: Sequence[WatchEvent]) -> dict[str, list[str]]:
        """Return the mapped keys last handed over for the objects; none where keys are the objects' own."""
        if not self._watch.mapped:
            return {}
        names = list(dict.fromkeys(event.object.key for event in events if event.type != "BOOKMARK"))
        lines = self._committer.known_of(names)
        return {name: parse_known(line)[1] for name, line in zip(names, lines, strict=True)}

    def _hand_over(self, event: WatchEvent, batch: Batch, before: dict[str, list[str]]) -> None:
        obj = event.object
        last = self._router.last(obj) if event.type == "MODIFIED" else None
        change = Event(EVENT_TYPES[event.type], obj, old={"metadata": last} if last else None)
        try:
            route = self._router.route(change, obj, before.get(obj.key, []))
        except Exception:
            batch.flush()  # what came before it is whole
            raise
        before[obj.key] = parse_known(route.line)[1]
        batch.add(obj.key, route.line, route.keys, event.version)

    def _commit(
        self, new: str, batch: Batch | None = None, *, priority: int = 0, keep_pending: bool = False
    ) -> None:
        if not new:  # nothing was ever committed, and there is nothing to say yet
            return
        try:
            self.enqueued += self._committer.commit(
                new,
                keys=list(batch.keys) if batch else (),
                known=batch.known if batch else None,
                gone=list(batch.gone) if batch else (),
                priority=priority,
                keep_pending=keep_pending,
                about=self._about(),
            )
        except PositionMoved:
            self._moved = True
            self._router.forget()
            raise

    def _probe(self) -> None:
        """Commit nothing, each second: it carries bookmarks, and notices a Redis that went back in time."""
        if self._clock.monotonic() - self._committer.committed_at >= PROBE_INTERVAL:
            bookmark, self._bookmark = self._bookmark, ""
            self._commit(bookmark or self._committer.position)

    def _about(self) -> dict[str, Any]:
        """Return what people are told of the stream, and what the next leader wants to know."""
        return {
            "resource": self.resource,
            "namespace": self.namespace,
            "cluster": self._config.client.cluster_id(),
            "owner": self._config.owner,
            "leader": self._config.leadership.identity,
            "revision": self._revision,
            "mapped": self._watch.mapped,
            "synced": self.synced,
            "resumed_at": self.resumed_at,
            "lists": self.lists,
            "objects": self.objects,
            "lag": round(self.lag, 3),
            "resynced": round(self._resyncs.last, 3),
        }
