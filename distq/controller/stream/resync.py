"""All objects once more while the watch goes on: a list beside it, a page at a time.

What is unchanged is enqueued without disturbing its back-off. What the known set missed, should an
API server ever have lost an event, is mended on the way. The list shows another moment than the
watch; where an object is further on the one side, that side counts.
"""

import logging
import random
from collections.abc import Callable, Iterator
from itertools import islice

from distq.clock import Clock
from distq.controller.event import Event
from distq.controller.stream.batch import Batch, parse_known
from distq.controller.stream.committer import Committer
from distq.controller.stream.relist import Commit
from distq.controller.stream.routing import Router, RoutingError
from distq.controller.watches import LOW_PRIORITY
from distq.errors import ApiError, Expired
from distq.informer.listwatch import ListWatch
from distq.informer.objects import is_older
from distq.informer.wire import Page
from distq.redisio.checkpoints import checkpoint_of
from distq.redisio.limits import BATCH_LIMIT

logger = logging.getLogger(__name__)

PAUSE = 0.2  # seconds between two steps; events go first
RETRY = 60.0  # seconds after one that failed


class Resync:
    """One list beside a watch; its commits leave the stream's position as it is.

    ``limit`` is how many objects a page has.
    """

    def __init__(
        self, list_watch: ListWatch, committer: Committer, router: Router, commit: Commit, *, limit: int
    ) -> None:
        self.name = str(list_watch)
        self._list_watch = list_watch
        self._committer = committer
        self._router = router
        self._commit = commit
        self._limit = limit
        self._known: Iterator[tuple[str, str]] | None = None
        self._begin()

    def step(self) -> bool:
        """Hand over the next page, then by and by what vanished; return whether that was all.

        Raises ApiError, RoutingError, RedisError, and what a commit raises.
        """
        if self._known is None:
            self._take_page()
            return False
        names = [name for name, _ in islice(self._known, BATCH_LIMIT)]
        self._bury(names)
        return not names

    def _begin(self) -> None:
        self._version = self._token = ""
        self._listed: set[str] = set()

    def _take_page(self) -> None:
        page = self._next_page()
        if page is None:  # the token expired: a list must end before that, so the next has fewer pages
            self._begin()
            self._limit *= 4
            logger.info("%s: the resync took too long; anew in pages of %d", self._list_watch, self._limit)
            return
        self._version, self._token = page.version, page.next_token
        self._hand_over(page)
        if not page.next_token:
            self._known = self._committer.store.known()

    def _next_page(self) -> Page | None:
        """Return the next page, None where it would be of another list."""
        try:
            page = self._list_watch.page(self._token, limit=self._limit)
        except Expired:
            if not self._token:
                raise
            return None
        return page if self._version in {"", page.version} else None

    def _hand_over(self, page: Page) -> None:
        changed, unchanged = self._batch(keep_pending=False), self._batch(keep_pending=True)
        lines = self._committer.known_of([obj.key for obj in page.objects])
        for obj, line in zip(page.objects, lines, strict=True):
            self._listed.add(obj.key)
            version, before = parse_known(line)
            if version is not None and is_older(obj.version, version):
                continue  # its event came meanwhile
            event = Event("create" if version is None else "update", obj, in_initial_list=True)
            route = self._router.route(event, obj, before)
            if version != obj.version:  # an event of it may still come, and must not be compared with itself
                self._router.remember(obj, gone=True)
            remembered = None if version is None and self._watch_is_ahead() else route.line
            (unchanged if version == obj.version else changed).add(obj.key, remembered, route.keys)
        changed.flush()
        unchanged.flush()

    def _watch_is_ahead(self) -> bool:
        """Return whether what is listed, but not known, may be gone since, by an event that came."""
        return is_older(self._version, checkpoint_of(self._committer.position))

    def _bury(self, names: list[str]) -> None:
        """Enqueue the keys of those known objects that were to be listed, but were not."""
        vanished = self._batch(keep_pending=False)
        names = [name for name in names if name not in self._listed]
        for name, line in zip(names, self._committer.known_of(names), strict=True):
            version, _ = parse_known(line)
            if line is not None and version is not None and is_older(version, self._version):
                vanished.add(name, None, self._router.keys_of_known(name, line))
        vanished.flush()

    def _batch(self, *, keep_pending: bool) -> Batch:
        def commit(full: Batch) -> None:
            position = self._committer.position
            self._commit(position, full, priority=LOW_PRIORITY, keep_pending=keep_pending)

        return Batch(commit)


class Resyncs:
    """Makes a resync each period, step by step, whoever leads: the next leader learns when the last one was.

    ``period`` in seconds, 0 for never. ``last`` is when everything was enqueued last, by the wall clock.
    """

    def __init__(self, period: float, begin: Callable[[], Resync], clock: Clock) -> None:
        self.last = 0.0
        self._period = period
        self._begin = begin
        self._clock = clock
        self._resync: Resync | None = None  # the one under way
        self._next_at = float("inf")  # when it goes on, or the next begins

    def plan(self, last: float) -> None:
        """Set the time of the next one, since everything was enqueued at ``last``."""
        self.last, self._resync = last, None
        if self._period:
            due = last + self._period * random.uniform(0.9, 1.1)
            self._next_at = self._clock.monotonic() + min(due - self._clock.now(), 1.1 * self._period)

    def interrupt(self) -> None:
        """Begin anew what is under way: the stream may stand elsewhere by now."""
        self._resync = None

    def due(self) -> bool:
        """Return whether there is a step to take."""
        return self._clock.monotonic() >= self._next_at

    def step(self) -> bool:
        """Take a step; return whether that was the last. What cuts it short makes it begin anew, later.

        Raises what a step of Resync raises, save ApiError and RoutingError, which are told.
        """
        began = self._clock.monotonic()
        if self._resync is None:
            self._resync = self._begin()
            logger.info("%s: resync, each %g s", self._resync.name, self._period)
        resync = self._resync
        try:
            whole = resync.step()
        except Exception as error:
            self._resync, self._next_at = None, began + RETRY
            if not isinstance(error, ApiError | RoutingError):
                raise
            logger.warning("%s: resync: %s Again in %g s.", resync.name, error, RETRY)
            return False
        self._next_at = self._clock.monotonic() + PAUSE
        if whole:
            self.plan(self._clock.now())
        return whole
