"""Whether a process that runs controllers is alive and ready, its gauges, and why a worker is idle.

One process of a fleet reports the contents of a queue, since they are the same for all: the leader. Where
nothing is watched no process leads; then each process that runs the informer's side reports them.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from distq.call_threads import call_apart
from distq.controller.endpoints import ManagerPages, serving
from distq.controller.functions import require_check
from distq.controller.worker.dispatcher import Dispatcher
from distq.errors import ConfigError, RedisError
from distq.instruments import Instruments
from distq.metrics import MetricsProvider, Sample
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import stream_records
from distq.wording import duration
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.outcome import error_text
from distq.workqueue.queue import Queue

if TYPE_CHECKING:
    from distq.controller.leading import Candidate

STALLED_AFTER = 120.0
"""Seconds without progress after which only a restart helps: longer than any request to a server lasts."""

PROBE_TIMEOUT = 0.8
"""Seconds that Redis gets to answer a probe; the kubelet gives up after one."""

CHECK_TIMEOUT = 0.8
"""Seconds that all checks of a probe get to answer; the kubelet gives up after one."""

Check = Callable[[], object]
"""A plain function without arguments. The check fails if it raises or returns False."""


class Checks:
    """A program's own checks of one probe, by name (controller-runtime AddHealthzCheck).

    Safe for threads. Each call has a thread of its own, so a check that hangs delays a probe by
    ``CHECK_TIMEOUT`` at most, and no other check. While its call runs, it is not called again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[str, Check] = {}
        self._calls: dict[str, tuple[Future[str], float]] = {}
        """The last call of each check, and when it began."""

    def add(self, name: str, check: Check) -> None:
        """Add one. Raises ConfigError for a bad check or name, and for a name that is taken."""
        require_check(f"check {name}", check)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigError(f"bad name of a check: {name!r:.80}. Give a text that can be printed.")
        with self._lock:
            if name in self._checks:
                raise ConfigError(f"bad name of a check: there is a check {name}. Choose another name.")
            self._checks[name] = check

    def call(self) -> Callable[[], list[str]]:
        """Begin all calls; return a function that waits for them and returns a line for each that fails."""
        now = time.monotonic()
        with self._lock:
            for name, check in self._checks.items():
                if name not in self._calls or self._calls[name][0].done():
                    answer = call_apart(partial(_answer, name, check), f"distq-check-{name}")
                    self._calls[name] = answer, now
            calls, until = dict(self._calls), now + CHECK_TIMEOUT
        return lambda: [why for name, call in calls.items() if (why := _problem(name, *call, until))]


def _answer(name: str, check: Check) -> str:
    """Call a check; return why it fails, or nothing."""
    try:
        return f"{name}: failed" if check() is False else ""
    except BaseException as error:  # noqa: BLE001 - it is the answer of the check
        return f"{name}: {' '.join(error_text(error).split()):.300}"


def _problem(name: str, answer: Future[str], began: float, until: float) -> str:
    """Return why a check fails, or nothing; a call without an answer ``until`` then fails."""
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return f"{name}: no answer for {duration(time.monotonic() - began)}"


