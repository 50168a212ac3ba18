"""One term of a leader, and its work: the sources of all controllers, and the leader's runnables."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

from distq.client.resources import UnknownResource
from distq.clock import SYSTEM_CLOCK
from distq.controller.controller import Controller
from distq.controller.redis_health_probe import LOOK_EVERY
from distq.controller.runnables import Runnables
from distq.controller.stream.catching_up import CatchingUp, must_be_in_step
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.sources import Source, share_list_watches, sources
from distq.controller.stream.stream_source import StreamSource
from distq.errors import ApiError, ConfigError, RedisError, Stalled
from distq.leaderelection import LeaderElector
from distq.metrics import STREAM_LAG, STREAM_SYNCED, Sample
from distq.mistakes import pointed, pointing_to
from distq.outage import Outage
from distq.redisio.queue_store import QueueStore
from distq.wording import counted
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import QueueOwnerships

CHECK_EVERY = 0.2
"""Seconds between checks whether all streams are synced."""

LEAVE_TIME = 0.8
"""Seconds that streams get to end; one that waits for an answer commits nothing later than its term."""

_logger = logging.getLogger("distq")


class Term:
    """The leadership for all that begins in this term: a thread that outlives it acts in no later one.

    Make it when the term begins; ``over`` is set when it ends. A process may lead again, and a stream that
    was waiting for an answer would otherwise go on beside its successor.
    """

    def __init__(self, elector: LeaderElector, over: threading.Event) -> None:
        self.identity = elector.identity
        self.epoch = elector.epoch
        self.began = SYSTEM_CLOCK.monotonic()
        self._elector = elector
        self._over = over

    def may_act(self) -> bool:
        """Return whether the term lasts, and was renewed so lately that no other process can lead."""
        return not self._over.is_set() and self._elector.may_act()


class ControllerSources:
    """One controller's sources during a term. Raises ConfigError."""

    def __init__(self, controller: Controller, queue: Queue, config: SourceConfig) -> None:
        self.name = queue.name
        self.queue = queue
        self._defined_at = controller.defined_at
        with pointing_to(self._defined_at):
            self.sources = sources(controller.watches, queue, config)
        self.streams = [source for source in self.sources if isinstance(source, StreamSource)]
        self._sync_timeout = controller.cache_sync_timeout
        self.begin_time()
        cached = [each.caught_up for each in self.streams if each.is_cached]
        self._catching_up = CatchingUp(
            cached if must_be_in_step(controller.watches) else [],
            QueueStore(queue.connection, queue.name),
            epoch=config.leadership.epoch,
            timeout=self._sync_timeout,
        )
        self._synced = False
        self._failure: BaseException | None = None
        self.entry_error: RedisError | None = None
        """The last error of Redis while its sources could not begin."""

    def begin(self) -> None:
        """Let workers wait for the caches, before any source runs; raise RedisError if that failed."""
        self._catching_up.begin()
        self.entry_error = None
        self.begin_time()

    def begin_time(self) -> None:
        """Count the time to sync from now on: until now another program worked on the queue."""
        self._sync_by = time.monotonic() + self._sync_timeout

    def run(self, source: Source, stop: threading.Event) -> None:
        """Run one source in its thread; keep its error for ``check``."""
        try:
            source.run(stop)
        except BaseException as error:  # noqa: BLE001 - check raises it
            if not stop.is_set():
                self._failure = error
                if isinstance(error, ConfigError | UnknownResource):
                    pointed(error, self._defined_at)

    def check(self) -> None:
        """Log once that all streams are synced; raise a source's error, or that syncing took too long."""
        if self._failure is not None:
            raise self._failure
        self._catching_up.check()
        if self._synced:
            return
        missing = [stream for stream in self.streams if not stream.synced]
        if not missing:
            self._synced = True
            if self.streams:
                _logger.info("synced   %s", self._describe())
        elif time.monotonic() > self._sync_by:
            raise ApiError(_not_synced(missing, self.entry_error))

    def gauges(self) -> Iterator[Sample]:
        """Yield for each resource the greatest lag of its streams, and whether all of them are synced."""
        for resource in {stream.resource for stream in self.streams}:
            streams = [stream for stream in self.streams if stream.resource == resource]
            labels = (self.name, resource)
            yield STREAM_LAG, labels, max(stream.lag for stream in streams)
            yield STREAM_SYNCED, labels, float(all(stream.synced for stream in streams))

    def _describe(self) -> str:
        parts = [
            f"{stream.resource} "
            + (f"resumed at {stream.resumed_at}" if stream.resumed_at else counted(stream.objects, "object"))
            for stream in self.streams
        ]
        enqueued = sum(stream.enqueued for stream in self.streams)
        return f"{', '.join(parts)}; {counted(enqueued, 'key')} enqueued"


