"""Events about objects, recorded beside the work: a thread sends them, and nothing of it reaches the caller.

Events that are not sent are counted and logged: no caller waits for them, so none may vanish in silence.
Source: client-go tools/record EventBroadcaster and EventRecorder.
"""

import atexit
import logging
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from distq.client.correlator import Correlated, EventCorrelator
from distq.client.objects import Object
from distq.client.recorded_event import About, RecordedEvent, content_of, finder_of
from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ApiError, NotFound, causes_of
from distq.forks import begin_after_fork
from distq.instances import Instances
from distq.metrics import EVENTS_DROPPED, MetricsProvider
from distq.safe_providers import SafeMetrics, safe_metrics

MOST_WAITING = 1000
"""Events that may wait to be sent; further ones are dropped."""

TRIES = 12
"""How often an event is sent that gets no answer."""

RETRY_DELAY = 10.0
"""Seconds between two tries; the first time it is any part of it."""

LONGEST_RETRY_AFTER = 60.0
"""Seconds; a Retry-After of hours is a proxy's mistake, and all other events wait behind this one."""

_EXIT_TIME = 1.0
"""Seconds that a program waits at its end for its recorded events."""

LOGGED_EVERY = 300.0
"""Seconds between two messages about dropped events of a kind; the later one has their number."""

HOW = ("invalid", "full", "filtered", "refused", "unanswered")

_logger = logging.getLogger("distq.events")
_providers: list[SafeMetrics] = []
"""Where dropped events are counted: Clients are made anywhere, and a Manager has the metrics."""


def count_with(metrics: MetricsProvider) -> Callable[[], None]:
    """Count dropped events with this provider, until the returned function is called."""
    provider = safe_metrics(metrics)
    for how in HOW:
        provider.count(EVENTS_DROPPED, (how,), 0)
    _providers.append(provider)
    return lambda: _providers.remove(provider)


class EventSink(Protocol):
    """The destination of events: a Client."""

    @property
    def server(self) -> str:
        """Return the URL of its API server."""

    def create(self, obj: Object) -> Object:
        """Store an event."""

    def patch(self, resource: str, key: str, patch: Mapping[str, Any]) -> Object:
        """Change an event."""


