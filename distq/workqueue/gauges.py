"""The gauges of a whole queue, read from Redis at each scrape.

One process of a fleet is enough to report them, such as the leader. A scrape costs five round trips, one more
if objects are cached, up to six more when new priorities appear, and one for each thousand claimed items.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from distq.errors import RedisError, RedisRefused
from distq.metrics import (
    CACHED_OBJECTS,
    DEAD,
    DELAYED,
    DEPTH,
    DIRTY,
    FAILING,
    FLOW_HELD_BACK,
    FLOW_OLDEST_READY,
    FLOW_READY,
    FLOW_WAITING,
    LONGEST_RUNNING,
    OLDEST_READY,
    PAUSED,
    PROCESSING,
    READY,
    REDIS_UP,
    UNFINISHED_WORK,
    WORKERS,
    Metric,
    Sample,
)
from distq.redisio import flow_reads, queue_reads
from distq.redisio.flow_reads import Flow
from distq.redisio.limits import FLOW_LABELS
from distq.redisio.queue_reads import Counts, Level, heads
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord, words_of
from distq.redisio.round_trips import Read, gather, run
from distq.workqueue.queue import Queue

T = TypeVar("T")

_logger = logging.getLogger("distq.queue")

LEVELS = 25
"""How many priorities get their own label, as in controller-runtime; the others share one label."""

EXCEEDED = "exceeded_cardinality_limit"
UNKNOWN = ""
"""The priority of due items after the first ``PAGE``: so many mean that no worker promotes them.

