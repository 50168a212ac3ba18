"""Runs controllers in this process: the side that informs, the side that works, or both.

Three things end it: a signal or ``stop``, the loss of the lease, and an error that
waiting cannot heal. Whatever it is, commits stop at once and handlers get the grace
period.
"""

import logging
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from distq.config import Settings, lease_name
from distq.controller.controller import Controller, purpose_of, reconciled_resource
from distq.controller.event_queue import EventQueue, Message
from distq.controller.hooks import Hook, Hooks
from distq.controller.process_health import ProcessHealth
from distq.controller.recorded_events import FailureEvents, counting_drops, flush_events
from distq.controller.shutdown import Shutdown
from distq.controller.worker.dispatcher import Dispatcher
from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.waiting import waits_for
from distq.errors import ConfigError, DistqError, RedisError, Stalled, Unsettled, short_tracebacks
from distq.metrics import MetricsProvider
from distq.mistakes import pointed, suggesting_keywords
from distq.redisio.connection import Connection
from distq.safe_providers import safe_metrics, safe_spans
from distq.spans import SpanProvider
from distq.wording import duration
from distq.workqueue.interface import Settlement
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import PresentPurpose

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.controller.leading import Candidate

WAITING_REPORT = 2.0
"""Seconds after which a worker that had nothing to do logs what it waits for."""

_LOOK_EVERY = 1.0
"""Seconds between looks whether all threads make progress, and in which a signal is noticed in any case."""

_LOOKS_AT_A_STALL = 5
"""Looks in a row that find a stall: after a freeze of the whole process its threads go on one by one."""

_TERM_LOOK = 0.01
_SHUTDOWN_SLEEP = 0.05
"""Seconds between looks at a shutdown."""

_logger = logging.getLogger("distq")


