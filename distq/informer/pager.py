"""Lists a resource in pages (client-go tools/pager)."""

import logging
import threading

from distq.clock import Clock
from distq.errors import Expired, TooManyRequests
from distq.informer.backoff import retry_after
from distq.informer.gc_threshold import raised_gc_threshold
from distq.informer.listwatch import PAGE_SIZE, ListerWatcher
from distq.informer.sink import Sink
from distq.informer.wire import Page

logger = logging.getLogger(__name__)


class Pager:
    """Hand a list over to a sink, page by page, all of one version.

    Different: where the token expires the list begins anew, in larger pages, since a list without pages
    takes all its memory at once.
    """

    def __init__(self, list_watch: ListerWatcher, sink: Sink, clock: Clock) -> None:
        self._list_watch = list_watch
        self._sink = sink
        self._clock = clock

    def list(self, stop: threading.Event) -> None:
        """List until the sink has all, or until ``stop`` is set; raises ApiError and what the sink raises."""
        limit = PAGE_SIZE
        with raised_gc_threshold():
            while not (stop.is_set() or self._list_once(limit, stop)):
                # The token expired: a list must end before that, so the next has fewer pages.
                limit *= 4
                logger.info("%s: the list took too long; anew in pages of %d", self._list_watch, limit)

    def _list_once(self, limit: int, stop: threading.Event) -> bool:
        """Return False where the list must begin anew, since its pages were not all of one version."""
        self._sink.begin_list()
        page = self._list_watch.page(limit=limit)
        version = page.version
        while not stop.is_set():
            self._sink.page(page.objects)
            if not page.next_token:
                self._sink.end_list(version)
                return True
            try:
                page = self._next(page.next_token, limit, stop)
            except Expired:
                return False
            if page.version != version:
                return False
        return True  # stopped

    def _next(self, token: str, limit: int, stop: threading.Event) -> Page:
        """Wait as long as the API server asks to: a list begun anew asks it, and the sink, for more."""
        while True:
            try:
                return self._list_watch.page(token, limit=limit)
            except TooManyRequests as error:
                delay = retry_after(error)
                if not delay or self._clock.wait(stop, delay):
                    raise
