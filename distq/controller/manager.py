"""Runs controllers in this process: the side that informs, the side that works, or both.

Three things end it: a signal or ``stop``, the loss of the lease, and an error that
waiting cannot heal. Whatever it is, commits stop at once and handlers get the grace
period.
"""

import logging
import queue
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.process_health import ProcessHealth
from distq.controller.shutdown import Shutdown
from distq.controller.worker.dispatcher import Dispatcher
from distq.controller.worker.waiting import waits_for
from distq.errors import ConfigError, RedisError, Unsettled, short_tracebacks
from distq.metrics import MetricsProvider
from distq.redisio.connection import Connection
from distq.wording import duration
from distq.workqueue.queue import Queue

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.controller.leading import Candidate

WAITING_REPORT = 2.0
"""Seconds after which a worker that had nothing to do says what it waits for."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LONGEST_SLEEP, _SHUTDOWN_SLEEP = 1.0, 0.05
"""Seconds that the main thread waits at a time, while all runs and while it ends."""

_Event = signal.Signals | BaseException | str
_logger = logging.getLogger("distq")


@short_tracebacks
class Manager:
    """Runs controllers until it is stopped (controller-runtime ``manager.Manager``).

    ``redis`` is a Connection, a URL, or None for what the settings say; queues with a connection of
    their own keep it. ``client`` reaches the cluster; None is the kubeconfig or service account.
    ``settings`` None is the environment. ``metrics`` receives what happens here, and what the queues hold
    from the process that leads; queues with a provider of their own keep it. With ``http_address`` set it
    answers /healthz, /readyz, and /metrics where the provider can. Raises ConfigError.
    """

    def __init__(
        self,
        controllers: Sequence[Controller],
        *,
        redis: Connection | str | None = None,
        client: "Client | None" = None,
        settings: Settings | None = None,
        metrics: MetricsProvider | None = None,
    ) -> None:
        self._controllers = list(controllers)
        self._settings = settings or Settings.from_env()
        self._connection = (
            redis if isinstance(redis, Connection) else Connection(redis, settings=self._settings)
        )
        self._client = client
        self._metrics = metrics
        self._dispatchers: list[Dispatcher] = []
        self._candidate: Candidate | None = None
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._started = False
        self._require_controllers()

    def run(self, *, informer: bool = True, workers: bool = True) -> None:
        """Run until ``stop``, SIGTERM or SIGINT (received in the main thread only), and then drain.

        ``informer`` competes for the lease and watches, ``workers`` reconciles. A second signal ends the
        grace period. It returns within that and ``shutdown.CLOSING_TIME``, whatever does not answer. Raises
        what ended it: LeaseLost, KeyboardInterrupt after SIGINT, RedisError where Redis cannot be used at the
        start, ConfigError, ApiError; else Unsettled where something was left behind.
        """
        if self._started:
            raise ConfigError("this Manager was run before: make another one.")
        self._started = True
        self._prepare(informer=informer, workers=workers)
        with self._handling_signals(), self._health.serving(self._metrics, self._settings.http_address):
            for dispatcher in self._dispatchers:
                dispatcher.start()
            for candidate in self._candidates():
                candidate.start()
            report = threading.Timer(WAITING_REPORT, self._report_waiting)
            report.daemon = True
            if self._dispatchers:
                report.start()
            reason = self._wait()
            report.cancel()
            errors = [reason] if isinstance(reason, BaseException) else []
            errors += self._drain(reason)
        if reason is signal.SIGINT:
            raise KeyboardInterrupt
        if errors:
            raise errors[0]

    def stop(self) -> None:
        """End ``run`` gracefully; return at once. Safe from any thread."""
        self._events.put("stop")

    def is_leader(self) -> bool:
        """Return whether this process holds the lease."""
        return self._candidate is not None and self._candidate.is_leader()

    # Before

    def _require_controllers(self) -> None:
        if not self._controllers:
            raise ConfigError("nothing to run: no Controller was given. Give one or more.")
        names = [controller.name for controller in self._controllers]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"{names.count(name)} controllers of the queue {name}. Give each its own queue."
                )

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
                    on_failure=self._events.put,
                )
                for controller in self._controllers
            ]
        if informer and watched:
            self._candidate = self._new_candidate()
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
                raise ConfigError(
                    f"cannot watch for {controller.name}: its queue is not in Redis. Use a Queue."
                )
        if in_redis:
            self._connection.execute("PING")
        for queue_in_redis in in_redis:
            queue_in_redis.bind(self._connection)
        if self._metrics is not None:
            for controller in self._controllers:
                controller.queue.measure(self._metrics)
        return in_redis

    def _new_candidate(self) -> "Candidate":
        from distq.client.client import Client
        from distq.controller.leading import Candidate

        client = self._client or Client()
        own_namespace = client.namespace  # raises now where there is no cluster, not at the first election
        namespace = self._settings.lease_namespace or own_namespace
        return Candidate(
            [each for each in self._controllers if isinstance(each.queue, Queue)],
            client=client,
            lease=(namespace, self._settings.lease_name or self._lease_name()),
            settings=self._settings,
            metrics=self._metrics,
            on_failure=self._events.put,
        )

    def _lease_name(self) -> str:
        """Return a name for what runs here, so that other programs do not compete for the same Lease."""
        names = "-".join(sorted(controller.name for controller in self._controllers))
        return f"distq-{re.sub('[^a-z0-9]+', '-', names.lower())}"[:63].strip("-")

    def _report_waiting(self) -> None:
        """Log what those wait for that had nothing to do yet: silence would look like trouble."""
        for dispatcher, controller in zip(self._dispatchers, self._controllers, strict=True):
            if dispatcher.has_claimed or not isinstance(controller.queue, Queue):
                continue
            with suppress(RedisError):  # which the dispatcher reports
                why = waits_for(controller.queue, watched=bool(controller.watches))
                _logger.info("%s: connected; %s", controller.name, why)

    def _wait(self) -> _Event:
        """Wait for what ends the run.

        Not in one sleep: a signal that another thread received, or that came just before the main one fell
        asleep, does not wake it, and Python runs handlers in the main thread only.
        """
        while (event := self._next_event(_LONGEST_SLEEP)) is None:
            pass
        return event

    # After

    def _drain(self, reason: _Event) -> list[BaseException]:
        """Stop everything and wait for it; return what failed meanwhile, or was left behind in the end."""
        errors = list[BaseException]()
        self._health.stopping = True
        why = reason.name if isinstance(reason, signal.Signals) else "stopping"
        shutdown = Shutdown(self._dispatchers, self._candidates())
        _logger.info("%s: no new work; %d in progress", why, shutdown.in_progress)
        shutdown.begin(self._settings.grace_period)
        while not shutdown.is_over():
            event = self._next_event(_SHUTDOWN_SLEEP)
            if isinstance(event, signal.Signals):
                if shutdown.hurry():
                    _logger.warning("%s again: not waiting any longer", event.name)
            elif isinstance(event, BaseException):
                errors.append(event)
        if left := shutdown.left_behind():
            errors.append(Unsettled(f"stopped before all was settled: {left}."))
            _logger.warning("stopped before all was settled: %s", left)
        _logger.info("done in %s", duration(shutdown.took))
        return errors

    def _next_event(self, at_most: float) -> _Event | None:
        """Wait for what happens next, ``at_most`` so many seconds."""
        with suppress(queue.Empty):
            return self._events.get(timeout=at_most)
        return None

    def _candidates(self) -> "list[Candidate]":
        return [self._candidate] if self._candidate else []

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as events; a queue may be put to in the middle of anything."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
            self._events.put(signal.Signals(number))

        before = {number: signal.signal(number, handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
