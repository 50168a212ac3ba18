"""A list on its way into a queue: changes against the known set, vanished objects, and its schedule.

There are two policies: a list that *replaces* the watch, which ended, and a *resync* beside a watch that
goes on. All keys that they enqueue are of low priority, and unchanged objects keep their back-off.
"""

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from distq.clock import Clock
from distq.controller.stream.batch import Batch
from distq.controller.stream.committer import Committer, Known
from distq.controller.stream.routing import Replaced, Route, Router, RoutingError
from distq.controller.watches import LOW_PRIORITY
from distq.errors import ApiError, RedisError, TooManyRequests
from distq.informer.backoff import retry_after
from distq.informer.listwatch import ListerWatcher
from distq.informer.objects import is_older
from distq.informer.pager import Pages
from distq.informer.wire import RawObject
from distq.redisio.checkpoints import MARK, checkpoint_of

logger = logging.getLogger(__name__)

PAUSE = 0.2  # seconds between two steps of a resync; events go first
RETRY = 60.0  # seconds after a resync that failed

SCANS = 4
"""How often the known set is scanned for vanished objects."""

Routes = Callable[[Sequence[tuple[str, Known]]], Iterable[Route]]
"""From vanished objects, each with its entry of the known set, to their routes."""


class Relist(ABC):
    """One list, page by page; if it ``moves`` the stream, it is a chain of commits."""

    def __init__(self, committer: Committer, router: Router, *, moves: bool) -> None:
        self._committer = committer
        self._router = router
        self._moves = moves
        self._listed: set[str] = set()

    def page(self, objects: Sequence[RawObject]) -> None:
        """Hand over a page's objects; raises RoutingError, and as ``Committer.commit`` does."""
        for odd in (obj for obj in objects if not obj.key):
            self._router.failures.left_out(odd)
        objects = [obj for obj in objects if obj.key]
        changed, unchanged = self._batch(keep_pending=False), self._batch(keep_pending=True)
        known = self._committer.known_of([obj.key for obj in objects])
        rows = list(zip(objects, known, strict=True))
        changes = [obj.key for obj, before in rows if before.version not in {None, obj.version}]
        replaced = self._router.replaced(changes, self._committer)
        for obj, before in rows:
            self._listed.add(obj.key)
            if (route := self._route(obj, before, replaced.get(obj.key))) is not None:
                (unchanged if before.version == obj.version else changed).add(route)
        changed.flush()
        unchanged.flush()

    @abstractmethod
    def _route(self, obj: RawObject, before: Known, replaced: Replaced) -> Route | None:
        """Return the route of an object, None if nothing is to be done."""

    def _vanished_routes(self, gone: Sequence[tuple[str, Known]], version: str) -> Iterator[Route]:
        """Yield the routes of objects that the list did not show; raises RoutingError."""
        replaced = self._router.replaced([name for name, _ in gone], self._committer)
        for name, known in gone:
            yield self._router.route_vanished(name, known, replaced.get(name), version)

    def _batch(self, *, keep_pending: bool) -> Batch:
        return Batch(self._committer, priority=LOW_PRIORITY, keep_pending=keep_pending, moves=self._moves)


class Replacement(Relist):
    """A list that replaces a watch (client-go Store.Replace).

    Without a checkpoint, and from the mark, it enqueues ``everything``, else changed objects. Objects that it
    does not show are gone.
    """

    def __init__(self, committer: Committer, router: Router) -> None:
        super().__init__(committer, router, moves=True)
        checkpoint = checkpoint_of(committer.position)
        self.everything = checkpoint in {"", MARK}
        self._from_mark = checkpoint == MARK

    def end(self, version: str) -> int:
        """Enqueue the keys of vanished objects; return how many were listed, as of the version."""
        if self._router.caching:
            self._committer.end_pages(version)
        write_all_tombstones(self._committer, self._listed, lambda gone: self._vanished_routes(gone, version))
        if self._from_mark:  # an older distq left dead objects behind at their deletion
            drop_unlisted_parked(self._committer, self._listed)
        if self._router.caching:
            drop_unlisted(self._committer, self._listed, version)
        listed, self._listed = len(self._listed), set()
        return listed

    def _route(self, obj: RawObject, before: Known, replaced: Replaced) -> Route | None:
        if before.version == obj.version and not self.everything:
            return self._router.unchanged(obj, before)
        return self._router.route_listed(obj, before, replaced)


