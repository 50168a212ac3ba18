"""One list and one watch for several Reflectors of a resource, as in the API server's watch cache.

Each Reflector keeps its own sink and position, and follows its own member, which answers as a ListWatch does.
So no Reflector sees the actions or failures of another.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ApiError
from distq.informer.listwatch import Lines, ListerWatcher
from distq.informer.shared_watch import Reader, SharedWatch
from distq.informer.wire import Page, WatchEvent
from distq.redisio.limits import LIST_BYTES, PAGE_SIZE

GATHER_TIME = 0.5
"""Seconds for which a list waits for others that are about to list; less than streams get to end."""

KEPT = 8
"""Pages kept for members that need them later, while any is in the middle of a list: 4,000 objects."""


def shared_by(
    number: int, list_watch: ListerWatcher, *, clock: Clock = SYSTEM_CLOCK
) -> Sequence[ListerWatcher]:
    """Return so many ListerWatchers in front of one, each for one Reflector."""
    pages, watch = SharedPages(list_watch, clock), SharedWatch(list_watch)
    members = [_Member(list_watch, pages, watch) for _ in range(number)]
    for member in members:
        pages.expect(member)
    return members


class _Member:
    """The ListerWatcher of one of several Reflectors."""

    def __init__(self, list_watch: ListerWatcher, pages: "SharedPages", watch: SharedWatch) -> None:
        self._list_watch = list_watch
        self._pages = pages
        self._watch = watch
        self._present = ""  # the version that it saw last
        self._reader: Reader | None = None

    def version(self) -> str:
        """Return the resource's present version; each member asks itself."""
        self._pages.expect(self)
        self._present = self._list_watch.version()
        return self._present

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:
        return self._pages.page(self, next_token, limit)

    def watch(self, version: str, *, stream_list: bool = False, brief: bool = False) -> Lines:
        """Watch the events after a version, with the others where their watch has all of them.

        A member that is too late for the shared log gets its own watch until it has caught up: else the
        others would read many events again. A brief watch is the member's own, too.
        """
        self._pages.watches(self)
        if stream_list or brief or not version.isdecimal():  # the order of their lines is unknown
            return self._list_watch.watch(version, stream_list=stream_list, brief=brief)
        reader, last = self._watch.join(version), self._reader
        if reader is None:
            if last is not None and (last.fell_behind or self._watch.has_dropped(version)):
                return self._list_watch.watch(version)
            reader = self._watch.open(version, present=self._present)
        self._reader = reader
        return reader

    def decode(self, line: bytes) -> WatchEvent:
        try:
            return self._list_watch.decode(line)
        except ApiError:
            if self._reader is not None:
                self._watch.retire(self._reader)
            raise

    def __str__(self) -> str:
        return str(self._list_watch)


class SharedPages:
    """Lists of one resource, for members, each of which is any object of its own.

    A page other than the first is the same for each that has its token. A first page is shared by those alone
    that came before it was asked for: none may be older than the version that its taker knows.
    """

    def __init__(self, list_watch: ListerWatcher, clock: Clock) -> None:
        self._list_watch = list_watch
        self._clock = clock
        self._lock = threading.Lock()
        self._coming: set[object] = set()
        """Members that may be about to list; a first page waits for them, not for long."""
        self._listing: set[object] = set()
        """Members in the middle of a list; while there are any, pages are kept."""
        self._gatherings: dict[int, _Gathering] = {}
        """First pages that were not asked for yet, by their limit."""
        self._pages: dict[tuple[str, int], Future[Page]] = {}
        """Pages other than the first, by token and limit, the oldest first."""

    def expect(self, member: object) -> None:
        """Let lists wait a moment for a member, which is about to list or to watch."""
        with self._lock:
            self._coming.add(member)

    def watches(self, member: object) -> None:
        """Let no list wait for a member, nor keep pages for it: it begins to watch."""
        with self._lock:
            self._arrived(member)
            self._leave(member)

    def page(self, member: object, token: str, limit: int) -> Page:
        """Return a page of a list, with objects of the taker's own; raise the API server's error."""
        goes_on = False
        try:
            page = self._next(member, token, limit) if token else self._first(member, limit)
            goes_on = bool(page.next_token)
            return page.anew()
        finally:
            if not goes_on:
                with self._lock:
                    self._leave(member)

    def _first(self, member: object, limit: int) -> Page:
        with self._lock:
            gathering = self._gatherings.get(limit)
            if is_ours := gathering is None:
                gathering = self._gatherings[limit] = _Gathering()
            self._listing.add(member)
            self._arrived(member)
        if is_ours:
            self._clock.wait(gathering.complete, GATHER_TIME)
            with self._lock:
                del self._gatherings[limit]  # one that comes from now on may know of a later version
            self._ask(gathering.page, "", limit)
        return gathering.page.result()

    def _next(self, member: object, token: str, limit: int) -> Page:
        with self._lock:
            self._listing.add(member)
            page = self._pages.get((token, limit))
            if is_ours := page is None:
                page = self._pages[token, limit] = Future()
                if len(self._pages) > KEPT:
                    del self._pages[next(iter(self._pages))]
        if is_ours:
            self._ask(page, token, limit)
        return page.result()

    def _ask(self, page: Future[Page], token: str, limit: int) -> None:
        try:
            page.set_result(self._list_watch.page(token, limit=limit))
        except BaseException as error:  # noqa: BLE001 - raised by all that wait for the page
            with self._lock:  # it may have been dropped, and asked for anew
                if self._pages.get((token, limit)) is page:
                    del self._pages[token, limit]
            page.set_exception(error)
        else:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Keep the newest pages, together of as many bytes as one page may have."""
        with self._lock:
            sizes = [(key, page.result().size) for key, page in self._pages.items() if page.done()]
            too_many = sum(size for _, size in sizes) - LIST_BYTES
            for key, size in sizes[:-1]:  # the newest stays, of any size
                if too_many <= 0:
                    break
                del self._pages[key]
                too_many -= size

    def _arrived(self, member: object) -> None:
        self._coming.discard(member)
        if not self._coming:
            for gathering in self._gatherings.values():
                gathering.complete.set()

    def _leave(self, member: object) -> None:
        self._listing.discard(member)
        if not self._listing:
            self._pages.clear()


class _Gathering:
    """The members that wait for one list that is not asked for yet."""

    def __init__(self) -> None:
        self.complete = threading.Event()
        self.page: Future[Page] = Future()
