"""All that feeds one controller's queue while this process leads."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

from distq.controller.stream.batch import Batch, parse_known, possible_keys
from distq.controller.stream.committer import Committer
from distq.controller.stream.stream_source import Stream, StreamConfig
from distq.controller.watches import LOW_PRIORITY, Every, For, Watch, identities, list_of_keys
from distq.errors import ApiError, LeaseLost, RedisError
from distq.informer.backoff import Backoff
from distq.informer.sink import PositionMoved
from distq.redisio.checkpoints import MARK
from distq.redisio.limits import BATCH_LIMIT
from distq.redisio.records import Stream as StreamRecord
from distq.redisio.stream_store import StreamStore, stream_records
from distq.workqueue.interface import WorkQueue

logger = logging.getLogger(__name__)


class Source(Protocol):
    """Something that the leader runs in a thread of its own."""

    def run(self, stop: threading.Event) -> None:
        """Feed the queue until ``stop`` is set, or there is nothing more to do; raise LeaseLost."""


def sources(watches: Sequence[Watch], queue: WorkQueue, config: StreamConfig) -> list[Source]:
    """Return what to run: a Stream for each watch and namespace, a Period for each Every, one WindUp.

    ``config.owned_by`` is taken from the For among the watches.
    """
    owned_by = next((watch.resource for watch in watches if isinstance(watch, For)), "")
    config = replace(config, owned_by=owned_by)
    resources = [watch for watch in watches if not isinstance(watch, Every)]
    streams = [
        Stream(watch, config, identity=identity, namespace=namespace)
        for watch, identity in zip(resources, identities(resources), strict=True)
        for namespace in watch.namespaces or (None,)
    ]
    periods = [Period(watch, queue, config) for watch in watches if isinstance(watch, Every)]
    return [*streams, *periods, WindUp(streams, config)]


class Period:
    """Enqueues what an Every says, each period."""

    def __init__(self, every: Every, queue: WorkQueue, config: StreamConfig) -> None:
        self.failures = 0
        self._every = every
        self._queue = queue
        self._leadership = config.leadership
        self._clock = config.clock

    def run(self, stop: threading.Event) -> None:
        """Enqueue at once and then each period, counted from its beginning; after a failure try sooner."""
        backoff = Backoff(self._clock)
        while not stop.is_set():
            next_time = self._clock.monotonic() + self._every.period
            try:
                self._enqueue()
            except LeaseLost:
                raise
            except Exception:
                self.failures += 1
                logger.exception("%s: Every %g s failed", self._queue.name, self._every.period)
                next_time = min(next_time, self._clock.monotonic() + backoff.delay())
            self._clock.wait(stop, max(0.0, next_time - self._clock.monotonic()))

    def _enqueue(self) -> None:
        keys = iter(list_of_keys(self._every.keys()))
        while chunk := list(islice(keys, BATCH_LIMIT)):
            if not self._leadership.may_act():
                raise LeaseLost(f"{self._queue.name}: the lease was not renewed in time.")
            self._queue.add(*chunk, priority=self._every.priority)


class WindUp:
    """Ends the streams that this owner once fed and no longer watches."""

    def __init__(self, streams: Sequence[Stream], config: StreamConfig) -> None:
        self._streams = streams
        self._config = config

    def run(self, stop: threading.Event) -> None:
        """Enqueue the keys of all objects that such streams knew, then remove them; try until it is done."""
        backoff = Backoff(self._config.clock)
        while self._config.owner and not stop.is_set():
            try:
                self._wind_up(stop)
            except (ApiError, RedisError, PositionMoved) as error:
                logger.warning("%s: winding up old streams: %s", self._config.queue, error)
                self._config.clock.wait(stop, backoff.delay())
            else:
                return

    def _wind_up(self, stop: threading.Event) -> None:
        watched = {stream.name() for stream in self._streams}
        records = stream_records(self._config.connection, self._config.queue)
        cluster = self._config.client.cluster_id()
        for name, record in records.items():
            if name in watched or record.about.get("owner") != self._config.owner or stop.is_set():
                continue
            if record.about.get("cluster") == cluster:
                self._end(name, record, stop)
            else:  # gone for ever, or led by somebody else: nobody here can tell
                logger.warning("%s: %s is of another cluster; left alone", self._config.queue, name)

    def _end(self, name: str, record: StreamRecord, stop: threading.Event) -> None:
        logger.info("%s: no longer watched: %s; its objects once more", self._config.queue, name)
        config = self._config
        store = StreamStore(config.connection, config.queue, name)
        counted = partial(config.count_commit, str(record.about.get("resource") or name))
        committer = Committer(
            store, config.leadership, self._present_version, config.clock, stop, committed=counted
        )
        committer.load()
        # What is known will not be whole any more: whoever watches this again in between must list.
        committer.commit(MARK, about=record.about)
        while store.known_count():  # a scan misses some where Redis is restarted in the midst of it
            batch = Batch(lambda full: self._commit(committer, full, record.about))
            for known, line in store.known():
                keys = parse_known(line)[1] if record.about.get("mapped") else possible_keys([known])
                batch.add(known, None, keys)
            batch.flush()
        committer.commit("", about={})

    def _commit(self, committer: Committer, batch: Batch, about: Mapping[str, Any]) -> None:
        committer.commit(
            committer.step(),
            keys=list(batch.keys),
            gone=list(batch.gone),
            priority=LOW_PRIORITY,
            about=about,
        )

    def _present_version(self) -> str:
        return self._streams[0].present_version() if self._streams else ""
