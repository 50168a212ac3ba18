"""What an Inspector returns: frozen records whose fields are also the keys of the command line's JSON."""

from dataclasses import dataclass
from typing import Literal, NewType

from distq.redisio.queue_reads import State

Timestamp = NewType("Timestamp", float)
"""Seconds since the epoch by the Redis server's clock."""

Listing = Literal["ready", "delayed", "processing", "dead", "dirty"]
"""What can be listed: the states, and the processing items that were added again."""

Repair = Literal["requeue", "delete", "park"]
"""What people do to items of a queue."""

Happening = Literal[
    "added",
    "raised",
    "promoted",
    "revived",
    "claimed",
    "settled",
    "failed",
    "taken back",
    "forgiven",
    "parked",
    "refused",
    "repaired",
    "queue",
]
"""What kinds of events a trace tells of; *queue* is one that concerns no item."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One queue in numbers.

    ``depth`` is what waits now (ready, dirty, and delayed items that are due), ``failing`` counts the
    items with a failure record, the dead included, ``workers`` the open handles. ``paused_since`` is
    when somebody stopped the claims, None while they go on; ``traced_until`` when the trace ends, None
    where there is none. ``catching_up_until`` is until when workers wait at most, since a term has begun
    and its cached watches catch up with the cluster; None where they do not wait. ``broken`` says why
    Redis refuses to show the queue, and what mends it, as where somebody made one of its keys something
    else: then all numbers are 0. It is None of all others.
    """

    name: str
    paused: bool
    paused_since: Timestamp | None
    ready: int
    delayed: int
    processing: int
    dirty: int
    dead: int
    failing: int
    depth: int
    workers: int
    oldest_ready: Timestamp | None
    done_per_second: float
    failed_per_second: float
    traced_until: Timestamp | None
    catching_up_until: Timestamp | None
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One queue in numbers at one moment of its past.

    Counts are those of QueueInfo. ``waited`` is for how many seconds the item had waited that waited longest,
    among due items and the ten highest priorities; None where none waited. ``done`` and ``failed`` count the
    settlements of all handles that ever were, as far as they were reported: with each heartbeat and at the
    end. The rates are those since the sample before, None where that is not known.

    ``waiting_p50`` and ``waiting_p99`` are of the items that were claimed since the sample before: for how
    many seconds half of them, and all but one in a hundred, had been pending at most. ``working_p50`` and
    ``working_p99`` are of those that were settled, releases apart: for how long they had been held. All are
    exact to a factor of two, 4.7 hours at most, and reported as the totals are; None where there was nothing.
    """

    queue: str
    at: Timestamp
    ready: int
    delayed: int
    processing: int
    dirty: int
    dead: int
    failing: int
    workers: int
    waited: float | None
    paused: bool
    done: int
    failed: int
    done_per_second: float | None
    failed_per_second: float | None
    waiting_p50: float | None
    waiting_p99: float | None
    working_p50: float | None
    working_p99: float | None


@dataclass(frozen=True, slots=True)
class ItemInfo:
    """One item of a queue.

    An item that is held and also pending is processing: ``dirty`` when it was added again, with a
    ``due`` when it comes back later. A dead one has a ``due`` where an open handle revives it by then
    (``revive_dead_after``). ``since`` is when it got into its state (a delayed one: when it
    last failed). ``claim_deadline`` is when its worker's claim lapses unless a heartbeat moves it.
    ``traceback`` is the last one, of at most 4 KiB. ``reason`` comes with being parked; ``last_error`` is
    then what the operator gave as a reason, where one parked it.
    """

    queue: str
    key: str
    state: State
    dirty: bool
    priority: int
    failures: int
    since: Timestamp | None
    due: Timestamp | None
    worker: str | None
    claim_deadline: Timestamp | None
    last_error: str | None
    last_error_at: Timestamp | None
    reason: str | None
    traceback: str | None


@dataclass(frozen=True, slots=True)
class RepairStep:
    """What one bounded step of a repair of many items did.

    ``chosen`` items were in the state and matched, and of these ``changed`` were changed: the others had left
    the state before the script looked, or cannot be repaired so. ``cursor`` is where the next step begins,
    None when all were looked at.
    """

    chosen: int
    changed: int
    cursor: int | None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One open handle of a queue in one process; ``done`` and ``failed`` count since it was opened.

    ``done_per_second`` and ``failed_per_second`` are what of them came lately; a worker of 0.1.0 counts its
    failures among the done there. ``resource`` is what its Controller reconciles, None where it does not say.
    """

    name: str
    queue: str
    host: str
    pid: int
    version: str
    since: Timestamp | None
    heartbeat: Timestamp | None
    processing: int
    done: int
    failed: int
    done_per_second: float
    failed_per_second: float
    resource: str | None


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """One watched resource feeding one queue.

    ``leader`` is who committed last, since its term began (``leader_since``, None where a distq 0.1.0 led),
    ``gone_since`` since when it leads no more: None while it does, and where a distq 0.1.0 led. ``version``
    is the checkpoint, None during a full list; ``lists`` counts the full lists that this leader made; ``lag``
    is the age in seconds of its oldest event that is not yet committed; ``behind`` is the version that it
    has yet to reach before workers go on, None where they do not wait for it; ``cached`` counts the objects
    in Redis, None where the watch is not cached.

    ``last_error`` is what this leader failed on last, of at most 1000 letters, None where on nothing;
    ``failing_since`` is since when it goes on failing, None where it works again, or leads no more. What
    Redis itself refused is told once it no longer does.
    """

    queue: str
    resource: str
    namespace: str | None
    leader: str | None
    leader_since: Timestamp | None
    gone_since: Timestamp | None
    epoch: str
    version: str | None
    synced: bool
    lists: int
    lag: float | None
    behind: str | None
    cached: int | None
    last_error: str | None
    last_error_at: Timestamp | None
    failing_since: Timestamp | None


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """What happened to an item, or with ``key`` None to the queue, while it was traced.

    ``event`` tells it in words, ``kind`` in one word. ``worker`` is the handle that did it; None for adds,
    for people and for what time does. ``fence`` is the claim's. Where the event ends a claim, ``since`` is
    when that began; else it is None.
    """

    at: Timestamp
    key: str | None
    kind: Happening
    event: str
    worker: str | None
    fence: int | None
    since: Timestamp | None
