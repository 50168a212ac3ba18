"""One list and one watch for several that follow the same resource, as the API server's watch cache has it.

Each keeps a Reflector, a sink and a position of its own, and follows its own member, which answers as a
ListWatch does. So nothing that one does, or cannot do, is seen by another.
"""

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ApiError
from distq.informer.listwatch import Lines, ListerWatcher
from distq.informer.shared_pages import SharedPages
from distq.informer.shared_watch import Reader, SharedWatch
from distq.informer.wire import Page, WatchEvent
from distq.redisio.limits import PAGE_SIZE


class SharedListWatch:
    """A ListerWatcher for several, in front of one; all members are made before any of them is asked."""

    def __init__(self, list_watch: ListerWatcher, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._list_watch = list_watch
        self._pages = SharedPages(list_watch, clock)
        self._watch = SharedWatch(list_watch)

    def member(self) -> ListerWatcher:
        """Return what one Reflector follows."""
        member = _Member(self._list_watch, self._pages, self._watch)
        self._pages.expect(member)
        return member


class _Member:
    """What one of several asks; used as a ListWatch is, by one Reflector."""

    def __init__(self, list_watch: ListerWatcher, pages: SharedPages, watch: SharedWatch) -> None:
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
        """Watch what happened after a version, with the others where their watch has all of it.

        A member that followed it and came too late for its log has a watch of its own until it has caught up:
        from its place on, the others would have to read much that they had. A brief one is its own, too.
        """
        self._pages.watches(self)
        if stream_list or brief or not version.isdecimal():  # it is not known what comes first of these
            return self._list_watch.watch(version, stream_list=stream_list, brief=brief)
        reader = self._watch.join(version)
        if reader is None:
            if self._is_late(version):
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

    def _is_late(self, version: str) -> bool:
        reader = self._reader
        return reader is not None and (reader.fell_behind or self._watch.has_dropped(version))

    def __str__(self) -> str:
        return str(self._list_watch)