class ProcessHealth:
    """The health of the parts of one Manager while it runs them.

    ``queues`` are those whose gauges are reported, none in a process that only works; ``connection`` is None
    if no queue is in Redis. ``healthz`` and ``readyz`` are the program's own checks, ``instruments`` its
    own metrics.
    """

    def __init__(
        self,
        *,
        connection: Connection | None,
        dispatchers: Sequence[Dispatcher],
        candidate: "Candidate | None",
        queues: Sequence[Queue],
        healthz: Checks | None = None,
        readyz: Checks | None = None,
        instruments: Instruments | None = None,
    ) -> None:
        self._connection = connection and connection.with_timeout(PROBE_TIMEOUT)
        self._dispatchers = dispatchers
        self._candidate = candidate
        self._queues = [QueueGauges(queue) for queue in queues]
        self._healthz = healthz or Checks()
        self._readyz = readyz or Checks()
        self._instruments = instruments or Instruments()
        self.starting = False
        self.stopping = False

    @contextmanager
    def serving(self, metrics: MetricsProvider | None, http_address: str | None) -> Iterator[None]:
        """Serve the gauges to the provider, and the probes at the address, until the block ends."""
        with ExitStack() as stack:
            stack.callback(self._close)
            if metrics is not None:
                stack.callback(metrics.expose(self.gauges))
            if http_address is not None:
                page = getattr(metrics, "page", None)  # of a provider that can be scraped
                stack.enter_context(serving(http_address, ManagerPages(self.health, self.readiness, page)))
            yield

    def report(self, queues: Sequence[Queue]) -> None:
        """Report the gauges of these queues, too."""
        # a new list, because a scrape may be reading the old one
        self._queues = [*self._queues, *map(QueueGauges, queues)]

    def gauges(self) -> Iterator[Sample]:
        """Yield the gauges of this process, and those of the queues if it is the one that reports them."""
        yield from self._instruments.gauges()
        for part in self._parts():
            yield from part.gauges()
        if self._queues and (self._candidate is None or self._candidate.is_leader()):
            with ThreadPoolExecutor(len(self._queues)) as pool:  # a silent Redis costs one timeout for all
                for samples in pool.map(QueueGauges.__call__, self._queues):
                    yield from samples

    def health(self) -> list[str]:
        """Return why the process should be started again; an outage of a server is no reason."""
        own = self._healthz.call()
        return [*self._problems(), *own()]

    def _problems(self) -> list[str]:
        """Return the parts of distq that only a restart fixes."""
        problems = [*(part.problem() for part in self._parts()), self.stall()]
        return list(filter(None, problems))

    def stall(self) -> str:
        """Return the thread that made no progress for too long, or nothing."""
        for what, seconds in chain.from_iterable(part.standstills() for part in self._parts()):
            if seconds > STALLED_AFTER:
                return f"{what} has made no progress for {duration(seconds)}"
        return ""

    def readiness(self) -> list[str]:
        """Return why the process cannot do its work now."""
        healthz, readyz = self._healthz.call(), self._readyz.call()  # they answer while Redis does
        problems = ["stopping"] if self.stopping else self._problems()
        if self.starting:
            problems.append("starting: on_start has not returned")
        elif not problems:
            problems = [why for dispatcher in self._dispatchers if (why := dispatcher.unready())]
        try:
            if self._connection is not None:
                self._connection.execute("PING")
        except RedisError as error:
            problems.append(str(error))
        if self._candidate is not None and (problem := self._candidate.unready()):
            problems.append(problem)
        return [*problems, *healthz(), *readyz()]

    def _parts(self) -> "list[Dispatcher | Candidate]":
        return [*self._dispatchers, *([self._candidate] if self._candidate else [])]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        for queue in self._queues:
            queue.close()


def waits_for(queue: Queue, *, watched: bool) -> str:
    """Return why there is nothing to claim, as far as Redis shows; ``watched``: informers feed the queue.

    Raises RedisError.
    """
    connection = queue.connection
    paused, catching_up = QueueStore(connection, queue.name).read(
        ("HGET", "meta", "paused"), ("HGET", "meta", "catching_up")
    )
    if paused:
        return f"the queue is paused, until: distq resume {queue.name}"
    if catching_up:
        return "a leader's watches catch up with the cluster first"
    records, now = stream_records(connection, queue.name).values(), connection.now()
    if not records:
        return "nothing to do; no informer has led yet" if watched else "nothing to do"
    gone = [since for record in records if (since := record.gone_since(now)) is not None]
    if len(gone) == len(records):
        return f"nothing to do; no leader for {duration(now - max(gone))}"
    unsynced = [record.about.get("resource") for record in records if record.about.get("synced") is False]
    if unsynced:  # a predicate that fails, say: the stream waits until it works
        return f"nothing to do; {unsynced[0]!s:.80} is not synced yet: its informer's log says why"
    fed = [moment for record in records if (moment := record.moment("fed"))]
    return f"nothing to do; last event {duration(now - max(fed))} ago" if fed else "nothing to do"