class Resync(Relist):
    """A list of everything while the watch goes on, a step at a time; the stream stays at its position.

    It also corrects the known set, should an API server ever have lost an event. The list shows another
    moment than the watch; of each object the later state counts.
    """

    def __init__(self, list_watch: ListerWatcher, committer: Committer, router: Router) -> None:
        super().__init__(committer, router, moves=False)
        self.name = str(list_watch)
        self.pages = Pages(list_watch)
        self._tombstones = write_tombstones(
            committer,
            self._vanished,
            lambda gone: self._vanished_routes(gone, self.pages.version),
            moves=False,
        )

    def step(self) -> bool:
        """Hand over the next page, then step by step the vanished objects; return whether that was all.

        Raises ApiError, RoutingError, RedisError, and as a commit does.
        """
        if self.pages.ended:
            return next(self._tombstones, self) is self  # the steps yield None: the default is the end
        page = self.pages.next_page()
        if page is not None:
            self.page(page.objects)
        elif self.pages.at_start:  # its token expired, and the list begins anew
            self._listed.clear()
        return False

    def _route(self, obj: RawObject, before: Known, replaced: Replaced) -> Route | None:
        if before.version is not None and is_older(obj.version, before.version):
            return None  # its event came meanwhile
        route = self._router.route_listed(obj, before, replaced)
        route = route._replace(cached=None)  # it may be older than the watch
        if before.version != obj.version:  # an event of it may still come
            self._router.last_seen.forget(obj)  # or it would be compared with itself
        is_watch_ahead = is_older(self.pages.version, checkpoint_of(self._committer.position))
        if before.version is None and is_watch_ahead:
            return route._replace(known=None)  # it may be gone since, by an event that came
        return route

    def _vanished(self, name: str, known: Known) -> bool:
        return name not in self._listed and is_older(known.version or "", self.pages.version)


class ResyncSchedule:
    """Makes a resync each period, step by step; the next leader learns when the last one was.

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
            due = last + self._period * random.uniform(0.9, 1.1)  # so that streams do not list all at once
            # bounded, because the wall clock may have gone back since ``last``
            self._next_at = self._clock.monotonic() + min(due - self._clock.now(), 1.1 * self._period)

    def interrupt(self) -> None:
        """Begin the current resync anew: the stream may be at another position by now."""
        self._resync = None

    def due(self) -> bool:
        """Return whether there is a step to take."""
        return self._clock.monotonic() >= self._next_at

    def step(self) -> bool:
        """Take a step; return whether that was the last. After an error the resync begins anew, later.

        Raises as ``Resync.step`` does, save ApiError and RoutingError, which are logged.
        """
        began = self._clock.monotonic()
        if self._resync is None:
            self._resync = self._begin()
            logger.info("%s: resync, each %g s", self._resync.name, self._period)
        resync = self._resync
        try:
            whole = resync.step()
        except Exception as error:
            if (
                isinstance(error, TooManyRequests)
                and not resync.pages.at_start
                and (asked := retry_after(error))
            ):
                self._next_at = began + asked  # the list goes on: a new one would ask for more
                return False
            self._resync, self._next_at = None, began + RETRY
            if not isinstance(error, ApiError | RoutingError):
                raise
            logger.warning("%s: resync: %s Again in %g s.", resync.name, error, RETRY)
            return False
        self._next_at = self._clock.monotonic() + PAUSE
        if whole:
            self.plan(self._clock.now())
        return whole


def write_tombstones(
    committer: Committer, vanished: Callable[[str, Known], bool], routes: Routes, *, moves: bool = True
) -> Iterator[None]:
    """Enqueue the keys of known objects that vanished, and forget them, a page of the known set a step."""
    batch = Batch(committer, priority=LOW_PRIORITY, moves=moves)
    for page in committer.known_pages():
        for route in routes([row for row in page if vanished(*row)]):
            batch.add(route)
        batch.flush()
        yield


def write_all_tombstones(committer: Committer, listed: Collection[str], routes: Routes) -> None:
    """Do so with all objects that were not listed, at once; raise RedisError if scans miss some."""
    scans = 0
    # all listed objects are known by now; a scan misses others if Redis restarts during it
    while committer.known_count() > len(listed):
        if scans == SCANS:
            raise RedisError(f"more is known of {committer.store.stream} than a scan shows")
        scans += 1
        for _ in write_tombstones(committer, lambda name, _: name not in listed, routes):
            pass


def drop_unlisted(committer: Committer, listed: Collection[str], version: str) -> None:
    """Drop objects from the cache that a list of this version did not show: own writes put them there."""
    batch = Batch(committer)
    for name in chain.from_iterable(committer.cached_names()):
        if name not in listed:
            batch.drop(name, version)
    batch.flush()


def drop_unlisted_parked(committer: Committer, listed: Collection[str]) -> None:
    """Remove dead objects that no list shows: the known set lacks them, so no event will come."""
    batch = Batch(committer)
    for name in chain.from_iterable(committer.parked_names()):
        if name not in listed:
            batch.add(Route(name, (), None))
    batch.flush()
