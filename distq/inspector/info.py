"""The records of an Inspector: frozen; their fields are also the keys of the command line's JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NewType

from distq.redisio.queue_reads import State

Timestamp = NewType("Timestamp", float)
"""Seconds since the epoch by the Redis server's clock."""

Listing = Literal["ready", "delayed", "processing", "dead", "dirty"]
"""Lists of items: the states, and the processing items that were added again."""

Repair = Literal["requeue", "delete", "park"]
"""Repairs of items by people."""

AuditSource = Literal["dashboard", "command line"]
"""What people act by."""

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
"""Kinds of events in a trace; *queue* is an event of the whole queue."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One queue in numbers.

    ``depth`` counts the items that wait now (ready, dirty, and delayed items that are due), ``failing`` the
    items with a failure record, the dead included, ``workers`` the open handles. ``paused_since`` is when
    the claims were stopped, None while they go on; ``traced_until`` when the trace ends, None without a
    trace. ``held_back`` counts those of the ready items that wait for the end of a claim of their flow, since
    ``fleet_concurrency_per_flow`` of it are claimed. ``catching_up_until`` is until when workers wait at
    most, since a new leader's cached watches catch up with the cluster; None where they do not wait.
    ``broken`` is why Redis refuses to show the queue, and how to repair it, as where one of its keys has
    another type: then all numbers are 0. It is None for all other queues.
    """

    name: str
    paused: bool = False
    paused_since: Timestamp | None = None
    ready: int = 0
    delayed: int = 0
    processing: int = 0
    dirty: int = 0
    dead: int = 0
    failing: int = 0
    depth: int = 0
    workers: int = 0
    oldest_ready: Timestamp | None = None
    done_per_second: float = 0.0
    failed_per_second: float = 0.0
    traced_until: Timestamp | None = None
    catching_up_until: Timestamp | None = None
    held_back: int = 0
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One queue in numbers at one moment of its past.

    Counts are those of QueueInfo. ``waited`` is the longest wait in seconds among due items and the ten
    highest priorities; None where no item waited. ``done`` and ``failed`` count the settlements of all
    handles that ever existed, as reported with each heartbeat and at the end. The rates are those since the
    sample before, None where it is not known.

    ``waiting_p50`` and ``waiting_p99`` are the median and 99th percentile of the seconds from pending to
    claimed, of items that were claimed since the sample before; ``working_p50`` and ``working_p99`` of the
    seconds from claimed to settled, without releases. All are exact to a factor of two, 4.7 hours at most,
    and reported as the totals are; None where nothing was claimed or settled.
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

    An item that is held and also pending is processing: ``dirty`` if it was added again, with a ``due`` if
    it runs again later. A dead one has a ``due`` if an open handle revives it by then
    (``revive_dead_after``). ``since`` is when it entered its state (of a delayed one when it last failed).
    ``claim_deadline`` is when its worker's claim lapses unless a heartbeat moves it. ``traceback`` is the
    last one, of at most 4 KiB. ``reason`` is why a dead item is dead; for ``parked``, which is by hand,
    ``last_error`` is the operator's text. A ready one is ``held_back`` if ``fleet_concurrency_per_flow`` of
    its flow are claimed. ``crashes`` counts the workers that died while they held it, since its last success.
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
    held_back: bool = False
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class RepairStep:
    """The result of one bounded step of a repair of many items.

    ``chosen`` items were in the state and matched, and of these ``changed`` were changed: the others had left
    the state before the script looked, or cannot be repaired so. ``cursor`` is where the next step begins,
    None when all were looked at.
    """

    chosen: int
    changed: int
    cursor: int | None


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """Some items of a queue together: those whose keys have the same text before their first slash.

    ``flow`` is that text, as a namespace, None of keys without a slash. ``oldest_ready`` is since when the
    item waits that waits longest. ``held_back`` counts those of the ready items that wait for the end of a
    claim of the flow. Of a queue with more items than a look takes, ``ready``, ``held_back`` and
    ``processing`` are an estimate, and ``oldest_ready`` is of the items that were looked at: then it is a
    ``sample``.

    ``waiting_p50`` and ``waiting_p99`` are the median and 99th percentile of the seconds from pending to
    claimed, of ``claimed`` items in the last five minutes, as open handles report them; None where nothing
    was claimed. They are exact to a factor of two.
    """

    queue: str
    flow: str | None
    ready: int
    processing: int
    oldest_ready: Timestamp | None
    claimed: int
    waiting_p50: float | None
    waiting_p99: float | None
    sample: bool
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class QueueFlows:
    """The flows of a queue with most items waiting, then those that waited longest, most ready first.

    The look took ``looked_at`` of ``ready`` items, and found ``left_out`` more flows.
    """

    queue: str
    flows: Sequence[FlowInfo]
    left_out: int
    ready: int
    looked_at: int

    @property
    def is_sample(self) -> bool:
        """Return whether the numbers are estimates."""
        return self.looked_at < self.ready


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One open handle of a queue in one process; ``done`` and ``failed`` count since it was opened.

    ``done_per_second`` and ``failed_per_second`` are their recent rates; a worker of 0.1.0 includes its
    failures in the first. ``resource`` is the one that its Controller reconciles, None if it declares none.
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

    ``leader`` is the leader that committed last, ``leader_since`` when its term began, ``gone_since`` since
    when it is gone: None while it leads. Both are None where a distq 0.1.0 led. ``version`` is the
    checkpoint, None during a full list; ``lists`` counts the full lists that this leader made; ``lag`` is
    the age in seconds of its oldest event that is not yet committed; ``behind`` is the version that it has
    to reach before workers go on, None where they do not wait for it; ``cached`` counts the objects in
    Redis, None where the watch is not cached.

    ``last_error`` is the last error of this leader, of at most 1000 letters, None without one;
    ``failing_since`` is since when it keeps failing, None if it works again, or is gone. An error of Redis
    appears here after Redis answers again.
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


def leaderless_since(streams: Sequence[StreamInfo]) -> Timestamp | None:
    """Return since when the streams of a queue have no leader; None where they have one, or may have."""
    gone = [stream.gone_since for stream in streams if stream.gone_since is not None]
    return max(gone) if gone and len(gone) == len(streams) else None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What a person did to a queue.

    ``person`` is the user of a dashboard, None without a login; or by the command line the user of the
    machine ``address``, a name that nothing checked. ``text`` is the action in words, ``outcome`` its end:
    None while it is done, and where its process ended meanwhile or Redis did not take the outcome.
    """

    at: Timestamp
    person: str | None
    address: str | None
    via: AuditSource
    queue: str
    action: str
    text: str
    outcome: str | None


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An event of an item, or with ``key`` None of the queue, while it was traced.

    ``event`` is a sentence, ``kind`` a word. ``worker`` is the handle that did it; None for adds, actions of
    people, and timers. ``fence`` is the claim's. ``since`` is when the claim began that the event ends;
    None for other events.
    """

    at: Timestamp
    key: str | None
    kind: Happening
    event: str
    worker: str | None
    fence: int | None
    since: Timestamp | None
