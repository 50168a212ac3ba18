"""One cache as a process reads it: found by the record of its stream, waited for until it is complete."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from distq.client.client import Client
from distq.clock import SYSTEM_CLOCK, Clock
from distq.controller.cached import event_context
from distq.controller.cached.caching import Caching
from distq.controller.cached.event_context import Place
from distq.controller.watches import ResourceWatch
from distq.errors import CacheNotSynced, ConfigError
from distq.redisio.connection import Connection
from distq.redisio.object_cache import CachedObject, CacheIncomplete, ObjectCache
from distq.redisio.records import StreamRecord
from distq.redisio.stream_store import stream_records
from distq.wording import duration
from distq.workqueue.current import current_request
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import Purpose

LOOK_EVERY = 0.1
"""Seconds between looks whether a cache is complete."""

LOGGED_AFTER = 1.0
"""Seconds of waiting after which the log names the cache."""

Answer = TypeVar("Answer")

logger = logging.getLogger("distq")


@dataclass(eq=False)
class StreamCache:
    """The cache of a watch in all its namespaces, or in one of them.

    A process finds a stream by the resource and namespace in its record: to compute its name takes the rights
    of a leader. ``client`` and ``with_short_timeouts``, a connection, are made when they are needed.
    """

    watch: ResourceWatch
    caching: Caching
    place: Place
    _: KW_ONLY
    queue: Queue
    client: Callable[[], Client]
    with_short_timeouts: Callable[[], Connection]
    timeout: float
    shared: bool = False
    clock: Clock = SYSTEM_CLOCK
    _found: ObjectCache | None = field(default=None, init=False)
    _writer: ObjectCache | None = field(default=None, init=False)

    def covers(self, namespace: str) -> bool:
        """Return whether objects of this namespace are looked for here."""
        return self.place.namespace in {None, namespace}

    def read(self, ask: Callable[[ObjectCache], Answer]) -> Answer:
        """Return the answer of the cache as soon as it is complete.

        Raises CacheNotSynced if that takes longer than the timeout, RedisError, and on a shared queue
        ApiError if the cluster does not say which one it is.
        """
        stream = event_context.current()
        if stream and stream.place != self.place:
            stream.publish()
        try:
            return ask(self._cache())
        except CacheIncomplete as incomplete:
            record = incomplete.record
        return self._read_later(ask, record)

    def wrote(self, *objects: CachedObject, dropped: Mapping[str, str] | None = None) -> None:
        """Keep the API server's answer to a write, or that an object is gone as of a version.

        Nothing is kept where no leader caches, as before the first one and after a release without cache: no
        leader would ever remove it. Raises RedisError.
        """
        connection, found = self.with_short_timeouts(), self._found
        watch = self.place.identity
        if found and self._writer_of(found.stream, connection).wrote(objects, dropped, watch=watch):
            return
        self._found = None  # another stream may keep the cache by now
        with suppress(CacheIncomplete):
            stream = self._cache(asked=connection).stream
            self._writer_of(stream, connection).wrote(objects, dropped, watch=watch)

    def _writer_of(self, stream: str, connection: Connection) -> ObjectCache:
        """Return the writer of a stream's cache: the last one, which knows that its queue is registered."""
        writer = self._writer
        if writer is None or writer.stream != stream or writer.connection is not connection:
            self._writer = writer = ObjectCache(connection, self.queue.name, stream)
        return writer

    def _read_later(self, ask: Callable[[ObjectCache], Answer], record: StreamRecord | None) -> Answer:
        """Wait until the cache is complete, except in its own stream while that hands over objects."""
        stream = event_context.current()
        what, within = self.watch.resource, duration(self.timeout)
        began, log_after = self.clock.monotonic(), LOGGED_AFTER
        with stream.waiting_for(self.place) if stream else nullcontext():
            while True:
                partly = stream is not None and stream.waits_for_itself(self.place)
                try:
                    return ask(self._cache(partly=partly))
                except CacheIncomplete as incomplete:
                    record, self._found = incomplete.record or record, None
                request = current_request()
                stopped = request.cancelled if request else stream.stopped if stream else threading.Event()
                ended = self.clock.wait(stopped, LOOK_EVERY)
                lasted = self.clock.monotonic() - began
                if lasted >= log_after:
                    logger.warning(
                        "%s: waiting up to %s for its cache: %s", what, within, self._cause(record)
                    )
                    log_after = math.inf
                if ended or lasted >= self.timeout:
                    waited = "" if ended else f" after {within}"
                    raise CacheNotSynced(f"{what}: not synced{waited}: {self._cause(record)}")

    def _cache(self, *, partly: bool = False, asked: Connection | None = None) -> ObjectCache:
        """Return a reader of the cache, ``partly`` of an incomplete one, too; CacheIncomplete without any.

        One that is not known yet is looked for by the connection that is ``asked``.
        """
        connection, found = self.queue.connection, self._found  # another thread may drop it at any moment
        if found is None or found.connection is not connection:
            name = self._find(asked or connection)
            if not name:
                raise CacheIncomplete(None)
            self._found = found = ObjectCache(connection, self.queue.name, name, suits=self.caching.suits)
        if partly:
            return ObjectCache(connection, self.queue.name, found.stream, partly=True)
        return found

    def _find(self, connection: Connection) -> str:
        """Return the name of the stream, "" if there is none; of those of two clusters, this cluster's."""
        mine = self.queue.purpose  # a leader in another cluster differs by it, as far as that is known
        found = {
            name: record
            for name, record in stream_records(connection, self.queue.name).items()
            if record.about.get("watch") == self.place.identity
            and record.about.get("namespace") == self.place.namespace
            and not (mine and (theirs := Purpose.parse(record.about)) and mine().differs_from(theirs))
        }
        if len(found) > 1 or (found and self._is_shared(found.values()) and self._reaches_a_cluster()):
            cluster = self.client().cluster_id()
            found = {name: each for name, each in found.items() if each.about.get("cluster") == cluster}
        return next(iter(found), "")

    def _is_shared(self, records: Iterable[StreamRecord]) -> bool:
        """Return whether programs of other clusters may use the queue: their leaders record no purpose."""
        has_purpose = self.queue.purpose is not None
        return self.shared or (has_purpose and any(Purpose.parse(each.about) is None for each in records))

    def _reaches_a_cluster(self) -> bool:
        """Return whether there is a kubeconfig or service account: workers run without one, too."""
        with suppress(ConfigError):
            return bool(self.client().server)
        return False

    def _cause(self, record: StreamRecord | None) -> str:
        if record is None:
            records = stream_records(self.queue.connection, self.queue.name).values()
            if leaders := {str(record.about.get("leader")) for record in records}:
                who, what = ", ".join(leaders), "does not watch it so"
                if self._is_shared(records):
                    return f"{who} {what}, or in another cluster. Run one version, and an informer in each."
                return f"{who} {what}. Run one version everywhere."
            is_outside = current_request() is None and event_context.current() is None
            in_a_test = "; in a test, read it within run_until_idle, or after" if is_outside else ""
            return f"no process has led yet. Start an informer{in_a_test}."
        about, gone_since = record.about, record.gone_since(self.queue.connection.now())
        leader = about.get("leader")
        if gone_since is not None:
            return f"no process leads since {leader} did. Start an informer."
        if about.get("failing_since") and not about.get("synced"):
            return f"{leader} cannot list it: {about.get('error')}"
        if about.get("synced"):
            kept = ", ".join(sorted(record.cached_indices() or ())) or "nothing"
            return f"{leader} keeps {kept}, not {', '.join(self.caching.kept)}. Run one version everywhere."
        return f"{leader} still lists it. Wait, or raise cache_sync_timeout."