def _not_synced(missing: Sequence[StreamSource], entry_error: RedisError | None) -> str:
    """Return why the term ends, with the cause if it is known: these are the last words of a process."""
    failing = {stream.resource: stream.last_error.lasting for stream in missing if stream.last_error.lasting}
    causes = [f"{resource}: {error}" for resource, error in failing.items()]
    cause = str(entry_error or " ".join(causes) or "Check its size and the API server.")
    resources = ", ".join(stream.resource for stream in missing)
    return f"cannot sync {resources}: not listed in time. {cause}"


@dataclass(eq=False)
class TermWork:
    """The work of one term, made when it begins.

    ``over`` is set when the term has ended, ``stopping`` when this process stops. ``name`` is that of the
    lease.
    """

    name: str
    runnables: Runnables
    _: KW_ONLY
    over: threading.Event
    stopping: threading.Event
    running: list[ControllerSources] = field(default_factory=list, init=False)
    """The sources of each controller that has begun, in their order."""
    _halt: threading.Event = field(default_factory=threading.Event, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)

    def begin(self, new: Sequence[ControllerSources]) -> None:
        """Run the sources of further controllers, once no other program has their queues."""
        self.running += new
        share_list_watches([stream for each in new for stream in each.streams])
        self._enter(new)
        for each in new:
            for source in each.sources:
                if not self.shall_end():  # or the queues may be taken
                    self._start(each, source)

    def begin_runnables(self) -> None:
        """Run the leader's runnables. Raises Stalled if those of an earlier term run on."""
        if not self.runnables.has_ended():
            raise Stalled(_run_on(self.name, self.runnables))
        if not self.shall_end():
            self.runnables.begin()

    def check(self) -> None:
        """Raise the error of a source, if any."""
        for each in self.running:
            each.check()

    def shall_end(self, within: float = 0.0) -> bool:
        """Return whether the term or the process ends; wait so many seconds for the end of the process."""
        return self.stopping.wait(within) or self.over.is_set()

    def end(self, patience: float, on_stalled: Callable[[BaseException], None]) -> None:
        """End everything, and wait: for sources not long, for runnables until they have ended.

        If the process continues, and they have not ended within ``patience`` seconds, ``on_stalled`` receives
        an error.
        """
        self._halt.set()
        self.runnables.end()
        self._wait_for_sources()
        if not self.runnables.join(patience):
            if not self.stopping.is_set():  # only the end of the process ends them
                on_stalled(Stalled(_run_on(self.name, self.runnables)))
            self.runnables.join()  # no other process may lead while they run

    def _start(self, of: ControllerSources, source: Source) -> None:
        name = f"distq-{of.name}: {source}"
        thread = threading.Thread(target=of.run, args=(source, self._halt), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _enter(self, new: Sequence[ControllerSources]) -> None:
        """Wait until no program has the queues for another purpose, and let workers wait for the caches."""
        ownerships = QueueOwnerships([each.queue for each in new])
        outage = Outage(self.name, _logger, SYSTEM_CLOCK)
        while not self.shall_end():
            try:
                if ownerships.may_feed():
                    for each in new:
                        each.begin()
                    outage.over()
                    return
                for each in new:
                    each.begin_time()
            except RedisError as error:
                outage.failed(error)
                for each in new:
                    each.entry_error = error
            self.check()
            self.stopping.wait(LOOK_EVERY)

    def _wait_for_sources(self) -> None:
        until = time.monotonic() + LEAVE_TIME
        for thread in self._threads:
            if thread.ident is not None:  # not where no further thread could be started
                thread.join(max(0.0, until - time.monotonic()))
        if left := [thread.name for thread in self._threads if thread.is_alive()]:
            _logger.warning("%s: left behind without an answer", ", ".join(left))


def _run_on(name: str, runnables: Runnables) -> str:
    return (
        f"{name}: the term ended, and {runnables.left_behind()}. Let runnables end when their Event is set."
    )