class EventRecorder:
    """Sends the events of one Client, in their order, from a thread that lives while there are any.

    ``component`` is the reporter in each. Nothing here raises, and ``flush`` alone waits. Safe for threads
    and forks.
    """

    def __init__(self, sink: EventSink, component: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._sink = sink
        self._component = component
        self._clock = clock
        self.begin()
        begin_after_fork(self)
        _recorders.add(self)

    def begin(self) -> None:
        """Start from nothing; in the child of a fork, too: the parent sends its own events."""
        self._lock = threading.RLock()  # a Condition's own ``with`` may be interrupted when it has the lock
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[RecordedEvent] = deque()
        """The events that are not sent yet; the first is on its way."""
        self._thread: threading.Thread | None = None
        self._in_haste = False
        """A flush has begun, so there is no time for the pause before the next try."""
        self._last_name = 0
        """Nanoseconds of the last event, larger each time: its name has them."""
        self._server = ""
        self._silent_until: dict[tuple[str, int], float] = {}
        """By kind of drop, until when it is not logged again."""
        self._unlogged: Counter[tuple[str, int]] = Counter()

    def record(self, about: About, reason: str, message: str, *, type: str, field_path: str = "") -> None:  # noqa: A002  the field's name
        """Queue an event; return at once. One that cannot be sent is counted, and logged."""
        try:
            find = finder_of(about, field_path)
            what = content_of(reason, message, type)
        except Exception as error:  # noqa: BLE001 - the caller's work goes on
            self._drop("invalid", str(error), logging.WARNING)
            return
        with self._lock:
            is_full = len(self._waiting) >= MOST_WAITING
            if not is_full:
                self._last_name = max(self._last_name + 1, round(self._clock.now() * 1e9))
                self._waiting.append(RecordedEvent(find, what, self._last_name))
                self._start()
        if is_full:
            self._drop("full", f"{MOST_WAITING} wait for the API server already.", logging.WARNING)

    def _drop(self, how: str, why: str, level: int) -> None:
        """Count an event that is not sent, by ``how``; log ``why``, once in ``LOGGED_EVERY`` for a kind."""
        for provider in _providers:
            provider.count(EVENTS_DROPPED, (how,), 1)
        with self._lock:
            now, kind = self._clock.monotonic(), (how, level)
            if now < self._silent_until.get(kind, now):
                self._unlogged[kind] += 1
                return
            self._silent_until[kind] = now + LOGGED_EVERY
            unlogged = self._unlogged.pop(kind, 0)
        more = f" So were {unlogged} more before it." if unlogged else ""
        _logger.log(level, "an event was dropped: %s%s", why, more)

    def flush(self, seconds: float) -> int:
        """Wait at most so many seconds until all is sent; return how many events are left."""
        with self._lock:
            self._in_haste = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting, max(0.0, seconds))
            return len(self._waiting)

    def discard(self) -> None:
        """Forget the events that are not sent yet."""
        with self._lock:
            self._waiting.clear()
            self._changed.notify_all()

    # The thread

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._send_all, name="distq-events", daemon=True)
            with suppress(RuntimeError):  # no thread to be had; the next event tries again
                thread.start()
                self._thread = thread

    def _send_all(self) -> None:
        while (recorded := self._next()) is not None:
            try:
                self._send(recorded)
            except BaseException as error:  # noqa: BLE001 - the caller's function may raise anything
                self._drop("refused", f"{type(error).__name__}: {error}", logging.WARNING)
            with self._lock:
                if self._is_next(recorded):  # else it was discarded meanwhile
                    self._waiting.popleft()
                self._changed.notify_all()

    def _next(self) -> RecordedEvent | None:
        with self._lock:
            if self._waiting:
                return self._waiting[0]
            self._thread = None  # under the lock: the next event starts another
            return None

    def _is_next(self, recorded: RecordedEvent) -> bool:
        return bool(self._waiting) and self._waiting[0] is recorded

    def _send(self, recorded: RecordedEvent) -> None:
        """Send it, once more while there is no answer; those after it wait."""
        correlated: Correlated | None = None
        for number in range(1, TRIES + 1):
            try:
                correlated = correlated or self._correlate(recorded)  # once, since it counts the event
                if correlated is not None:
                    self._write(correlated)
                return
            except ApiError as error:
                delay = _delay_after(error, number)
                if delay is None or number == TRIES:
                    self._give_up(error)
                    return
                self._pause(recorded, delay)
            if not self._is_next(recorded):
                return

    def _correlate(self, recorded: RecordedEvent) -> Correlated | None:
        """Return the event to send, if any."""
        if (about := recorded.find()) is None:
            return None  # its events have no readers
        if self._server != self._sink.server:  # KUBECONFIG names another cluster, where none is like before
            self._server, self._correlator = self._sink.server, EventCorrelator(self._clock)
        correlated = self._correlator.correlate(recorded.about(about, self._component))
        if correlated is None:
            self._drop("filtered", f"there were many about {about['name']}.", logging.DEBUG)
        return correlated

    def _write(self, correlated: Correlated) -> None:
        event, patch = correlated
        about = event["metadata"]
        stored = None
        if patch is not None:
            with suppress(NotFound):  # events are kept for an hour, say: then it begins anew
                stored = self._sink.patch("v1/Event", f"{about['namespace']}/{about['name']}", patch)
        self._correlator.sent(stored or self._sink.create(event))

    def _give_up(self, error: ApiError) -> None:
        level = logging.WARNING
        causes = causes_of(error.answer)
        if error.status == 409 or any(each.reason == "NamespaceTerminating" for each in causes):
            level = logging.DEBUG  # no loss: it exists already, or its object soon does not
        elif error.status == 403:
            level = logging.INFO  # without the right to record events all else works
        self._drop("refused" if error.status else "unanswered", str(error), level)

    def _pause(self, recorded: RecordedEvent, seconds: float) -> None:
        with self._lock:
            self._changed.wait_for(lambda: self._in_haste or not self._is_next(recorded), seconds)
            self._in_haste = False


def _delay_after(error: ApiError, number: int) -> float | None:
    """Return when to try again, seconds; None where the API server answered no."""
    if error.retry_after is not None:
        return min(error.retry_after, LONGEST_RETRY_AFTER)
    if error.status:
        return None
    # those whose API server went away together do not come back together
    return RETRY_DELAY * (random.random() if number == 1 else 1)


_recorders = Instances[EventRecorder]()
"""All of the process: Clients are made anywhere, and a Manager ends the work."""


def flush(seconds: float) -> int:
    """Wait at most so many seconds until all events of this process are sent; return how many are left."""
    deadline = time.monotonic() + seconds
    return sum(recorder.flush(deadline - time.monotonic()) for recorder in _recorders)


def discard() -> None:
    """Forget all events of this process that are not sent yet."""
    for recorder in _recorders:
        recorder.discard()


# the threads end with the process
atexit.register(flush, _EXIT_TIME)
