"""Follows one resource for ever and emits its events, in order, to one sink.

No failure of the API server, the network or the sink ends it; each is followed by a new connection from the
last position that the sink holds. Only a gap that a position cannot bridge (410, none yet, the same bad line
again, a cluster put back in time) costs a list.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import (
    ApiError,
    ConfigError,
    DistqError,
    Expired,
    LayoutTooNew,
    LeaseLost,
    NotFound,
    TooManyRequests,
)
from distq.informer.backoff import Backoff, retry_after
from distq.informer.listwatch import ListerWatcher
from distq.informer.objects import is_older
from distq.informer.pager import list_in_pages, raised_gc_threshold
from distq.informer.read_ahead import ReadAhead
from distq.informer.sink import PositionMoved, Sink
from distq.informer.wire import RawObject, WatchEvent
from distq.outage import Outage

logger = logging.getLogger(__name__)

TICK = 0.25  # seconds
LISTED_AT_ONCE = 500  # lines of a streamed list, of which none is waited for singly
LIST_PAUSE = 0.01  # seconds for which fewer are waited for
BUSY_LINES = 64  # lines of a watch on which several come at once, of which none is waited for singly
SHORTEST_REST, LONGEST_REST = 0.002, 0.02  # seconds for which fewer are waited for
RESTS = 5  # times as long as the last hand-over took: a commit costs as much as many events
PROBE_INTERVAL = 1.0  # seconds
SHORT_WATCH = 1.0  # seconds; client-go's very short watch

FATAL = (LeaseLost, LayoutTooNew)
"""Errors that no later attempt can fix. A ConfigError is one, too, while an attempt opens a list or watch. An
error of the sink while it receives objects concerns one of them, and must not end the run for all.
"""


class _BadLineAgain(Expired):
    """A watch from the position ends in a bad line each time."""


class Reflector:
    """List and watch a resource (client-go tools/cache Reflector).

    Different: the sink's position makes lists rare; before each connection one object is listed to compare
    versions, since a watch from the future is silent for ever; backing off ends as soon as a cheap question
    is answered again; a broken line ends the connection instead of being skipped. ``stream_lists`` asks for
    lists as the beginning of a watch, in pages where the API server cannot: for sinks that are as quick as
    the network, since a watch that is not read is closed. ``on_error`` receives the error that ended an
    attempt; without it ``report`` does.
    """

    def __init__(
        self,
        list_watch: ListerWatcher,
        sink: Sink,
        *,
        stream_lists: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._stream_lists = stream_lists
        self._list_watch = list_watch
        self._sink = sink
        self._clock = clock
        self._on_error = on_error or self.report
        self._outage = Outage(str(list_watch), logger, clock)
        self._backoff = Backoff(clock)
        self._was_known = False
        """The API server once knew the resource: NotFound no longer ends the run."""
        self._answered = False
        """The API server answered in the present attempt, so backing off need not ask whether it does."""
        self._progressed = False
        """The present attempt led further: the next one follows at once."""
        self._hands_over = False
        """A list or watch is open, so a ConfigError may be about one object, and ends nothing."""
        self._moved_at = float("-inf")
        """When the position was moved last: if it is again at once, the next attempt is backed off from."""
        self._present = ""
        """The resource's version when the present attempt began."""
        self._bad_line_after: str | None = None
        """The position at which the last watch ended in a line that cannot be read."""

    def run(self, stop: threading.Event) -> None:
        """Follow the resource until ``stop`` is set.

        Raises NotFound where the API server never knew the resource and there is no position, LeaseLost or
        LayoutTooNew from the sink, and ConfigError from sink or client while it opens a list or watch.
        """
        while not stop.is_set():
            error = self._attempt(stop)
            if not stop.is_set() and not self._progressed:
                self._back_off(error, stop)

    def _attempt(self, stop: threading.Event) -> Exception | None:
        """Connect and emit until the connection ends; return why, None for an orderly end."""
        self._answered = self._progressed = self._hands_over = False
        try:
            self._follow(stop)
        except FATAL:
            raise
        except PositionMoved:
            moved_at, self._moved_at = self._moved_at, self._clock.monotonic()
            self._progressed = self._moved_at - moved_at >= SHORT_WATCH
        except Exception as error:  # never dead: after any error the next attempt may work
            if isinstance(error, ConfigError) and not self._hands_over:
                raise
            if isinstance(error, NotFound) and self._never_knew():
                raise
            return self.failed(error)
        return None

    def _never_knew(self) -> bool:
        """Return whether neither the API server nor a position showed that the resource ever existed."""
        try:
            return not self._was_known and not self._sink.position()
        except Exception:  # noqa: BLE001 - reported by the next attempt
            return False

    def failed(self, error: Exception) -> Exception:
        """Report an error to ``on_error``; return it."""
        try:
            self._on_error(error)
        except Exception:  # never dead
            logger.exception("%s: its error handler failed on %r", self._list_watch, error)
        return error

    def report(self, error: Exception) -> None:
        """Log an error; one that the API server repeats, or an outage of it, at growing intervals."""
        if isinstance(error, ApiError):
            self._outage.failed(error)
        elif isinstance(error, DistqError):
            logger.warning("%s: %s", self._list_watch, error)
        else:
            logger.error("%s: %s: %s", self._list_watch, type(error).__name__, error, exc_info=error)

    def _follow(self, stop: threading.Event) -> None:
        # The position first, or a commit of another leader in between looks like the future.
        position = self._sink.position()
        self._present = present = self._list_watch.version()
        self._answered = self._was_known = True
        if position and is_older(present, position):
            logger.error(
                "%s: cluster at version %s, before %s: restored?", self._list_watch, present, position
            )
            self._sink.rewound(present)
        listed = not self._sink.position()  # asked again: after rewound it has none
        try:
            if listed and self._stream_lists and self._watch_from_list(stop):
                return
            if listed:
                self._hands_over = True
                list_in_pages(self._list_watch, self._sink, self._clock, stop)
                self._hands_over = False
            if not stop.is_set():
                self._watch(stop)
        except Expired as error:
            logger.info("%s: %s; listing", self._list_watch, error)
            self._sink.expired()
            # Neither a list just made and expired again is progress, nor a bad line, however late it came,
            # or lists would follow each other at once.
            lasting = isinstance(error, _BadLineAgain)
            self._progressed = (self._progressed or not listed) and not lasting

    def _watch_from_list(self, stop: threading.Event) -> bool:
        """Watch from a streamed list on; return False where the API server has none for us."""
        try:
            self._watch(stop, stream_list=True)
        except (Expired, TooManyRequests):  # pages would not help
            raise
        except ApiError as error:
            if error.status == 0 or self._sink.position():  # no answer, or an error after the list
                raise
            logger.info("%s: listing in pages, since no list was streamed: %s", self._list_watch, error)
            return False
        return True

    def _watch(self, stop: threading.Event, *, stream_list: bool = False) -> None:
        opened = self._clock.monotonic()
        brief = self._sink.wants_bookmarks()
        with self._list_watch.watch(self._sink.position(), stream_list=stream_list, brief=brief) as lines:
            reader = ReadAhead(lines, f"distq-watch-{self._list_watch}", self._clock)
            try:
                if stream_list:
                    self._hands_over = True
                    # Neither a list that breaks off leads further, nor one that has expired when it ends.
                    opened = float("inf")
                    self._take_list(reader, stop)
                    opened = self._clock.monotonic()
                self._hands_over = False  # a ConfigError from connected ends the run
                self._sink.connected(self._present)
                self._hands_over = True
                self._take_events(reader, opened, stop)
            except EOFError:
                logger.debug("%s: watch closed", self._list_watch)
            finally:
                self._progressed = self._progressed or self._clock.monotonic() - opened >= SHORT_WATCH
                lines.close()  # first, since the reader ends with them
                reader.close()

    def _take_events(self, reader: ReadAhead, opened: float, stop: threading.Event) -> None:
        """Hand over events as they come, many at once while many come: a commit costs as several events.

        Raises the error of the first bad line, after the events before it.
        """
        rest = 0.0
        while not stop.is_set():
            lines, since = reader.take(rest, wanted=BUSY_LINES) if rest else reader.take(TICK)
            began = self._clock.monotonic()
            events, failure = self._decode(lines)
            if events:
                self._sink.events(events, since)
                self._progressed = True
            if failure:
                raise self._seen_again(failure)
            took = self._clock.monotonic() - began
            self._sink.tick()
            if self._progressed or self._clock.monotonic() - opened >= SHORT_WATCH:
                self._outage.over()
            has_changes = any(event.type != "BOOKMARK" for event in events)
            rest = min(max(SHORTEST_REST, RESTS * took), LONGEST_REST) if has_changes else 0.0

    def _take_list(self, reader: ReadAhead, stop: threading.Event) -> None:
        """Hand over the list with which a watch begins, and the events that were read with its end."""
        self._sink.begin_list()
        with raised_gc_threshold():
            while not stop.is_set():
                lines, since = reader.take(LIST_PAUSE, wanted=LISTED_AT_ONCE)
                events, failure = self._decode(lines)
                whole = self._take_listed(events, since)
                if failure:
                    raise failure
                if whole:
                    return

    def _take_listed(self, events: Sequence[WatchEvent], since: float) -> bool:
        """Hand over a part of a streamed list; return whether it was the last."""
        page: list[RawObject] = []
        for place, event in enumerate(events):
            if event.type in {"ADDED", "MODIFIED"}:
                page.append(event.object)
                continue
            self._sink.page(page)
            page = []
            if event.type == "DELETED":
                self._sink.unlist(event.object)
            elif event.ends_list:
                self._sink.end_list(event.version)
                if rest := events[place + 1 :]:
                    self._sink.events(rest, since)
                return True
        self._sink.page(page)
        return False

    def _seen_again(self, failure: ApiError) -> ApiError:
        """Return the error of a bad line; Expired where one was there before: only a list leads past it.

        Such a line comes of an object that the API server cannot read, and that was deleted by force.
        """
        if isinstance(failure, Expired | TooManyRequests):
            return failure
        before, self._bad_line_after = self._bad_line_after, self._sink.position()
        if before != self._bad_line_after:
            return failure
        return _BadLineAgain(f"a bad line again after {before}: {failure}", status=410, reason="Expired")

    def _decode(self, lines: Sequence[bytes]) -> tuple[list[WatchEvent], ApiError | None]:
        """Return the events before the first bad line, and the error of that line."""
        events: list[WatchEvent] = []
        for line in lines:
            try:
                event = self._list_watch.decode(line)
            except ApiError as error:
                return events, error
            if event.type in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
                events.append(event)
            else:
                logger.error("%s: unknown event type %r ignored", self._list_watch, event.type)
        return events, None

    def _back_off(self, error: Exception | None, stop: threading.Event) -> None:
        """Wait for the back-off's delay, or until lists are answered again where they were not."""
        if isinstance(error, TooManyRequests) and (delay := retry_after(error)) > 0:
            self._wait(delay, stop)
            return
        until = self._clock.monotonic() + self._backoff.delay()
        while not stop.is_set() and (left := until - self._clock.monotonic()) > 0:
            self._wait(min(left, PROBE_INTERVAL), stop)
            if not self._answered and self._probe_answered():
                return

    def _probe_answered(self) -> bool:
        try:
            self._list_watch.version()
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 - reported by the next attempt
            return False
        return True

    def _wait(self, seconds: float, stop: threading.Event) -> None:
        until = self._clock.monotonic() + seconds
        while not stop.is_set() and (left := until - self._clock.monotonic()) > 0:
            self._clock.wait(stop, min(left, TICK))
            try:
                self._sink.tick()
            except FATAL:
                raise
            except PositionMoved:
                pass  # the next attempt starts from the sink's position anyway
            except Exception as error:  # noqa: BLE001 - never dead
                self.failed(error)
