"""Lists a resource in pages (client-go tools/pager)."""

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distq.client.http_answer import AnswerTooLarge
from distq.client.page_size import PageSize
from distq.clock import Clock
from distq.errors import Expired, TooManyRequests
from distq.informer.backoff import retry_after
from distq.informer.listwatch import ListerWatcher
from distq.informer.sink import Sink
from distq.informer.wire import Page
from distq.redisio.limits import PAGE_SIZE

logger = logging.getLogger(__name__)

LONGEST_WAIT = 10.0
"""Seconds of a wait after which the sink is asked again."""

THRESHOLD = 100_000
"""Objects made between two collections of the youngest, instead of some hundreds."""

_lists = 0
_lists_lock = threading.Lock()
_thresholds = gc.get_threshold()


class Pages:
    """One list, a page at a time, all of one version, and of LIST_BYTES at most.

    Different: pages begin small and grow while they have few bytes. Where the token expires the list begins
    anew, in larger pages, since a list without pages takes all its memory at once.
    """

    def __init__(self, list_watch: ListerWatcher) -> None:
        self.version = ""
        self.ended = False
        self._list_watch = list_watch
        self._token = ""
        self._size = PageSize(PAGE_SIZE)

    @property
    def at_start(self) -> bool:
        """Return whether the next page is the list's first."""
        return not self.version

    def next_page(self) -> Page | None:
        """Return the next page, of one request; raises ApiError.

        None where it takes another request: the page was too large, or the list has to begin anew.
        """
        try:
            page = self._list_watch.page(self._token, limit=self._size.limit)
        except AnswerTooLarge:
            self._size.shrink()
            return None
        except Expired:
            if self.at_start:
                raise
            self._begin_anew()
            return None
        if not self.at_start and page.version != self.version:
            self._begin_anew()
            return None
        self.version, self._token, self.ended = page.version, page.next_token, not page.next_token
        self._size.came(page.size)
        return page

    def _begin_anew(self) -> None:
        self.version = self._token = ""
        self._size.begin_anew()
        logger.info("%s: the list took too long; anew in pages of %d", self._list_watch, self._size.limit)


def list_in_pages(list_watch: ListerWatcher, sink: Sink, clock: Clock, stop: threading.Event) -> None:
    """List until the sink has all, or until ``stop`` is set; raises ApiError and the sink's errors."""
    pages = Pages(list_watch)
    with raised_gc_threshold():
        while not stop.is_set():
            if pages.at_start:
                sink.begin_list()
            try:
                page = pages.next_page()
            except TooManyRequests as error:
                if pages.at_start or not (delay := retry_after(error)):
                    raise
                _wait(delay, sink, clock, stop)  # a list begun anew would ask it, and the sink, for more
                continue
            if page is None:
                sink.position()  # it shows that the list goes on: each request may have taken long
            if page is None or stop.is_set():
                continue
            sink.page(page.objects)
            if pages.ended:
                sink.end_list(pages.version)
                return


def _wait(seconds: float, sink: Sink, clock: Clock, stop: threading.Event) -> None:
    """Wait as long as the API server asks to. Asking the sink shows meanwhile that its thread goes on."""
    until = clock.monotonic() + seconds
    while not stop.is_set() and (left := until - clock.monotonic()) > 0:
        clock.wait(stop, min(left, LONGEST_WAIT))
        sink.position()


@contextmanager
def raised_gc_threshold() -> Iterator[None]:
    """Let the cyclic collector run rarely in the block, which takes a big list: it finds nothing there.

    It would take twice the time of the list itself. Several threads may be in one at a time.
    """
    global _lists, _thresholds  # noqa: PLW0603 - the collector is the process's, and so is their count
    with _lists_lock:
        if not _lists:
            _thresholds = gc.get_threshold()
            gc.set_threshold(THRESHOLD, *_thresholds[1:])
        _lists += 1
    try:
        yield
    finally:
        with _lists_lock:
            _lists -= 1
            if not _lists:
                gc.set_threshold(*_thresholds)
