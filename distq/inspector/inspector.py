"""The operator's view of all queues on one Redis, and the repairs.

Everything here works beside running informers and workers. Reads look at one moment per round
trip, not per answer: a fixed number of them for any number of queues, workers and priorities, and
more only where a queue is scanned. Repairs check each item's state again inside Redis.
"""

import sys
from collections.abc import Iterator
from itertools import chain, islice

from distq.errors import ConfigError, short_tracebacks
from distq.inspector import across, past, reading
from distq.inspector.across import THE_FIRST, ItemsAcross
from distq.inspector.choices import (
    BY_HAND,
    STATES,
    chosen_items,
    repaired,
    require_choice,
    require_repairable,
    require_state,
)
from distq.inspector.flows import flows_of
from distq.inspector.info import (
    AuditEntry,
    ItemInfo,
    Listing,
    QueueFlows,
    QueueInfo,
    Repair,
    RepairStep,
    Sample,
    StreamInfo,
    Timestamp,
    TraceEvent,
    WorkerInfo,
)
from distq.inspector.timeline import events
from distq.inspector.view import QueueNames, View, Wanted, view
from distq.redisio import queue_reads, trace
from distq.redisio.audit_log import last_actions
from distq.redisio.connection import Connection, shared_connection
from distq.redisio.keys import bytes_of, named, validate_queue_name
from distq.redisio.limits import SCAN_LIMIT, TRACE_ENTRIES
from distq.redisio.queue_store import QueueStore, queue_names
from distq.redisio.round_trips import gather, run
from distq.redisio.snapshots import Snapshots
from distq.redisio.stream_store import StreamStore, stream_records
from distq.seconds import Duration, in_seconds
from distq.workqueue.queue import Queue

_TRACE_AT_MOST = 86_400.0  # seconds
_ENTRIES_AT_MOST = 1_000_000
_LONGEST_MATCH = 256  # bytes


