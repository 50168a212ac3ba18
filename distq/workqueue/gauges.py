"""What a queue holds, for all its processes together, read from Redis when somebody looks.

So one process of a fleet is enough to tell it: the leader, or whoever watches over the queue. A look costs
a few round trips whatever the queue holds, and one more for each thousand items that are held.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from distq.errors import RedisError
from distq.metrics import (
    DEAD,
    DELAYED,
    DEPTH,
    DIRTY,
    FAILING,
    LONGEST_RUNNING,
    OLDEST_READY,
    PAUSED,
    PROCESSING,
    READY,
    REDIS_UP,
    UNFINISHED_WORK,
    WORKERS,
    Sample,
)
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.scores import decode_due, decode_order, due_by, orders_of

LEVELS = 25
"""Priorities that are told apart, as by controller-runtime; the others share one label."""

EXCEEDED = "exceeded_cardinality_limit"
UNKNOWN = ""
"""The priority of due items beyond the first ``PAGE``: nobody promotes them, which is what matters then."""

PAGE = 1000
PATIENCE = 1.0
"""Seconds until a look gives up; somebody waits for it."""


class Handle(Protocol):
    """A queue in Redis (``Queue``)."""

    @property
    def name(self) -> str:
        """Return the queue's name."""

    @property
    def connection(self) -> Connection:
        """Return the way to Redis."""

    @property
    def shutting_down(self) -> bool:
        """Return whether the handle was shut down."""


class QueueGauges:
    """Reads a queue's gauges: ``metrics.expose(QueueGauges(queue))``.

    Without an answer it tells that alone, and nothing once the handle is shut down.
    """

    def __init__(self, queue: Handle) -> None:
        self._queue = queue
        self._store = QueueStore(queue.connection.impatient(PATIENCE), queue.name)
        self._priorities = {0}
        self._one_at_a_time = threading.Lock()

    def __call__(self) -> list[Sample]:
        """Look, and return what was found."""
        name = self._queue.name
        if self._queue.shutting_down:
            return []
        with self._one_at_a_time:
            try:
                return [*self._look(), (REDIS_UP, (name,), 1.0)]
            except RedisError:
                return [(REDIS_UP, (name,), 0.0)]

    def close(self) -> None:
        """Close the connection; another look would open one."""
        self._store.connection.close()

    def _look(self) -> Iterator[Sample]:
        name, now = (self._queue.name,), self._store.now()
        both = name * 2
        *sizes, paused = self._store.read(*_SIZES, ("HGET", "meta", "paused"))
        for metric, size in zip(_SIZED, sizes, strict=True):
            yield metric, name, size
        yield PAUSED, name, float(bool(paused))
        depths, oldest = self._pending(now)
        for label, depth in depths.items():
            yield DEPTH, (*both, label), depth
        yield OLDEST_READY, name, max(0.0, now - oldest)
        ages = [max(0.0, now - fence / 1e6) for fence in self._fences()]
        yield UNFINISHED_WORK, both, sum(ages)
        yield LONGEST_RUNNING, both, max(ages, default=0.0)

    def _pending(self, now: float) -> tuple[dict[str, int], float]:
        """Return how many items are pending at each priority, and since when the first of them, seconds."""
        edge = f"({due_by(now)}"
        n_ready, n_dirty, n_due, due = self._store.read(
            ("ZCARD", "ready"),
            ("ZCARD", "dirty"),
            ("ZCOUNT", "delayed", "-inf", edge),
            ("ZRANGEBYSCORE", "delayed", "-inf", edge, "WITHSCORES", "LIMIT", 0, PAGE),
        )
        first_due = [decode_due(score) for score in due[1::2]]
        self._learn(priority for priority, _ in first_due)
        depths, oldest = self._levels()
        if sum(depths.values()) < n_ready + n_dirty and len(self._priorities) < LEVELS:
            self._learn(self._present("ready"))
            self._learn(self._present("dirty"))
            depths, oldest = self._levels()
        exceeding = n_ready + n_dirty - sum(depths.values())
        for priority, _ in first_due:
            depths[priority if priority in self._priorities else EXCEEDED] += 1
        if exceeding > 0:
            depths[EXCEEDED] += exceeding
        if n_due > len(first_due):
            depths[UNKNOWN] = n_due - len(first_due)
        since = [since_us / 1e6 for since_us in (*oldest, *(due_us for _, due_us in first_due[:1]))]
        return {str(level): depth for level, depth in depths.items()}, min(since, default=now)

    def _levels(self) -> tuple[Counter[int | str], list[int]]:
        """Count what is ready or dirty at the known priorities; return since when the first is ready, too."""
        commands: list[Sequence[Any]] = []
        for priority in self._priorities:
            lowest, beyond = orders_of(priority)
            commands += (
                ("ZCOUNT", "ready", lowest, f"({beyond}"),
                ("ZCOUNT", "dirty", lowest, f"({beyond}"),
                ("ZRANGEBYSCORE", "ready", lowest, f"({beyond}", "WITHSCORES", "LIMIT", 0, 1),
            )
        replies = self._store.read(*commands)
        counts = zip(self._priorities, replies[::3], replies[1::3], strict=True)
        heads = [decode_order(head[1])[1] for head in replies[2::3] if head]
        return Counter({priority: ready + dirty for priority, ready, dirty in counts}), heads

    def _present(self, state: str) -> Iterator[int]:
        """Yield the priorities in ``ready`` or ``dirty``, from the highest."""
        lowest = "-inf"
        while head := self._store.read(("ZRANGEBYSCORE", state, lowest, "+inf", "WITHSCORES", "LIMIT", 0, 1))[
            0
        ]:
            priority, _ = decode_order(head[1])
            yield priority
            lowest = orders_of(priority)[1]

    def _learn(self, priorities: Iterable[int]) -> None:
        """Tell these apart from now on, as many as there is room for, also when nothing has them any more."""
        for priority in priorities:
            if len(self._priorities) == LEVELS:
                return
            self._priorities.add(priority)

    def _fences(self) -> list[int]:
        """Return the fences of all claims, the µs at which they began."""
        fences: dict[bytes, int] = {}  # a scan may repeat
        cursor = b"0"
        while True:
            ((cursor, flat),) = self._store.read(("HSCAN", "claims", cursor, "COUNT", PAGE))
            for item, text in zip(flat[::2], flat[1::2], strict=True):
                fences[item] = int(text.split(b" ", 2)[1])
            if cursor == b"0":
                return list(fences.values())


_SIZED = (READY, DELAYED, PROCESSING, DIRTY, DEAD, FAILING, WORKERS)
_SIZES = (
    *(("ZCARD", state) for state in ("ready", "delayed", "processing", "dirty", "dead")),
    ("HLEN", "failures"),
    ("HLEN", "workers"),
)
