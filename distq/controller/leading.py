"""The informer side of a process: it competes for the lease, and while it leads it feeds the queues.

One thread a source. An error that one of them cannot survive ends the term, and then the process: another
leader is better than one that watches half of its resources.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from distq.client.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.redis_health_probe import LOOK_EVERY, RedisHealthProbe
from distq.controller.runnables import Runnables
from distq.controller.stream.catching_up import must_be_in_step
from distq.controller.stream.source_config import SourceConfig
from distq.controller.term_work import CHECK_EVERY, ControllerSources, Term, TermWork
from distq.controller.worker.event_loop import EventLoop
from distq.errors import LeaseLost, RedisError
from distq.leaderelection import LeaderElectionConfig, LeaderElector, LeaseLock
from distq.metrics import REDIS_UP, MetricsProvider, Sample
from distq.spans import SpanProvider
from distq.wording import duration
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import QueueOwnerships

PATIENCE = 2
"""Lease durations for which a leader that reaches no Redis keeps the lease; a follower that reaches none
competes for one. So no process takes the lease only to give it up, and a Redis that restarts ends no term.
"""

_logger = logging.getLogger("distq")


class Candidate:
    """Competes for a Lease, and runs the watches of all controllers while it holds it.

    It withdraws from the election after long without Redis, until Redis answers: another may reach it.
    ``runnables`` run while it holds the Lease, too. ``on_failure`` receives the error that ended it:
    LeaseLost, QueueTaken, Stalled, or a stream's error.
    """

    def __init__(
        self,
        controllers: Sequence[Controller],
        *,
        client: Client,
        lease: tuple[str, str],
        settings: Settings,
        metrics: MetricsProvider | None = None,
        spans: SpanProvider | None = None,
        runnables: Runnables | None = None,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._controllers = list(controllers)  # also those without watches: they may have had some
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._spans = spans
        self._runnables = Runnables(EventLoop()) if runnables is None else runnables  # an empty one is false
        self._work: TermWork | None = None
        self._on_failure = on_failure
        self._lock = LeaseLock(client, *lease)
        self._elector = LeaderElector(
            LeaderElectionConfig(
                lock=self._lock,
                on_started_leading=self._lead,
                on_stopped_leading=lambda: None,  # _lead has its event
                lease_duration=settings.lease_duration,
                renew_deadline=settings.renew_deadline,
                retry_period=settings.retry_period,
                name=lease[1],
                metrics=metrics,
            )
        )
        self._stop = threading.Event()
        self._candidacy = _Candidacy()
        self._redis_probe = RedisHealthProbe(self._queues())
        self._lost = False
        self._entered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="distq-election", daemon=True)

    def add(self, controller: Controller) -> None:
        """Watch for this controller, too, from now on if this process leads."""
        self._controllers.append(controller)

    def start(self) -> None:
        """Start competing."""
        self._thread.start()
        threading.Thread(target=self._watch_redis, name="distq-redis-reach", daemon=True).start()

    def stop(self) -> None:
        """End the streams, then release the lease; return at once."""
        self._stop.set()
        if not self.is_leader():  # else _lead resigns
            self._candidacy.resign.set()

    def join(self) -> None:
        """Wait until the lease is released."""
        self._thread.join()

    def has_ended(self) -> bool:
        """Return whether the lease is released, or was not held."""
        return not self._thread.is_alive()

    def left_behind(self) -> str:
        """Return the lease that was not released, or nothing."""
        if self._lost or self._elector.get_leader() != self._lock.identity:
            return ""
        return f"the lease {self._lock.describe()} expires by itself"

    def is_leader(self) -> bool:
        """Return whether this process holds the lease."""
        return self._elector.is_leader()

    def keeps_workers_waiting(self) -> bool:
        """Return whether the leader is not known yet, or this process leads and prepares its term.

        Always False if no controller has caches that must be in step.
        """
        awaited = any(must_be_in_step(controller.watches) for controller in list(self._controllers))
        leader = self._elector.get_leader()
        is_other = bool(leader) and leader != self._lock.identity
        return awaited and not (self._entered.is_set() or is_other or self.has_ended())

    def gauges(self) -> Iterator[Sample]:
        """Yield how far the streams are while this process leads; after it withdrew, that Redis is away."""
        if self._candidacy.withdrawn and not self.is_leader():  # perhaps none leads that would report it
            yield from ((REDIS_UP, (queue.name,), 0.0) for queue in self._queues())
        for each in self._running():
            yield from each.gauges()

    def problem(self) -> str:
        """Return why this process should be started again, or nothing: its elector ended, or hangs."""
        if self._stop.is_set() or self._thread.ident is None:
            return ""
        try:
            self._elector.check(self._settings.lease_duration)
        except LeaseLost as error:
            return str(error)
        return "" if self._thread.is_alive() else f"{self._lock.describe()}: its elector ended"

    def standstills(self) -> Iterator[tuple[str, float]]:
        """Yield for how many seconds the thread of each stream has not gone on, while this process leads."""
        for each in self._running():
            for stream in each.streams:
                yield f"{each.name}: the stream of {stream.resource}", stream.stands_still_for

    def unready(self) -> str:
        """Return why this process neither leads nor could take over, or nothing."""
        if self._candidacy.withdrawn:
            return f"{self._lock.describe()}: left to others until a Redis answers"
        if self._elector.may_act() or (not self.is_leader() and self._elector.get_leader()):
            return ""
        return f"{self._lock.describe()}: not seen, or not renewed"

    def _run(self) -> None:
        try:
            ownerships = QueueOwnerships(self._queues())
            with suppress(RedisError):  # each term looks again
                while not (self._stop.is_set() or ownerships.may_feed()):
                    self._stop.wait(LOOK_EVERY)
            while not self._stop.is_set():
                self._compete()
        except BaseException as error:  # noqa: BLE001 - the manager raises it
            self._lost = isinstance(error, LeaseLost)
            self._on_failure(error)

    def _compete(self) -> None:
        """Compete for the lease, and keep it, until this process stops or withdraws; raise LeaseLost."""
        self._candidacy = candidacy = _Candidacy()
        if self._stop.is_set():  # perhaps just before there was this event to set
            return
        self._elector.run(candidacy.resign)
        if candidacy.withdrawn:
            self._wait_for_redis()
        elif not self._stop.is_set():
            raise LeaseLost(f"lost the lease {self._lock.describe()}: another may lead. Start again.")

    def _wait_for_redis(self) -> None:
        lasted = 0.0
        while (silence := self._redis_probe.silence) and not self._stop.wait(CHECK_EVERY):
            lasted = silence
        if not self._stop.is_set():
            _logger.info("%s: Redis answers again after %s", self._lock.describe(), duration(lasted))

    def _watch_redis(self) -> None:
        """Look each second whether Redis answers, and withdraw from the election if it does not."""
        lease = self._settings.lease_duration
        while self._thread.is_alive() and not self._stop.wait(LOOK_EVERY):
            self._redis_probe.look()
            candidacy, silence = self._candidacy, self._redis_probe.silence
            if candidacy.withdrawn or silence <= (PATIENCE * lease if self.is_leader() else lease):
                continue
            name, lasts = self._lock.describe(), duration(silence)
            _logger.warning("%s: no Redis answers for %s: left to others until one does", name, lasts)
            candidacy.withdrawn = True  # first: _compete asks for it when the elector has ended
            candidacy.resign.set()  # the streams reach nothing that they could leave in order
        self._redis_probe.close()

    def _running(self) -> list[ControllerSources]:
        work = self._work
        return [] if work is None else list(work.running)

    def _queues(self) -> list[Queue]:
        return [each.queue for each in self._controllers if isinstance(each.queue, Queue)]

    def _lead(self, over: threading.Event) -> None:
        lease = self._settings.lease_duration
        _logger.info("leading  %s as %s (lease %g s)", self._lock.describe(), self._lock.identity, lease)
        resign, term = self._candidacy.resign, Term(self._elector, over)
        self._work = work = TermWork(self._lock.describe(), self._runnables, over=over, stopping=self._stop)
        try:
            self._begin_added(work, term)
            self._entered.set()
            work.begin_runnables()
            while not work.shall_end(within=CHECK_EVERY):
                self._begin_added(work, term)
                work.check()
        except BaseException as error:
            if not self._runnables.has_ended():
                self._on_failure(error)  # now: it may take long until they have ended
            raise
        finally:
            # for so long after a lost lease no other process can lead
            work.end(lease - self._settings.renew_deadline, self._on_failure)
            if self._work is work:  # not where this term waited so long that the next one has begun
                self._work = None
            resign.set()  # last: the elector releases the lease, and another process may feed the queues

    def _begin_added(self, work: TermWork, term: Term) -> None:
        """Begin the controllers that are not running in this term; later ones were added by the program."""
        if added := self._controllers[len(work.running) :]:
            work.begin([self._sources_of(controller, term) for controller in added])

    def _sources_of(self, controller: Controller, term: Term) -> ControllerSources:
        queue = controller.queue
        assert isinstance(queue, Queue)  # noqa: S101  # the Manager gives no other
        config = SourceConfig(
            queue=controller.name,
            connection=queue.connection,
            client=self._client,
            leadership=term,
            owner=self._lock.describe(),
            revision=self._settings.revision or controller.revision,
            resync_period=controller.resync_period,
            lease_duration=self._settings.lease_duration,
            metrics=self._metrics,
            spans=self._spans,
            purpose=queue.purpose,
            fair_by=queue.options.fair_by or "",
        )
        return ControllerSources(controller, queue, config)


class _Candidacy:
    """One run of the elector: the event that ends it, after the streams, and whether Redis was the reason."""

    def __init__(self) -> None:
        self.resign = threading.Event()
        self.withdrawn = False
