"""The metrics, under client-go's and controller-runtime's names, and the protocol of their providers.

The lowest layer. Queue, controllers and leader report in batches, a turn at a time, and only to a provider:
``distq.prometheus`` or ``distq.opentelemetry``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import mul
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric: its name in Prometheus, its meaning, the names of its labels, a histogram's bounds."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ("name",)
    buckets: tuple[float, ...] = ()


Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

Sample = tuple[Metric, Labels, float]
"""The value of a gauge."""


@runtime_checkable
class MetricsProvider(Protocol):
    """Keeps measured values; any thread may call it; must not raise (client-go
    ``workqueue.MetricsProvider``).

    client-go asks for an object for each metric of each queue; here each call names its metric.
    """

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        """Raise a counter; an amount of 0 makes it known."""

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Add values, seconds, to a histogram; no values make it known."""

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Call ``read`` for gauges at each look at the metrics, until the returned function is called."""


def _counter(name: str, meaning: str, labels: Labels = ("name",)) -> Metric:
    return Metric(name, "counter", meaning, labels)


def _gauge(name: str, meaning: str, labels: Labels = ("name",)) -> Metric:
    return Metric(name, "gauge", meaning, labels)


def _histogram(name: str, meaning: str, labels: Labels, buckets: tuple[float, ...]) -> Metric:
    return Metric(name, "histogram", meaning, labels, buckets)


# multiplied as Go does, so that both write a bound with the same digits
_DURATIONS = tuple(accumulate(repeat(10.0, 11), mul, initial=10e-9))
_RECONCILES = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
_QUEUE = ("name", "controller")
_CONTROLLER = ("controller",)
_STREAM = ("name", "resource")
_FLOW = ("name", "flow")

# client-go util/workqueue, with controller-runtime's labels and buckets

DEPTH = _gauge(
    "workqueue_depth",
    "Items of the workqueue that wait now, also those added again while they are processed, by priority.",
    (*_QUEUE, "priority"),
)
ADDS = _counter("workqueue_adds_total", "Items that became pending in the workqueue.", _QUEUE)
QUEUE_DURATION = _histogram(
    "workqueue_queue_duration_seconds",
    "How long in seconds an item was pending in the workqueue before it was claimed.",
    _QUEUE,
    _DURATIONS,
)
WORK_DURATION = _histogram(
    "workqueue_work_duration_seconds",
    "How long in seconds an item of the workqueue was held until it was settled.",
    _QUEUE,
    _DURATIONS,
)
UNFINISHED_WORK = _gauge(
    "workqueue_unfinished_work_seconds",
    "For how many seconds all items that are held now have been held, in sum. "
    "Large values mean stuck handlers; how fast it grows says how many.",
    _QUEUE,
)
LONGEST_RUNNING = _gauge(
    "workqueue_longest_running_processor_seconds",
    "For how many seconds that item has been held that is held for the longest time.",
    _QUEUE,
)
RETRIES = _counter(
    "workqueue_retries_total",
    "Items added to the workqueue with a delay: by back-off, requeue_after, RetryAfter or add_after.",
    _QUEUE,
)

# controller-runtime

RECONCILES = _counter(
    "controller_runtime_reconcile_total",
    "Reconciles by controller and result: success, error or requeue_after.",
    ("controller", "result"),
)
RECONCILE_ERRORS = _counter(
    "controller_runtime_reconcile_errors_total", "Reconciles of the controller that failed.", _CONTROLLER
)
TERMINAL_ERRORS = _counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Reconciles of the controller that failed with a TerminalError.",
    _CONTROLLER,
)
TIMEOUTS = _counter(
    "controller_runtime_reconcile_timeouts_total",
    "Reconciles of the controller that ran into its reconciliation_timeout.",
    _CONTROLLER,
)
RECONCILE_TIME = _histogram(
    "controller_runtime_reconcile_time_seconds",
    "How long in seconds a reconcile of the controller took.",
    _CONTROLLER,
    _RECONCILES,
)
MAX_CONCURRENT = _gauge(
    "controller_runtime_max_concurrent_reconciles",
    "How many reconciles of the controller may run at a time in this process.",
    _CONTROLLER,
)
ACTIVE_WORKERS = _gauge(
    "controller_runtime_active_workers",
    "How many reconciles of the controller run now in this process.",
    _CONTROLLER,
)

# client-go tools/leaderelection

LEADER = _gauge(
    "leader_election_master_status",
    "Whether this process holds the Lease of this name: 1, or 0 for a follower.",
)
LEADER_SLOW_PATH = _counter(
    "leader_election_slowpath_total",
    "Renewals for which the leader had to read the record first, since it was not the one that it knew.",
)

# distq's own: the queue in Redis

READY = _gauge("distq_ready", "Items that can be claimed now.")
DELAYED = _gauge("distq_delayed", "Items that come later, also those due but not yet promoted.")
PROCESSING = _gauge("distq_processing", "Items that are held by workers.")
DIRTY = _gauge("distq_dirty", "Items that were added again while they are held.")
DEAD = _gauge("distq_dead", "Items that are dead until an event or a requeue revives them.")
FAILING = _gauge("distq_failing", "Items with a failure record, the dead included.")
OLDEST_READY = _gauge(
    "distq_oldest_ready_seconds", "Age of the oldest item that can be claimed; 0 if there is none."
)
FLOW_READY = _gauge(
    "distq_flow_ready",
    "Items of a flow, which is what keys have before their first slash, that can be claimed now.",
    _FLOW,
)
FLOW_HELD_BACK = _gauge(
    "distq_flow_held_back",
    "Of the ready items of a flow those that are held back, since the flow is at its limit.",
    _FLOW,
)
FLOW_OLDEST_READY = _gauge(
    "distq_flow_oldest_ready_seconds",
    "Age of the oldest item of a flow that can be claimed; 0 if there is none.",
    _FLOW,
)
FLOW_WAITING = _gauge(
    "distq_flow_waiting_seconds",
    "How long in seconds items of a flow waited that were claimed in the last five minutes, by quantile.",
    (*_FLOW, "quantile"),
)
WORKERS = _gauge("distq_workers", "Open handles that take items of the queue.")
PAUSED = _gauge("distq_paused", "Whether the queue is paused: 1 or 0.")
REDIS_UP = _gauge("distq_redis_up", "Whether Redis answered about the queue just now: 1, or 0 for no answer.")

# distq's own: a worker

REFUSED = _counter(
    "distq_settlements_refused_total", "Settlements that changed nothing: the claim had ended."
)
CANCELLED = _counter("distq_claims_cancelled_total", "Claims that this process lost before it settled them.")
LIMITER_ERRORS = _counter(
    "distq_rate_limiter_errors_total",
    "Failures for which a custom rate limiter raised or gave no delay: the items backed off by default.",
)
UNREADABLE = _counter(
    "distq_unreadable_items_total",
    "Items that this process set aside, dead: their key or failure record cannot be read.",
)
REVIVED = _counter(
    "distq_revived_items_total",
    "Dead items that this process found dead for revive_dead_after, and gave another attempt.",
)
OUTAGES = _counter("distq_redis_outages_total", "Times that a worker had to wait for Redis to answer again.")

# distq's own: events about objects

EVENTS_DROPPED = _counter(
    "distq_events_dropped_total",
    "Events about objects that were not sent: invalid, full (too many waited), filtered (too many about one "
    "object), refused or unanswered by the API server.",
    ("reason",),
)

# distq's own: a process

LOG_LINES_DROPPED = _counter(
    "distq_log_lines_dropped_total",
    "Log lines of this process that were dropped: stderr was full or closed, or not read fast enough.",
    (),
)

# distq's own: the leader

STREAM_LAG = _gauge(
    "distq_stream_lag_seconds", "Age of the leader's oldest event that is not yet in Redis.", _STREAM
)
STREAM_SYNCED = _gauge(
    "distq_stream_synced",
    "Whether the leader has handed over all objects that it watches: 1, or 0 before that.",
    _STREAM,
)
STREAM_COMMITS = _counter(
    "distq_stream_commits_total", "Commits of the leader; one a second at least while it follows.", _STREAM
)
STREAM_FAILURES = _counter(
    "distq_stream_failures_total",
    "Times that a function of a watch failed on an object, or that one was left out for its name.",
    _STREAM,
)

# distq's own: cached reads

CACHED_OBJECTS = _gauge("distq_cached_objects", "Objects that Redis holds for cached reads.", _STREAM)
CACHE_OVERSIZED = _counter(
    "distq_cache_oversized_reads_total",
    "Objects that a lister read from the API server, since they are too large for Redis, say.",
    _STREAM,
)
CACHE_UNWRITTEN = _counter(
    "distq_cache_unwritten_total",
    "Writes by a Client that cached reads do not show before the watch brings them, since Redis failed, say.",
    _STREAM,
)

METRICS = tuple(value for value in globals().copy().values() if isinstance(value, Metric))
"""All of them, in this order."""