@short_tracebacks
class Inspector:
    """Look into queues and repair them.

    ``redis``: a Connection, a URL, or None for the process's shared Connection. Raises RedisError.
    """

    def __init__(self, redis: Connection | str | None = None) -> None:
        if redis is None:
            self._redis = shared_connection()
        else:
            self._redis = Connection(redis) if isinstance(redis, str) else redis
        self._snapshots = Snapshots(self._redis)
        """For pages of the dashboard: the reads of a round trip are one command, and of one moment."""

    @property
    def connection(self) -> Connection:
        """Return the Connection that it uses."""
        return self._redis

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of all keys."""
        return self._redis.prefix

    def now(self) -> Timestamp:
        """Return the Redis server's time, the clock of all moments here."""
        return Timestamp(self._redis.now())

    def queues(self, queue: str | None = None) -> list[QueueInfo]:
        """Describe all queues by name, or one; a queue that does not exist is left out.

        One that Redis refuses to show, while it shows others, is ``broken``.
        """
        stores, now = self._stores(queue), self._redis.now()
        return run(self._redis, gather(reading.queue_info(store, now) for store in stores))

    def view(self, queue: str | None = None, wanted: Wanted = Wanted()) -> View:  # noqa: B008 - immutable
        """Look at all queues, or at one, as a page of the dashboard does: in six commands at most.

        A queue that does not exist is left out. Where its user may run no script, or in a cluster, it is as
        many round trips, and more commands.
        """
        if queue is not None:
            validate_queue_name(queue)
        return run(self._snapshots, view(self._redis, queue, wanted))

    def failing(self, names: QueueNames = THE_FIRST) -> ItemsAcross:
        """Return failing and dead items of many queues: of each the dead, and the newest failures, first.

        ``names`` are the queues to look at, 500 by name; the first hundred that have such items are shown.
        It takes six commands, as a view does.
        """
        return run(self._snapshots, across.failing(self._redis, names))

    def find(self, key: str, names: QueueNames = THE_FIRST) -> ItemsAcross:
        """Return the item of a key in each queue that has it, in any state, by point look-ups.

        ``names`` and the cost are as for ``failing``. Raises InvalidKey.
        """
        return run(self._snapshots, across.find(self._redis, names, key))

    def audit(self, *, offset: int = 0, limit: int = 100) -> list[AuditEntry]:
        """Return what people did by dashboards and commands, the newest first.

        Each queue keeps its last thousand actions; those of queues that this user of Redis may not read are
        left out.
        """
        found = run(self._snapshots, last_actions(self._stores(None), offset, limit))
        return [entry for entry in map(reading.audit_entry, found) if entry]

    def history(
        self, queue: str, *, since: float | None = None, until: float | None = None, every: Duration = 10.0
    ) -> list[Sample]:
        """Return samples of a queue from ``since``, an hour ago if None, to ``until``, now if None.

        Moments are seconds since the epoch by the server's clock. A sample is kept every 10 s for a day and
        every 5 min for a week more, while any worker or leading informer runs, and needs no other process.
        ``every``: one in so many seconds at most; from 300 on it reads the few that it needs. Where nothing
        ran, samples are missing. It takes one command, two where it asks for the time.
        """
        if since is None or until is None:
            now = self._redis.now()
            since, until = now - 3600 if since is None else since, now if until is None else until
        return run(self._redis, past.samples(self._store(queue), since, until, in_seconds(every)))

    def flows(self, queue: str) -> QueueFlows:
        """Return the flows of a queue that have most items waiting, and that wait longest: twenty at most.

        A flow are the items whose keys have the same text before their first slash, as a namespace. It costs
        the same for any number of items: of a queue with more than two thousand it is a sample.
        """
        return run(self._redis, flows_of(self._store(queue)))

    def workers(self, queue: str | None = None) -> list[WorkerInfo]:
        """Describe the open handles of all queues, or of one."""
        found = run(self._redis, gather(map(reading.worker_infos, self._stores(queue))))
        return list(chain.from_iterable(found))

    def streams(self, queue: str | None = None) -> list[StreamInfo]:
        """Describe the watched resources that feed all queues, or one."""
        stores, now = self._stores(queue), self._redis.now()
        found = run(self._redis, gather(reading.stream_infos(store, now) for store in stores))
        return list(chain.from_iterable(found))

    def item(self, queue: str, key: str) -> ItemInfo | None:
        """Describe one item; None where it is in no state. Raises InvalidKey."""
        return next(iter(run(self._redis, reading.item_infos(self._store(queue), named(key)))), None)

    def items(
        self,
        queue: str,
        *,
        state: Listing | None = None,
        match: str = "*",
        failing: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> list[ItemInfo]:
        """Describe ``limit`` items from ``offset`` on, in the order in which they leave their state.

        Dead items are in the order in which they became dead, those of failures or crashes at the end.
        ``match`` is a glob as of Redis' SCAN. With it, or with ``failing``, the queue is scanned in bounded
        memory: in no order, and an item may show up twice. The items of ``state="dirty"`` are processing;
        a processing item that comes back later is also listed under delayed.
        """
        require_state(state)
        store = self._store(queue)
        if match == "*" and not failing:
            return run(self._redis, reading.page(store, [state] if state else STATES, offset, limit))
        found = reading.scan_items(self._redis, store, state, match, failing=failing)
        # islice takes no larger numbers
        return list(islice(found, min(offset, sys.maxsize), min(offset + limit, sys.maxsize)))

    def each_item(
        self, queue: str, *, state: Listing | None = None, match: str = "*", failing: bool = False
    ) -> Iterator[ItemInfo]:
        """Yield all items as ``items`` lists them, in bounded memory, a few round trips for each 500.

        Without ``match`` and ``failing`` that is by rank: while items leave and come, one may be missed or
        come twice, as in a list that is read page by page.
        """
        require_state(state)
        store = self._store(queue)
        if match != "*" or failing:
            yield from reading.scan_items(self._redis, store, state, match, failing=failing)
            return
        states, offset = [state] if state else STATES, 0
        while True:
            members = run(self._redis, queue_reads.page(store, states, offset, SCAN_LIMIT))
            yield from run(self._redis, reading.item_infos(store, members))
            offset += len(members)
            if len(members) < SCAN_LIMIT:
                return

    def add(self, queue: str, *keys: str, priority: int = 0, after: Duration | None = None) -> int:
        """Make keys pending, now or ``after`` seconds; return how many were not pending before.

        Otherwise as ``Queue.add``. Raises InvalidKey, InvalidPriority, InvalidDelay, and ConfigError where
        there is no such queue.
        """
        return Queue(self._existing(queue).name, self._redis).add(*keys, priority=priority, after=after)

    def requeue(self, queue: str, *keys: str, state: Listing | None = None, match: str | None = None) -> int:
        """Make delayed and dead items pending now, and forget their failures; return how many changed.

        Names keys, or all items in ``state`` (that ``match``). A delayed item keeps its priority, a dead
        one gets 0. Raises ConfigError for neither, and where there is no such queue.
        """
        return self._repair("requeue", queue, keys, state=state, match=match)

    def delete(self, queue: str, *keys: str, state: Listing | None = None, match: str | None = None) -> int:
        """Drop ready, delayed and dead items with their failures; return how many changed.

        Names keys, or all items in ``state`` (that ``match``). Of a processing item only the pending add is
        dropped. Raises ConfigError for neither, for ``state="processing"``, and where there is no such queue.
        """
        return self._repair("delete", queue, keys, state=state, match=match)

    def park(
        self,
        queue: str,
        *keys: str,
        state: Listing | None = None,
        match: str | None = None,
        reason: str = BY_HAND,
    ) -> int:
        """Make ready and delayed items dead that no worker holds; return how many changed.

        Names keys, or all items in ``state`` (that ``match``). A new event or a requeue revives them.
        Dead ones that ``revive_dead_after`` would revive stay dead, too; others do not change. ``reason``,
        one printable line of at most 256 bytes, takes the place of the last error; the failure count stays.
        Raises ConfigError for another reason, for neither, and where there is no such queue.
        """
        return self._repair("park", queue, keys, state=state, match=match, reason=reason)

    def repair_some(
        self,
        repair: Repair,
        queue: str,
        *,
        state: Listing,
        match: str = "*",
        cursor: int = 0,
        reason: str = BY_HAND,
    ) -> RepairStep:
        """Requeue, delete or park some 500 of the items in a state that match, from ``cursor`` on.

        For progress, or to stop in between: one round trip to find them, and a script for each 500 of them; a
        step may find none. Raises what ``requeue``, ``delete`` and ``park`` raise.
        """
        require_state(state)
        require_repairable(repair, state, reason)
        store = self._existing(queue)
        next_cursor, found = run(self._redis, queue_reads.scan_state(store, state, cursor, match))
        items = list(dict.fromkeys(found))  # a scan may name one twice
        return RepairStep(len(items), repaired(store, repair, items, state, reason), next_cursor)

    def pause(self, queue: str) -> bool:
        """Stop claims until ``resume``; return False where they were stopped already.

        Workers finish the items that they hold; adds, delays, settlements and heartbeats go on. Raises
        ConfigError where there is no such queue.
        """
        return self._existing(queue).pause()

    def resume(self, queue: str) -> bool:
        """Let claims go on; return False where they were not stopped.

        Raises ConfigError where there is no such queue.
        """
        return self._existing(queue).resume()

    def fair_by(self, queue: str, fair_by: str | None) -> str | None:
        """Make a queue fair by "namespace", or not fair by None; return what it was before.

        Items that wait take turns, too: they enter by their namespaces in steps of 100, and this returns
        after the last. Once it is not fair, they keep their places, and count as waiting since the time of
        these. Raises ConfigError for another value, or where there is no such queue.
        """
        if fair_by not in (None, "namespace"):
            raise ConfigError(f"bad fair_by {fair_by!r:.80}. Give namespace, or None.")
        before = self._existing(queue).share(fair_by or "none")
        return None if before in ("", "none") else before

    def trace_on(
        self, queue: str, *, seconds: Duration = 600.0, limit: int = TRACE_ENTRIES, match: str = ""
    ) -> Timestamp:
        """Record the call of every script for so long, at most a day; return when that ends.

        The newest are kept, ``limit`` of them or 16 MiB, of at most 16 KiB each, for a day after the end.
        With ``match``, a key in which ``*`` matches any text, calls that name no such key are not recorded,
        except those about the whole queue. Raises ConfigError for other numbers, for a match of more
        than 256 bytes or of several lines, and where there is no such queue.
        """
        if not (match.isprintable() and len(match.encode()) <= _LONGEST_MATCH):
            raise ConfigError(f"bad match {match!r:.80}. Use at most {_LONGEST_MATCH} printable bytes.")
        seconds = in_seconds(seconds)
        if not 0 < seconds <= _TRACE_AT_MOST or not 0 < limit <= _ENTRIES_AT_MOST:
            raise ConfigError(
                f"bad trace of {seconds} s, {limit} entries. Use at most {_TRACE_AT_MOST:.0f} s and "
                f"{_ENTRIES_AT_MOST} entries, more than none."
            )
        return Timestamp(trace.switch_on(self._existing(queue), seconds=seconds, limit=limit, match=match))

    def trace_off(self, queue: str) -> None:
        """Stop the trace. Raises ConfigError where there is no such queue."""
        trace.switch_off(self._existing(queue))

    def traced_until(self, queue: str) -> Timestamp | None:
        """Return when the trace of a queue ends; None where there is none."""
        (value,) = self._store(queue).read(("HGET", "meta", "trace"))
        ends = trace.ends_at(value)
        return Timestamp(ends) if ends is not None and ends > self._redis.now() else None

    def trace(self, queue: str, key: str | None = None, *, match: str = "") -> Iterator[TraceEvent]:
        """Yield the events of all items, of one, or of those that match, oldest first.

        The trace limits how far back they go. ``match`` is as for ``trace_on``.
        """
        store = self._store(queue)
        workers = run(self._redis, reading.worker_names(store))
        found = events(trace.entries(store), workers)
        if match:
            pattern = bytes_of(match)
            found = (each for each in found if each.key is None or trace.matches(bytes_of(each.key), pattern))
        return found if key is None else (event for event in found if event.key == key)

    def resync(self, queue: str) -> int:
        """Make the leader list all resources that feed the queue and enqueue them, at low priority.

        Returns how many watched resources are listed anew, by this leader or the next. Items that back
        off or are dead stay so, unless their object changed. Raises ConfigError where there is no such queue.
        """
        store = self._existing(queue)
        names = stream_records(self._redis, store.name)
        return sum(StreamStore(self._redis, store.name, name).list_all() for name in names)

    def count(self, queue: str, *, state: Listing, match: str = "*") -> int:
        """Return how many items are in a state, or how many of them match (roughly: a scan may repeat)."""
        require_state(state)
        store = self._store(queue)
        if match == "*":
            return queue_reads.size(store, state)
        return sum(len(batch) for batch in reading.scan(store, state, match))

    def _repair(
        self,
        repair: Repair,
        queue: str,
        keys: tuple[str, ...],
        *,
        state: Listing | None,
        match: str | None,
        reason: str = BY_HAND,
    ) -> int:
        require_choice(keys, state, match)
        require_repairable(repair, state, reason)
        store = self._existing(queue)
        batches = chosen_items(store, keys, state, match)
        return sum(repaired(store, repair, batch, state, reason) for batch in batches)

    def _store(self, queue: str) -> QueueStore:
        return QueueStore(self._redis, queue)

    def _existing(self, queue: str) -> QueueStore:
        """Return the store of a queue that is there: a typo must not make another one."""
        store = self._store(queue)
        if not store.exists():
            raise ConfigError(f'no queue "{queue}": nothing was ever added to it. See "distq queues".')
        return store

    def _stores(self, queue: str | None) -> list[QueueStore]:
        """Return the stores of all queues, or of one; none where it does not exist."""
        if queue is not None:
            validate_queue_name(queue)
        return [self._store(name) for name in queue_names(self._redis) if queue in {None, name}]