Also the flow of keys without a slash.
"""

PAGE = 1000
TIMEOUT = 1.0
"""Seconds after which a read of the gauges gives up; a scrape waits for it."""


class QueueGauges:
    """Reads a queue's gauges: ``metrics.expose(QueueGauges(queue))``.

    If Redis does not answer it reports only that. Once the handle is shut down it reports nothing.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._store = QueueStore(queue.connection.with_timeout(TIMEOUT), queue.name)
        self._priorities = {0}
        self._one_at_a_time = threading.Lock()
        self._is_refused = False

    def __call__(self) -> list[Sample]:
        """Return the samples of one scrape."""
        name = self._queue.name
        if self._queue.shutting_down:
            return []
        with self._one_at_a_time:
            try:
                return [*self._samples(), (REDIS_UP, (name,), 1.0)]
            except RedisError:
                return [(REDIS_UP, (name,), 0.0)]

    def close(self) -> None:
        """Close the connection; another call would open one."""
        self._store.connection.close()

    def _samples(self) -> Iterator[Sample]:
        name, now = (self._queue.name,), self._store.connection.now()
        both = name * 2
        asked: list[Read[Any]] = [queue_reads.counts(self._store, now, first_due=PAGE), self._flows()]
        counts, flows = self._run(gather(asked))
        for metric, count in _COUNTS.items():
            yield metric, name, count(counts)
        for resource, objects in self._run(self._cached()).items():
            yield CACHED_OBJECTS, (*name, resource), objects
        yield from self._samples_by_flow(flows, now)
        depths, oldest_us = self._pending(counts)
        for label, depth in depths.items():
            yield DEPTH, (*both, str(label)), depth
        yield OLDEST_READY, name, 0.0 if oldest_us is None else max(0.0, now - oldest_us / 1e6)
        ages = [max(0.0, now - fence / 1e6) for fence in self._fences()]
        yield UNFINISHED_WORK, both, sum(ages)
        yield LONGEST_RUNNING, both, max(ages, default=0.0)

    def _flows(self) -> Read[Mapping[str | None, Flow]]:
        """Return the flows of a look; nothing if this user of Redis may not read them."""
        try:
            return (yield from flow_reads.look(self._store)).flows
        except RedisRefused as error:
            if not self._is_refused:  # the user was made for a distq without this look
                _logger.warning("queue %s: no metrics by flow: %s", self._queue.name, error)
            self._is_refused = True
            return {}

    def _samples_by_flow(self, flows: Mapping[str | None, Flow], now: float) -> Iterator[Sample]:
        """Yield the waiting items of the flows with most items, and of all others together."""
        by_items = sorted(flows, key=lambda name: (-flows[name].ready, -flows[name].waiting.total()))
        labelled = {name or UNKNOWN: flows[name] for name in by_items[:FLOW_LABELS]}
        if others := by_items[FLOW_LABELS:]:
            labelled[EXCEEDED] = flow_reads.together(flows[name] for name in others)
        for label, flow in labelled.items():
            labels = (self._queue.name, label)
            yield FLOW_READY, labels, flow.ready
            yield FLOW_HELD_BACK, labels, flow.held_back
            waits = 0.0 if flow.since_us is None else max(0.0, now - flow.since_us / 1e6)
            yield FLOW_OLDEST_READY, labels, waits
            for quantile in (0.5, 0.99):
                if (seconds := flow.waiting.quantile(quantile)) is not None:
                    yield FLOW_WAITING, (*labels, str(quantile)), seconds

    def _cached(self) -> Read[Counter[str]]:
        """Return how many objects are cached of each resource."""
        streams = yield from queue_reads.streams(self._store)
        of_streams = yield from queue_reads.cached_counts(self._store, streams)
        cached: Counter[str] = Counter()
        for name, objects in of_streams.items():
            cached[words_of(streams[name].about.get("resource")) or name] += objects
        return cached

    def _pending(self, counts: Counts) -> tuple[dict[int | str, int], int | None]:
        """Return how many items are pending at each priority, and since when (µs) the oldest is."""
        self._learn(priority for priority, _ in counts.first_due)
        levels = self._levels()
        # the others have priorities that no scrape has met; to find them is of use while labels are left
        if _total(levels) < counts.ready + counts.dirty and len(self._priorities) < LEVELS:
            for present in self._run(gather([heads(self._store, "ready"), heads(self._store, "dirty")])):
                self._learn(present)
            levels = self._levels()
        depths: Counter[int | str] = Counter({at: level.ready + level.dirty for at, level in levels.items()})
        for priority, _ in counts.first_due:
            depths[priority if priority in self._priorities else EXCEEDED] += 1
        if (exceeding := counts.ready + counts.dirty - _total(levels)) > 0:
            depths[EXCEEDED] += exceeding
        if (unknown := counts.due - len(counts.first_due)) > 0:
            depths[UNKNOWN] = unknown
        since = [level.since_us for level in levels.values() if level.since_us is not None]
        return depths, min((*since, *(due_us for _, due_us in counts.first_due[:1] if due_us)), default=None)

    def _levels(self) -> dict[int, Level]:
        return self._run(queue_reads.levels(self._store, self._priorities))

    def _learn(self, priorities: Iterable[int]) -> None:
        """Give these priorities their own labels from now on, as long as labels are left."""
        for priority in priorities:
            if len(self._priorities) == LEVELS:
                return
            self._priorities.add(priority)

    def _fences(self) -> Iterable[int]:
        """Return the fences of all claims, the µs at which they began."""
        batches = queue_reads.scan(self._store, "claims", count=PAGE)
        fences = {item: ClaimRecord.parse(text).fence for batch in batches for item, text in batch}
        return filter(None, fences.values())  # each once, although a scan may repeat some

    def _run(self, read: Read[T]) -> T:
        return run(self._store.connection, read)


def _total(levels: Mapping[int, Level]) -> int:
    return sum(level.ready + level.dirty for level in levels.values())


_COUNTS: Mapping[Metric, Callable[[Counts], float]] = {
    READY: lambda counts: counts.ready,
    DELAYED: lambda counts: counts.delayed,
    PROCESSING: lambda counts: counts.processing,
    DIRTY: lambda counts: counts.dirty,
    DEAD: lambda counts: counts.dead,
    FAILING: lambda counts: counts.failing,
    WORKERS: lambda counts: counts.workers,
    PAUSED: lambda counts: float(counts.paused_us is not None),
}
