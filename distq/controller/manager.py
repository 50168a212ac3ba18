"""Runs controllers in this process: the side that informs, the side that works, or both.

Three things end it: a signal or ``stop``, the loss of the lease, and an error that waiting does not fix. In
each case commits stop at once and handlers get the grace period.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.event_queue import EventQueue, Message
from distq.controller.functions import name_of, require_runnable
from distq.controller.hooks import Hook, Hooks
from distq.controller.parts import Parts, require_controllers
from distq.controller.process_health import Check, Checks, ProcessHealth, waits_for
from distq.controller.recorded_events import counting_drops, flush_events
from distq.controller.runnables import Runnable, Runnables
from distq.controller.shutdown import Shutdown
from distq.controller.worker.dispatcher import Dispatcher
from distq.controller.worker.event_loop import EventLoop
from distq.errors import ConfigError, DistqError, RedisError, Stalled, Unsettled, short_tracebacks
from distq.instruments import DEFAULT_BUCKETS, Counter, Gauge, Histogram, Instruments
from distq.metrics import MetricsProvider
from distq.mistakes import suggesting_keywords
from distq.redisio.connection import Connection
from distq.safe_providers import safe_metrics, safe_spans
from distq.spans import SpanProvider
from distq.wording import duration
from distq.workqueue.interface import Settlement
from distq.workqueue.queue import Queue

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.controller.leading import Candidate

WAITING_REPORT = 2.0
"""Seconds after which a worker that had nothing to do logs why."""

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
        if isinstance(client, str | os.PathLike):
            raise ConfigError(f"bad client {client!r:.80}. Give a Client: Client({client!r:.80}).")
        if spans is not None and not isinstance(spans, SpanProvider):
            raise ConfigError(
                f"bad spans {spans!r:.80}. Give a SpanProvider as OpenTelemetrySpans(), or None."
            )
        self._has_settings, self._has_redis = settings is not None, redis is not None
        settings = settings or Settings.from_env()
        self._event_queue = EventQueue()
        event_loop = EventLoop()
        self._parts = Parts(
            settings=settings,
            connection=redis if isinstance(redis, Connection) else Connection(redis, settings=settings),
            given_client=client,
            metrics=None if metrics is None else safe_metrics(metrics),
            spans=None if spans is None else safe_spans(spans),
            event_loop=event_loop,
            on_failure=self._event_queue.put,
            on_settled=self._settled,
        )
        self._controllers = list(controllers)
        self._runnables, self._leader_runnables = Runnables(event_loop), Runnables(event_loop)
        self._healthz, self._readyz, self._instruments = Checks(), Checks(), Instruments()
        self._hooks = Hooks(on_start, on_stop, event_loop, self._event_queue)
        self._dispatchers: list[Dispatcher] = []
        self._candidate: Candidate | None = None
        self._caches = ExitStack()
        self._health: ProcessHealth | None = None
        self._adding = threading.Lock()
        """Held while parts are added, which may have to wait for Redis."""
        self._phase = threading.Lock()
        """Held while the parts of the Manager change, or it begins or stops: never for long."""
        self._informs = False
        """It runs the informer's side of its controllers, as ``run`` was asked to."""
        self._lease = ""
        self._started = self._is_working = False
        require_controllers(self._controllers)

    def add(self, runnable: Controller | Runnable, *, need_leader_election: bool = True) -> None:
        """Run this, too: another Controller, or a function that runs beside the controllers.

        A function is called in a thread of its own, in the leading informer alone, from the begin of its
        term to the end; in each process with ``need_leader_election=False``. A plain function receives a
        ``threading.Event`` and returns soon after that is set; an ``async def`` without arguments is
        cancelled. What it raises is logged, and it is called again after 1 s, twice that after each further
        error, 300 s at most; one that returns is not. In a running Manager it begins at once. Raises
        ConfigError, RedisError. Source: controller-runtime Manager.Add, LeaderElectionRunnable.
        """
        if not isinstance(runnable, Controller):
            require_runnable(runnable)
        elif not need_leader_election:
            raise ConfigError(f"bad need_leader_election of {runnable.name}: leave it out for a Controller.")
        with self._adding:
            if isinstance(runnable, Controller):
                self._add_controller(runnable)
                return
            if need_leader_election:
                self._require_candidate(name_of(runnable))
            with self._changing():
                (self._leader_runnables if need_leader_election else self._runnables).add(runnable)

    def add_healthz_check(self, name: str, check: Check) -> None:
        """Let /healthz fail, too, while this plain function raises, returns False, or hangs for 0.8 s.

        Raises ConfigError. Source: controller-runtime Manager.AddHealthzCheck.
        """
        self._healthz.add(name, check)

    def add_readyz_check(self, name: str, check: Check) -> None:
        """Let /readyz fail, too, while this plain function raises, returns False, or hangs for 0.8 s.

        Raises ConfigError. Source: controller-runtime Manager.AddReadyzCheck.
        """
        self._readyz.add(name, check)

    def counter(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Counter:
        """Return a counter of the program's own, on this Manager's provider: ``counter.inc()``.

        The name ends with ``_total``. ``inc`` takes a value for each label: ``inc(namespace="prod")``. The
        same name gives the same counter. Raises ConfigError for a name that has another meaning.
        """
        return self._instruments.counter(name, meaning, labels)

    def gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Gauge:
        """Return a gauge of the program's own: ``gauge.set(3)``; see ``counter``."""
        return self._instruments.gauge(name, meaning, labels)

    def histogram(
        self, name: str, meaning: str, labels: Sequence[str] = (), buckets: Sequence[float] = DEFAULT_BUCKETS
    ) -> Histogram:
        """Return a histogram of the program's own, with these bounds: ``histogram.observe(0.2)``."""
        return self._instruments.histogram(name, meaning, labels, buckets)

    @property
    def controllers(self) -> Sequence[Controller]:
        """The controllers that it runs, in the order in which they were given and added."""
        return tuple(self._controllers)

    @property
    def needs_lease(self) -> bool:
        """Return whether its informers compete for a Lease: for watches, or for runnables of the leader."""
        watched = any(controller.watches for controller in self._controllers)
        return watched or len(self._leader_runnables) > 0

    def use_defaults(
        self,
        settings: Settings,
        *,
        metrics: MetricsProvider | None = None,
        spans: SpanProvider | None = None,
    ) -> None:
        """Use these if the program gave none, as the commands do with their arguments.

        Raises ConfigError once it was run, and if the program gave other settings.
        """
        if self._started:
            raise ConfigError("this Manager was run before: make another one.")
        parts = self._parts
        if not self._has_settings:
            parts.settings = settings
            if not self._has_redis:
                parts.connection = Connection(settings=settings)
        elif parts.settings != settings:
            raise ConfigError(
                "this Manager has settings of its own. Leave them out, or run the program itself."
            )
        if parts.metrics is None and metrics is not None:
            parts.metrics = safe_metrics(metrics)
        if parts.spans is None and spans is not None:
            parts.spans = safe_spans(spans)

    def run(self, *, informer: bool = True, workers: bool = True) -> None:
        """Run until ``stop``, SIGTERM, SIGINT or SIGHUP (received in the main thread only), and then drain.

        ``informer`` competes for the lease and watches, ``workers`` reconciles. A second signal ends the
        grace period; a SIGHUP that the program ignores or handles stays its own. It returns within that
        period and two seconds, even if servers do not answer; an ``on_stop`` that hangs may add half a
        second. Raises the error that ended it: LeaseLost, KeyboardInterrupt after SIGINT, RedisError if
        Redis cannot be used at the start, Stalled, ConfigError, ApiError, the error of ``on_start`` or
        ``on_stop``; else Unsettled if something was left behind.
        """
        if self._started:
            raise ConfigError("this Manager was run before: make another one.")
        self._started = True
        with self._adding:
            self._health = health = self._prepare(informer=informer, workers=workers)
        errors: list[BaseException] = []
        settings = self._parts.settings
        self._caches.callback(self._refuse_adds, health)  # however the run ends
        with (
            self._caches,
            self._event_queue.receiving_signals(),
            health.serving(self._parts.metrics, settings.http_address),
            counting_drops(self._parts.metrics),
            self._hooks,
        ):
            health.starting = True
            reason = self._hooks.start()
            if reason is None:
                runnables = [self._runnables, self._leader_runnables]
                candidates = [self._candidate] if self._candidate else []
                shutdown = self._shutdown_type(self._dispatchers, candidates, runnables)
                try:
                    reason = self._work(health)
                    errors += self._drain(health, shutdown, reason)
                finally:
                    shutdown.begin(settings.grace_period)  # after an error; else it has begun
                    errors += self._hooks.stop(shutdown)
                    flush_events(shutdown.grace_left, shutdown.closing_took)
        _raise_first(reason, *errors)

    def stop(self) -> None:
        """End ``run`` gracefully; return at once. Safe from any thread."""
        self._event_queue.put("stop")

    def is_leader(self) -> bool:
        """Return whether this process holds the lease."""
        return self._candidate is not None and self._candidate.is_leader()

    # Before

    def _prepare(self, *, informer: bool, workers: bool) -> ProcessHealth:
        competes = informer and self.needs_lease
        if not (workers or competes):
            raise ConfigError("nothing to watch: no Controller has watches. Run workers, or add watches.")
        parts, controllers = self._parts, self._controllers
        if parts.metrics is not None:
            self._instruments.report_to(parts.metrics)
        in_redis = parts.bind(controllers, watching=informer)
        if workers:
            self._dispatchers = [parts.dispatcher(controller) for controller in controllers]
        self._lease = parts.lease_name(controllers) if competes else ""
        parts.set_purposes(controllers, self._lease)
        if competes:
            self._candidate = parts.candidate(
                controllers, lease=self._lease, runnables=self._leader_runnables
            )
        parts.read_caches(controllers, self._caches)
        self._informs = informer
        return ProcessHealth(
            connection=parts.connection if in_redis else None,
            dispatchers=self._dispatchers,
            candidate=self._candidate,
            queues=in_redis if informer else [],
            healthz=self._healthz,
            readyz=self._readyz,
            instruments=self._instruments,
        )

    def _add_controller(self, controller: Controller) -> None:
        require_controllers([*self._controllers, controller])
        parts, health = self._parts, self._health
        if health is None:
            self._controllers.append(controller)
            return
        if controller.watches:
            self._require_candidate(controller.name)
        in_redis = parts.bind([controller], watching=self._informs)
        dispatcher = parts.dispatcher(controller) if self._dispatchers else None
        parts.set_purposes([controller], self._lease)
        with self._changing():
            parts.read_caches([controller], self._caches)
            self._controllers.append(controller)
            if self._informs:
                health.report(in_redis)
            if self._candidate is not None and in_redis:
                self._candidate.add(controller)
            if dispatcher is not None:
                self._dispatchers.append(dispatcher)
                if self._is_working:
                    dispatcher.start()

    def _require_candidate(self, name: str) -> None:
        """Refuse parts that need the lease in a running informer that competes for none."""
        if self._informs and self._candidate is None:
            raise ConfigError(
                f"cannot add {name}: this Manager competes for no Lease, because it had nothing to watch. "
                "Add it before run."
            )

    def _refuse_adds(self, health: ProcessHealth) -> None:
        """Let nothing be added any more: nothing would begin it."""
        with self._phase:
            health.stopping = True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep the Manager from its next phase within the block; raise ConfigError if it stops."""
        with self._phase:
            if self._health is not None and self._health.stopping:
                raise ConfigError("this Manager is stopping: nothing can be added.")
            yield

    # Meanwhile

    def _work(self, health: ProcessHealth) -> Message:
        health.starting = False
        if self._candidate is not None:
            self._candidate.start()
        reason = self._wait_for_a_term() if self._dispatchers else None
        with self._phase:
            self._runnables.begin()
            for dispatcher in self._dispatchers:
                dispatcher.start()
            self._is_working = True
        report = threading.Timer(WAITING_REPORT, self._report_waiting)
        report.daemon = True
        if self._dispatchers:
            report.start()
        looks = 0
        while reason is None and (reason := self._event_queue.next_within(_LOOK_EVERY)) is None:
            stall = health.stall()
            looks = looks + 1 if stall else 0
            if looks == _LOOKS_AT_A_STALL:
                reason = Stalled(
                    f"{stall}. A log handler, a metrics or span provider, or a function of a watch holds it."
                )
                break
        report.cancel()
        return reason

    def _wait_for_a_term(self) -> Message | None:
        """Let workers begin after this process's term, should it lead: caches are behind until then."""
        candidate, until = self._candidate, time.monotonic() + self._term_begins_within
        while candidate and candidate.keeps_workers_waiting() and time.monotonic() < until:
            if (reason := self._event_queue.next_within(_TERM_LOOK)) is not None:
                return reason
        return None

    def _report_waiting(self) -> None:
        """Log why workers had nothing to do yet: silence would look like trouble."""
        # not strict: add() may have added only one of both so far
        for dispatcher, controller in zip(self._dispatchers, self._controllers, strict=False):
            if dispatcher.has_claimed or not isinstance(controller.queue, Queue):
                continue
            with suppress(RedisError):  # which the dispatcher reports
                why = waits_for(controller.queue, watched=bool(controller.watches))
                _logger.info("%s: connected; %s", controller.name, why)

    def _settled(self, queue: str, settlement: Settlement) -> None:
        """Let a test note a reconcile that did not succeed."""

    # After

    def _drain(self, health: ProcessHealth, shutdown: Shutdown, reason: Message) -> list[BaseException]:
        """Stop everything and wait for it; return the errors that came meanwhile, and Unsettled."""
        errors = list[BaseException]()
        self._refuse_adds(health)
        why = reason.name if isinstance(reason, signal.Signals) else "stopping"
        _logger.info("%s: no new work; %d in progress", why, shutdown.in_progress)
        shutdown.begin(self._parts.settings.grace_period)
        while not shutdown.is_over():
            message = self._event_queue.next_within(_SHUTDOWN_SLEEP)
            if isinstance(message, signal.Signals):
                if shutdown.end_grace_period():
                    _logger.warning("%s again: not waiting any longer", message.name)
            elif isinstance(message, BaseException):
                errors.append(message)
        if left := shutdown.left_behind():
            errors.append(Unsettled(f"stopped before all was settled: {left}."))
            _logger.warning("stopped before all was settled: %s", left)
        _logger.info("done in %s", duration(shutdown.took))
        return errors


def _raise_first(*reasons: Message | None) -> None:
    """Raise the first error among the reasons why a run ended, and log the others."""
    errors = [KeyboardInterrupt() if reason is signal.SIGINT else reason for reason in reasons]
    found = [error for error in errors if isinstance(error, BaseException)]
    # each text once: both sides of a process may find that another program has its queue
    others = {repr(error): error for error in found[1:] if repr(error) != repr(found[0])}
    for error in others.values():
        trace = None if isinstance(error, DistqError) else error  # ours say all in one line
        _logger.error("the end had another cause, too: %s", error, exc_info=trace)
    if found:
        raise found[0]
