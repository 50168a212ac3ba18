"""The sources of one controller's queue while this process leads (controller-runtime pkg/source).

Beside the streams there are periods, and the cleanup of streams that are no longer watched.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from distq.controller.stream.committer import Committer
from distq.controller.stream.mapping import key_of_name
from distq.controller.stream.relist import drop_unlisted_parked, write_all_tombstones
from distq.controller.stream.routing import Route
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import Every, For, Watch, identities, require_list, resource_watches, title
from distq.errors import ApiError, InvalidKey, LeaseLost, RedisError
from distq.informer.backoff import Backoff
from distq.informer.listwatch import ListerWatcher
from distq.informer.shared_listwatch import shared_by
from distq.informer.sink import PositionMoved
from distq.outage import Outage
from distq.redisio.checkpoints import MARK
from distq.redisio.commit import Commit
from distq.redisio.keys import validate_key
from distq.redisio.limits import BATCH_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import StreamRecord
from distq.redisio.stream_store import StreamStore, stream_records
from distq.wording import counted
from distq.workqueue.interface import WorkQueue

logger = logging.getLogger(__name__)


class PeriodicSource:
    """Enqueues the keys of an Every, each period."""

    def __init__(self, every: Every, queue: WorkQueue, config: SourceConfig) -> None:
        self._every = every
        self._queue = queue
        self._store = QueueStore(config.connection, config.queue)
        self._leadership = config.leadership
        self._clock = config.clock

    def run(self, stop: threading.Event) -> None:
        """Enqueue at once and then each period, counted from its beginning; retry sooner after a failure.

        Raises LeaseLost.
        """
        backoff = Backoff(self._clock)
        while not stop.is_set():
            self._require_term()
            next_time = self._clock.monotonic() + self._every.period
            try:
                self._enqueue()
            except BaseException:  # the program's own function, which may call sys.exit
                self._require_term()  # the end of the term is no failure of the function
                logger.exception("%s: %s failed", self._queue.name, self)
                next_time = min(next_time, self._clock.monotonic() + backoff.delay())
            self._clock.wait(stop, max(0.0, next_time - self._clock.monotonic()))

    def __str__(self) -> str:
        return title(self._every)

    def _enqueue(self) -> None:
        """Add the keys that are not dead: no object of a dead one changed, and no user asked for it.

        A key that becomes dead between the read and the add is tried once more, as if it had been added
        before.
        """
        keys = iter(require_list(self._every.keys()))
        while chunk := list(islice(keys, BATCH_LIMIT)):
            good = self._without_odd(chunk)
            self._require_term()
            (dead,) = self._store.read(("ZMSCORE", "dead", *good)) if good else ([],)
            alive = [key.decode() for key, parked_at in zip(good, dead, strict=True) if parked_at is None]
            self._queue.add(*alive, priority=self._every.priority)

    def _without_odd(self, keys: Sequence[str]) -> list[bytes]:
        """Return the valid keys; a bad one must not stop the others."""
        good, odd = [], []
        for key in keys:
            try:
                good.append(validate_key(key))
            except InvalidKey as error:
                odd.append(error)
        if odd:
            left_out = counted(len(odd), "key")
            logger.warning("%s: %s: left out %s, such as: %s", self._queue.name, self, left_out, odd[0])
        return good

    def _require_term(self) -> None:
        if not self._leadership.may_act():
            raise LeaseLost(f"{self._queue.name}: the lease was not renewed in time.")


class StreamCleanup:
    """Removes the streams that this owner once fed and no longer watches."""

    def __init__(self, watched: Sequence[StreamSource], config: SourceConfig) -> None:
        self._watched = watched
        self._config = config

    def __str__(self) -> str:
        return "streams no longer watched"

    def run(self, stop: threading.Event) -> None:
        """Enqueue the keys of all objects that such streams knew, then remove them; try until it is done."""
        backoff = Backoff(self._config.clock)
        outage = Outage(f"{self._config.queue}: streams no longer watched", logger, self._config.clock)
        while self._config.owner and not stop.is_set():
            try:
                self._clean_up(stop)
            except (ApiError, RedisError, PositionMoved) as error:
                outage.failed(error)
                self._config.clock.wait(stop, backoff.delay())
            else:
                outage.over()
                return

    def _clean_up(self, stop: threading.Event) -> None:
        watched = {stream.name() for stream in self._watched}
        records = stream_records(self._config.connection, self._config.queue)
        cluster = self._config.client.cluster_id()
        for name, record in records.items():
            if name in watched or record.about.get("owner") != self._config.owner or stop.is_set():
                continue
            if record.about.get("cluster") == cluster:
                self._remove(name, record, stop)
            else:  # gone for ever, or led by another process: nothing here shows which
                logger.warning("%s: %s is of another cluster; left alone", self._config.queue, name)

    def _remove(self, name: str, record: StreamRecord, stop: threading.Event) -> None:
        logger.info("%s: no longer watched: %s; its objects once more", self._config.queue, name)
        config, resource = self._config, str(record.about.get("resource") or name)
        mapped = bool(record.about.get("mapped"))
        committer = Committer(
            StreamStore(config.connection, config.queue, name),
            config.leadership,
            config.clock,
            stop,
            about=lambda: record.about,
            # without a watch there is no version to ask for: "" decides for the later leader
            present_version=self._watched[0].list_watch.version if self._watched else str,
            committed=partial(config.count_commit, resource),
            span=partial(config.commit_span, resource),
            # the record of a distq 0.1.0 does not have it
            parked_as=str(record.about.get("parked_as") or (f"{name}: " if mapped else "")),
        )
        committer.load()
        # the known set is incomplete from here on: a stream that is watched again meanwhile must list
        committer.commit(Commit(new=MARK))
        write_all_tombstones(
            committer,
            (),
            lambda gone: (
                Route(name, known.keys if mapped else key_of_name(name), None) for name, known in gone
            ),
        )
        drop_unlisted_parked(committer, ())
        committer.commit(Commit(new=""))


Source = StreamSource | PeriodicSource | StreamCleanup
"""The leader runs each in a thread of its own, until ``stop`` is set or there is nothing more to do."""


def sources(watches: Sequence[Watch], queue: WorkQueue, config: SourceConfig) -> list[Source]:
    """Return the sources: a stream for each watch and namespace, a period for each Every, and a cleanup.

    ``config.owned_by`` is taken from the For among the watches.
    """
    owned_by = next((watch.resource for watch in watches if isinstance(watch, For)), "")
    config = replace(config, owned_by=owned_by)
    resources = resource_watches(watches)
    streams = [
        StreamSource(watch, config, identity=identity, namespace=namespace)
        for watch, identity in zip(resources, identities(resources), strict=True)
        for namespace in watch.namespaces or (None,)
    ]
    periods = [PeriodicSource(watch, queue, config) for watch in watches if isinstance(watch, Every)]
    return [*streams, *periods, StreamCleanup(streams, config)]


def share_list_watches(streams: Sequence[StreamSource]) -> None:
    """Let streams that list and watch alike do so once, before any of them runs."""
    alike: dict[ListerWatcher, list[StreamSource]] = {}
    for stream in streams:
        alike.setdefault(stream.list_watch, []).append(stream)
    for list_watch, those in alike.items():
        if len(those) > 1:
            for stream, member in zip(those, shared_by(len(those), list_watch), strict=True):
                stream.list_watch = member
