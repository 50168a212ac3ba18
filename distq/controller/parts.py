"""The parts that a Manager runs: they share one connection, one client, and the providers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distq.config import Settings, lease_name
from distq.controller.controller import Controller, purpose_of, reconciled_resource
from distq.controller.recorded_events import FailureEvents
from distq.controller.runnables import Runnables
from distq.controller.worker.dispatcher import Dispatcher
from distq.controller.worker.event_loop import EventLoop
from distq.errors import ConfigError
from distq.forks import cached_property
from distq.mistakes import pointed
from distq.redisio.connection import Connection
from distq.safe_providers import SafeMetrics, SafeSpans
from distq.workqueue.interface import Settlement
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import PresentPurpose

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.controller.leading import Candidate


@dataclass(kw_only=True)
class Parts:
    """Makes the parts, and connects controllers to the shared ones."""

    settings: Settings
    connection: Connection
    given_client: "Client | None"
    metrics: SafeMetrics | None
    spans: SafeSpans | None
    event_loop: EventLoop
    on_failure: Callable[[BaseException], None]
    """Receives the error that ends the process."""
    on_settled: Callable[[str, Settlement], None]
    """Receives each settlement that is no success."""

    @cached_property
    def client(self) -> "Client":
        """Return the one client of all controllers and of the candidate, made unless the program gave one."""
        from distq.client.client import Client

        return Client() if self.given_client is None else self.given_client  # which may have a length

    def lease_name(self, controllers: Sequence[Controller]) -> str:
        """Return the name of the Lease, as the settings or the names of the controllers have it."""
        # sorted: all processes compete for one Lease, in any order of their controllers
        names = "-".join(sorted(controller.name for controller in controllers))
        return self.settings.lease_name or lease_name(names, self.connection.prefix)

    def bind(self, controllers: Sequence[Controller], *, watching: bool) -> list[Queue]:
        """Connect the queues that are in Redis, and return them."""
        in_redis = []
        for controller in controllers:
            if isinstance(controller.queue, Queue):
                in_redis.append(controller.queue)
            elif watching and controller.watches:
                error = f"cannot watch for {controller.name}: its queue is not in Redis. Use a Queue."
                raise pointed(ConfigError(error), controller.defined_at)
        if in_redis:
            self.connection.execute("PING")  # a Redis that cannot be used ends the start
        for queue_in_redis in in_redis:
            queue_in_redis.bind(self.connection)
        if self.metrics is not None:
            for controller in controllers:
                controller.queue.set_metrics_provider(self.metrics)
        return in_redis

    def set_purposes(self, controllers: Sequence[Controller], lease: str) -> None:
        """Give each handle the purpose for which it claims, so that no other program takes its keys."""
        for controller in controllers:
            purpose = purpose_of(controller, lease)
            if purpose is not None and isinstance(controller.queue, Queue):
                controller.queue.purpose = PresentPurpose(purpose, self.client.authorities)

    def read_caches(self, controllers: Sequence[Controller], until: ExitStack) -> None:
        """Let listers reach the cluster by the client, and show the writes of this process, in the block."""
        caches = [each.caches for each in controllers if each.caches is not None and any(each.caches)]
        if caches:
            from distq.controller.cached.write_through import writing_through

            until.enter_context(writing_through(caches, self.client, self.metrics))

    def dispatcher(self, controller: Controller) -> Dispatcher:
        """Return the Dispatcher of a controller in this process."""
        return Dispatcher(
            controller,
            concurrency=self.settings.concurrency,
            fleet_concurrency=self.settings.fleet_concurrency,
            fleet_concurrency_per_flow=self.settings.fleet_concurrency_per_flow,
            metrics=self.metrics,
            spans=self.spans,
            event_loop=self.event_loop,
            on_failure=self.on_failure,
            on_settled=self._settled(controller),
        )

    def candidate(
        self, controllers: Sequence[Controller], *, lease: str, runnables: Runnables
    ) -> "Candidate":
        """Return the Candidate for the Lease. Raises ConfigError if there is no cluster."""
        from distq.controller.leading import Candidate

        return Candidate(
            [each for each in controllers if isinstance(each.queue, Queue)],
            client=self.client,
            lease=(self.settings.lease_namespace or self.client.namespace, lease),
            settings=self.settings,
            metrics=self.metrics,
            spans=self.spans,
            runnables=runnables,
            on_failure=self.on_failure,
        )

    def _settled(self, controller: Controller) -> Callable[[str, Settlement], None]:
        resource = reconciled_resource(controller)
        if not controller.failure_events or resource is None:
            return self.on_settled
        events = FailureEvents(self.client, resource)

        def settled(queue: str, settlement: Settlement) -> None:
            events.settled(settlement)
            self.on_settled(queue, settlement)

        return settled


def require_controllers(controllers: Sequence[Controller]) -> None:
    """Refuse controllers that cannot run together: none at all, other objects, or two of one queue."""
    if not controllers:
        raise ConfigError("nothing to run: no Controller was given. Give one or more.")
    for each in controllers:
        if not isinstance(each, Controller):
            raise ConfigError(f"bad controllers: {each!r:.80} is no Controller. Give Controllers.")
    by_queue = defaultdict[str, list[Controller]](list)
    for each in controllers:
        by_queue[each.name].append(each)
    for name, of_queue in by_queue.items():
        if len(of_queue) > 1:
            error = f"{len(of_queue)} controllers of the queue {name}. Give each its own queue."
            raise pointed(ConfigError(error), *(each.defined_at for each in of_queue))
