"""A reconcile function, the queue that feeds it, and the watches that feed the queue.

A Controller only describes: a Manager runs the informer side in the process that leads, and the worker side
in each worker.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from distq.controller.functions import require_reconcile
from distq.errors import ConfigError
from distq.mistakes import calling_line, pointing_to, suggesting_keywords
from distq.seconds import Duration, in_seconds
from distq.workqueue.handle import QueueHandle
from distq.workqueue.interface import Result
from distq.workqueue.options import QueueKeywords
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import Purpose
from distq.workqueue.rate_limiters import is_number, is_whole
from distq.workqueue.request import Request

if TYPE_CHECKING:
    from distq.controller.cached.caches import Caches
    from distq.controller.watches import Watch
    from distq.informer.lister import Lister
    from distq.workqueue.memory.queue import MemoryQueue

Reconcile = Callable[[Request], Result | None] | Callable[[Request], Awaitable[Result | None]]


_ELSEWHERE = {
    name: f'It is an option of the queue: Controller(Queue("foos", {name}=...), ...).'
    for name in QueueKeywords.__annotations__
} | {
    "max_concurrent_reconciles": 'Did you mean "concurrency"?',
    "MaxConcurrentReconciles": 'Did you mean "concurrency"?',
    "client": "It is an argument of the Manager: Manager([controller], client=...).",
}


@suggesting_keywords(remedies=_ELSEWHERE)
class Controller:
    """One reconcile function and its queue (controller-runtime ``controller.Controller``).

    Raises ConfigError for an argument that cannot work; the message begins with the line of this call.

    :param str | Queue | MemoryQueue queue: The name of the queue in Redis, or a Queue or MemoryQueue.
    :param Reconcile reconcile: A function, method or callable object that takes a Request and returns a
        Result or None; plain (run by a thread pool) or ``async def`` (run by one event loop).
    :param Sequence[Watch] watches: For, Owns, Watches and Every, which feed the queue; one For at most.
        Default: (), the program adds keys itself.
    :param int concurrency: Reconciles at a time in one process. Default: 8.
    :param int | None fleet_concurrency: Reconciles at a time in all processes together; give all processes
        the same. Default: None, no limit.
    :param int | None fleet_concurrency_per_flow: Reconciles of one namespace at a time in all processes
        together, with ``fair_by``; give all processes the same. Default: None, no limit.
    :param str | None fair_by: Let the namespaces of a priority take turns, with "namespace"; see ``Queue``,
        which takes it where one is given. Default: None, as the queue is.
    :param Duration | None reconciliation_timeout: Seconds after which a reconcile fails with TimeoutError; a
        plain function fails when it returns. Default: None, no limit.
    :param Duration | None max_hold: Seconds after which the claim of a plain reconcile ends though the
        function has not returned, so that the item may run elsewhere; the reconcile keeps its slot. More than
        ``reconciliation_timeout``. Default: None, no limit.
    :param Duration cache_sync_timeout: Seconds within which the watches must list their objects.
        Default: 120.
    :param Duration resync_period: Seconds after which the watches hand over every object again; 0 is never.
        Default: 36000, ten hours.
    :param str revision: The revision of the reconcile logic; another one hands over every object once.
        Default: ``""``.
    :param bool shared: Let other programs work on the queue, for another resource or cluster; their keys come
        here, too. Default: False.
    :param bool failure_events: Record a Warning event about the object, of the resource of ``For``, for each
        failed reconcile. Default: False.
    """

    def __init__(
        self,
        queue: "str | Queue | MemoryQueue",
        reconcile: Reconcile,
        *,
        watches: "Sequence[Watch]" = (),
        concurrency: int = 8,
        fleet_concurrency: int | None = None,
        fleet_concurrency_per_flow: int | None = None,
        fair_by: str | None = None,
        reconciliation_timeout: Duration | None = None,
        max_hold: Duration | None = None,
        cache_sync_timeout: Duration = 120.0,
        resync_period: Duration = 36000.0,
        revision: str = "",
        shared: bool = False,
        failure_events: bool = False,
    ) -> None:
        self.defined_at = calling_line(__name__)
        self.reconcile = reconcile
        self.caches: Caches | None = None
        self.concurrency = concurrency
        self.fleet_concurrency = fleet_concurrency
        self.fleet_concurrency_per_flow = fleet_concurrency_per_flow
        self.reconciliation_timeout = in_seconds(reconciliation_timeout)
        self.max_hold = in_seconds(max_hold)
        self.cache_sync_timeout = in_seconds(cache_sync_timeout)
        self.resync_period = in_seconds(resync_period)
        self.revision = revision
        self.shared = shared
        self.failure_events = failure_events
        with pointing_to(self.defined_at):
            self.queue = _queue(queue, fair_by)
            self.name = self.queue.name
            self.watches = _watches(self.name, watches)
            require_reconcile(reconcile)
            self._require_arguments()
            if self.watches:
                from distq.controller.cached import caches  # needs the extra kubernetes

                self.caches = caches.Caches(
                    self.watches, self.queue, timeout=self.cache_sync_timeout, shared=shared
                )

    def lister(self, resource: str) -> "Lister":
        """Return a view of the objects of a resource, ``"v1/Pod"``, that a watch with ``cached=True`` keeps.

        It waits for the first list, ``cache_sync_timeout`` seconds at most. Raises ConfigError for a resource
        that no watch caches.
        """
        with pointing_to(self.defined_at):
            if self.caches is None:
                raise ConfigError(f"no lister of {resource}: {self.name} watches nothing. Give it watches.")
            return self.caches.lister(resource)

    def __repr__(self) -> str:
        return f"Controller({self.name!r}, {getattr(self.reconcile, '__qualname__', self.reconcile)!r})"

    def _require_arguments(self) -> None:
        for name, switch in {"shared": self.shared, "failure_events": self.failure_events}.items():
            _require(name, switch, isinstance(switch, bool), "Give True or False.")
        if self.failure_events and reconciled_resource(self) is None:
            raise ConfigError(
                f"bad failure_events of {self.name}: no For says what its keys are. Add one, or leave it out."
            )
        for name, number in {
            "concurrency": self.concurrency,
            "fleet_concurrency": self.fleet_concurrency,
            "fleet_concurrency_per_flow": self.fleet_concurrency_per_flow,
        }.items():
            is_good = number is None or (is_whole(number) and number >= 1)
            _require(name, number, is_good, "Give a whole number, 1 or more.")
        # here, because it raises if the queue is not fair
        self.queue.fleet_concurrency_per_flow = self.fleet_concurrency_per_flow
        timeout, hold = self.reconciliation_timeout, self.max_hold
        is_good = timeout is None or (is_number(timeout) and timeout > 0)
        _require("reconciliation_timeout", timeout, is_good, "Give seconds or None.")
        is_good = hold is None or (is_number(hold) and hold > (timeout or 0))
        _require("max_hold", hold, is_good, "Give more than the reconciliation_timeout, or None.")
        wait, period = self.cache_sync_timeout, self.resync_period
        _require("cache_sync_timeout", wait, is_number(wait) and wait > 0, "Give more than 0 seconds.")
        _require("resync_period", period, is_number(period) and period >= 0, "Give seconds, or 0 for never.")


def reconciled_resource(controller: Controller) -> str | None:
    """Return the resource whose names its keys are, as its For says; None without one."""
    if not controller.watches:
        return None
    from distq.controller.watches import For  # needs the extra kubernetes

    return next((watch.resource for watch in controller.watches if isinstance(watch, For)), None)


def purpose_of(controller: Controller, lease: str) -> Purpose | None:
    """Return its purpose, as far as the code says; None without a For, or if the queue is shared."""
    resource = reconciled_resource(controller)
    if controller.shared or resource is None:
        return None
    from distq.controller.watches import title  # needs the extra kubernetes

    return Purpose(resource, lease=lease, watches=tuple(map(title, controller.watches)))


def _require(name: str, value: object, is_good: bool, remedy: str) -> None:
    if not is_good:
        raise ConfigError(f"bad {name}: {value!r:.80}. {remedy}")


def _queue(queue: object, fair_by: str | None) -> QueueHandle:
    if isinstance(queue, str):
        return Queue(queue, fair_by=fair_by)
    if isinstance(queue, QueueHandle):
        if fair_by is not None:
            raise ConfigError(f"bad fair_by {fair_by!r:.80}: the queue is a Queue. Give fair_by to that.")
        return queue
    raise ConfigError(f"bad queue: {type(queue).__name__} is none. Give its name or a Queue.")


def _watches(name: str, watches: object) -> "tuple[Watch, ...]":
    if not isinstance(watches, Iterable) or isinstance(watches, str):
        kind = type(watches).__name__
        raise ConfigError(f"bad watches of {name}: {kind} is no list. Give a list of For, Owns and others.")
    if not (watches := tuple(watches)):
        return ()
    from distq.controller.watches import Every, For, Owns, Watches  # needs the extra kubernetes

    for watch in watches:
        if not isinstance(watch, For | Owns | Watches | Every):
            kind = type(watch).__name__
            raise ConfigError(f"bad watches of {name}: {kind} is none. Use For, Owns, Watches or Every.")
    fors = sum(isinstance(watch, For) for watch in watches)
    if fors > 1:
        raise ConfigError(f"bad watches of {name}: {fors} times For. Give one, and Watches for others.")
    if not fors and any(isinstance(watch, Owns) for watch in watches):
        raise ConfigError(f"bad watches of {name}: Owns without For. Add a For with the owner's resource.")
    return watches