@short_tracebacks
@suggesting_keywords()
class Manager:
    """Runs controllers until it is stopped (controller-runtime ``manager.Manager``).

    With ``http_address`` in the settings it answers /healthz, /readyz, and /metrics if the provider can.
    Raises ConfigError.

    :param Sequence[Controller] controllers: One or more, each with its own queue.
    :param Connection | str | None redis: A Connection, or a URL; queues with a connection of their own keep
        it. Default: None, the settings' Redis.
    :param Client | None client: Reaches the cluster. Default: None, the kubeconfig's or the service
        account's.
    :param Settings | None settings: The choices of the deployment. Default: None, the environment's.
    :param MetricsProvider | None metrics: Receives the metrics of this process, and from the leader those of
        the queues; queues with a provider of their own keep it. Default: None, no metrics.
    :param SpanProvider | None spans: Receives reconciles, the requests of a Client within them, turns and
        commits. Default: None, no spans.
    :param Hook | None on_start: A plain function or ``async def`` without arguments, called before the first
        watch and claim; awaited on the event loop of reconciles. Default: None.
    :param Hook | None on_stop: The same, called after the end of all watches and reconciles, with the rest of
        the grace period as its time. Default: None.
    """

    _shutdown_type = Shutdown
    _term_begins_within = 2.0
    """Seconds that workers wait for the term of their own process to begin, where caches must be in step."""

    def __init__(
        self,
        controllers: Sequence[Controller],
        *,
        redis: Connection | str | None = None,
        client: "Client | None" = None,
        settings: Settings | None = None,
        metrics: MetricsProvider | None = None,
        spans: SpanProvider | None = None,
        on_start: Hook | None = None,
        on_stop: Hook | None = None,
    ) -> None:
        self._controllers = list(controllers)
        self._settings = settings or Settings.from_env()
        self._connection = (
            redis if isinstance(redis, Connection) else Connection(redis, settings=self._settings)
        )
        self._client = client
        self._metrics = None if metrics is None else safe_metrics(metrics)
        self._spans = None if spans is None else safe_spans(spans)
        if spans is not None and not isinstance(spans, SpanProvider):
            raise ConfigError(
                f"bad spans {spans!r:.80}. Give a SpanProvider as OpenTelemetrySpans(), or None."
            )
        self._dispatchers: list[Dispatcher] = []
        self._candidate: Candidate | None = None
        self._event_queue = EventQueue()
        self._event_loop = EventLoop()
        self._hooks = Hooks(on_start, on_stop, self._event_loop, self._event_queue)
        self._started = False
        self._require_controllers()

    def run(self, *, informer: bool = True, workers: bool = True) -> None:
        """Run until ``stop``, SIGTERM, SIGINT or SIGHUP (received in the main thread only), and then drain.

        ``informer`` competes for the lease and watches, ``workers`` reconciles. A second signal ends the
        grace period; a SIGHUP that the program ignores or handles stays its own. It returns within that
        period and two seconds, whatever does not answer; an ``on_stop`` that hangs may add half a second.
        Raises what ended it: LeaseLost, KeyboardInterrupt after SIGINT, RedisError where Redis cannot be used
        at the start, Stalled, ConfigError, ApiError, what ``on_start`` or ``on_stop`` raised; else Unsettled
        where something was left behind.
        """
        if self._started:
            raise ConfigError("this Manager was run before: make another one.")
        self._started = True
        self._prepare(informer=informer, workers=workers)
        errors: list[BaseException] = []
        with (
            self._event_queue.receiving_signals(),
            self._health.serving(self._metrics, self._settings.http_address),
            counting_drops(self._metrics),
            self._cached_reads(),
            self._hooks,
        ):
            self._health.starting = True
            reason = self._hooks.start()
            if reason is None:
                shutdown = self._shutdown_type(self._dispatchers, self._candidates())
                try:
                    reason = self._work()
                    errors += self._drain(shutdown, reason)
                finally:
                    shutdown.begin(self._settings.grace_period)  # what began already goes on
                    errors += self._hooks.stop(shutdown)
                    flush_events(shutdown.grace_left)
        _raise_first(reason, *errors)

    def stop(self) -> None:
        """End ``run`` gracefully; return at once. Safe from any thread."""
        self._event_queue.put("stop")

    def is_leader(self) -> bool:
        """Return whether this process holds the lease."""
        return self._candidate is not None and self._candidate.is_leader()

    # Before

    def _require_controllers(self) -> None:
        if not self._controllers:
            raise ConfigError("nothing to run: no Controller was given. Give one or more.")
        for each in self._controllers:
            if not isinstance(each, Controller):
                raise ConfigError(f"bad controllers: {each!r:.80} is no Controller. Give Controllers.")
        by_queue = defaultdict[str, list[Controller]](list)
        for each in self._controllers:
            by_queue[each.name].append(each)
        for name, controllers in by_queue.items():
            if len(controllers) > 1:
                error = f"{len(controllers)} controllers of the queue {name}. Give each its own queue."
                raise pointed(ConfigError(error), *(each.defined_at for each in controllers))

    def _prepare(self, *, informer: bool, workers: bool) -> None:
        """Check that everything is there, before the first thread starts."""
        watched = any(controller.watches for controller in self._controllers)
        if not workers and not (informer and watched):
            raise ConfigError("nothing to watch: no Controller has watches. Run workers, or add watches.")
        in_redis = self._bind(watching=informer and watched)
        if workers:
            self._dispatchers = [
                Dispatcher(
                    controller,
                    concurrency=self._settings.concurrency,
                    fleet_concurrency=self._settings.fleet_concurrency,
                    metrics=self._metrics,
                    spans=self._spans,
                    event_loop=self._event_loop,
                    on_failure=self._event_queue.put,
                    on_settled=self._on_settled(controller),
                )
                for controller in self._controllers
            ]
        self._say_purposes(self._lease_name() if informer and watched else "")
        if informer and watched:
            from distq.controller.leading import new_candidate

            self._candidate = new_candidate(
                self._controllers,
                client=self._reach(),
                lease=self._lease_name(),
                settings=self._settings,
                metrics=self._metrics,
                spans=self._spans,
                on_failure=self._event_queue.put,
            )
        self._health = ProcessHealth(
            connection=self._connection if in_redis else None,
            dispatchers=self._dispatchers,
            candidate=self._candidate,
            queues=in_redis if informer else [],
        )

    def _bind(self, *, watching: bool) -> list[Queue]:
        """Connect the queues that are in Redis, and return them."""
        in_redis = []
        for controller in self._controllers:
            if isinstance(controller.queue, Queue):
                in_redis.append(controller.queue)
            elif watching and controller.watches:
                error = f"cannot watch for {controller.name}: its queue is not in Redis. Use a Queue."
                raise pointed(ConfigError(error), controller.defined_at)
        if in_redis:
            self._connection.execute("PING")
        for queue_in_redis in in_redis:
            queue_in_redis.bind(self._connection)
        if self._metrics is not None:
            for controller in self._controllers:
                controller.queue.set_metrics_provider(self._metrics)
        return in_redis

    def _say_purposes(self, lease: str) -> None:
        """Give each handle what it claims for, so that no other program takes its keys."""
        for controller in self._controllers:
            purpose = purpose_of(controller, lease)
            if purpose is not None and isinstance(controller.queue, Queue):
                controller.queue.purpose = PresentPurpose(purpose, self._reach().authorities)

    def _cached_reads(self) -> AbstractContextManager[None]:
        """Let listers reach the cluster as this Manager does, and show what this process writes."""
        caches = [each.caches for each in self._controllers if each.caches is not None and any(each.caches)]
        if not caches:
            return nullcontext()
        from distq.controller.cached.write_through import writing_through

        return writing_through(caches, self._reach(), self._metrics)

    def _reach(self) -> "Client":
        """Return the one client of all controllers and of the candidate, made where none was given."""
        if self._client is None:
            from distq.client.client import Client

            self._client = Client()
        return self._client

    def _lease_name(self) -> str:
        names = "-".join(sorted(controller.name for controller in self._controllers))
        return self._settings.lease_name or lease_name(names, self._connection.prefix)

    # Meanwhile

    def _work(self) -> Message:
        """Start everything and wait for what ends it."""
        self._health.starting = False
        for candidate in self._candidates():
            candidate.start()
        reason = self._wait_for_a_term() if self._dispatchers else None
        for dispatcher in self._dispatchers:
            dispatcher.start()
        report = threading.Timer(WAITING_REPORT, self._report_waiting)
        report.daemon = True
        if self._dispatchers:
            report.start()
        looks = 0
        while reason is None and (reason := self._event_queue.next_within(_LOOK_EVERY)) is None:
            stall = self._health.stall()
            looks = looks + 1 if stall else 0
            if looks == _LOOKS_AT_A_STALL:
                reason = Stalled(
                    f"{stall}. A log handler, a metrics or span provider, or a function of a watch holds it."
                )
                break
        report.cancel()
        return reason

    def _wait_for_a_term(self) -> Message | None:
        """Let workers begin after the term of this process, should it lead: caches are behind until then."""
        until = time.monotonic() + self._term_begins_within
        reason = None
        while reason is None and time.monotonic() < until and self._keeps_workers_waiting():
            reason = self._event_queue.next_within(_TERM_LOOK)
        return reason

    def _keeps_workers_waiting(self) -> bool:
        return any(candidate.keeps_workers_waiting() for candidate in self._candidates())

    def _report_waiting(self) -> None:
        """Log what those wait for that had nothing to do yet: silence would look like trouble."""
        for dispatcher, controller in zip(self._dispatchers, self._controllers, strict=True):
            if dispatcher.has_claimed or not isinstance(controller.queue, Queue):
                continue
            with suppress(RedisError):  # which the dispatcher reports
                why = waits_for(controller.queue, watched=bool(controller.watches))
                _logger.info("%s: connected; %s", controller.name, why)

    def _on_settled(self, controller: Controller) -> Callable[[str, Settlement], None]:
        """Return what takes note of reconciles that did not succeed."""
        resource = reconciled_resource(controller)
        if not controller.failure_events or resource is None:
            return self._settled
        events = FailureEvents(self._reach(), resource)

        def settled(queue: str, settlement: Settlement) -> None:
            events.settled(settlement)
            self._settled(queue, settlement)

        return settled

    def _settled(self, queue: str, settlement: Settlement) -> None:
        """Take note, in a test, of a reconcile that did not succeed."""

    # After

    def _drain(self, shutdown: Shutdown, reason: Message) -> list[BaseException]:
        """Stop everything and wait for it; return what failed meanwhile, or was left behind in the end."""
        errors = list[BaseException]()
        self._health.stopping = True
        why = reason.name if isinstance(reason, signal.Signals) else "stopping"
        _logger.info("%s: no new work; %d in progress", why, shutdown.in_progress)
        shutdown.begin(self._settings.grace_period)
        while not shutdown.is_over():
            message = self._event_queue.next_within(_SHUTDOWN_SLEEP)
            if isinstance(message, signal.Signals):
                if shutdown.hurry():
                    _logger.warning("%s again: not waiting any longer", message.name)
            elif isinstance(message, BaseException):
                errors.append(message)
        if left := shutdown.left_behind():
            errors.append(Unsettled(f"stopped before all was settled: {left}."))
            _logger.warning("stopped before all was settled: %s", left)
        _logger.info("done in %s", duration(shutdown.took))
        return errors

    def _candidates(self) -> "list[Candidate]":
        return [self._candidate] if self._candidate else []


def _raise_first(*reasons: Message | None) -> None:
    """Raise the first error among the reasons why a run ended, and log the others.

    One of the same words is no other: both sides of one process meet the program that has their queue.
    """
    errors = [KeyboardInterrupt() if reason is signal.SIGINT else reason for reason in reasons]
    found = [error for error in errors if isinstance(error, BaseException)]
    others = {repr(error): error for error in found[1:] if repr(error) != repr(found[0])}
    for error in others.values():
        trace = None if isinstance(error, DistqError) else error  # ours say all in one line
        _logger.error("the end had another cause, too: %s", error, exc_info=trace)
    if found:
        raise found[0]
