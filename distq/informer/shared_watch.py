"""One watch for several followers, as the API server's watch cache is in front of etcd.

A thread keeps the watch's last lines in a log. Each reader takes them at its own pace, from a version of its
own on. The thread waits for the quickest of them alone; a reader that is too slow for the log goes back to
its checkpoint.
"""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Self

from distq.informer.listwatch import Lines, ListerWatcher
from distq.informer.objects import is_older
from distq.informer.wire import version_of
from distq.redisio.limits import WATCH_BYTES, WATCH_LINES

AT_ONCE = 100
"""Lines handed out at once."""


class WatchLog:
    """The last lines of a watch from ``version`` on; ``first`` and ``end`` count its lines."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.first = 0
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = b""  # the last line that was dropped

    @property
    def end(self) -> int:
        """Return the number of the next line."""
        return self.first + len(self._lines)

    def first_with(self, line: bytes) -> int:
        """Return the number of the oldest line that remains once this line is appended."""
        count, size = len(self._lines) + 1, self._size + len(line)
        lines = iter(self._lines)
        while count > WATCH_LINES or (size > WATCH_BYTES and count > 1):
            count, size = count - 1, size - len(next(lines))
        return self.end + 1 - count

    def append(self, line: bytes) -> None:
        """Keep a line, and drop the oldest ones beyond the limits."""
        self._lines.append(line)
        self._size += len(line)
        while len(self._lines) > WATCH_LINES or (self._size > WATCH_BYTES and len(self._lines) > 1):
            self._dropped = self._lines.popleft()
            self._size -= len(self._dropped)
            self.first += 1

    def after(self, place: int) -> list[bytes]:
        """Return lines from that number on, ``AT_ONCE`` at most; the first must not be dropped."""
        ends = min(len(self._lines), place - self.first + AT_ONCE)
        return [self._lines[number] for number in range(place - self.first, ends)]

    def covers(self, version: str) -> bool:
        """Return whether the log has all events after that version, as far as is known."""
        begins = version_of(self._dropped) if self._dropped else self.version
        return bool(begins) and not is_older(version, begins)


class SharedWatch:
    """The one watch of a resource, open while it has readers."""

    def __init__(self, list_watch: ListerWatcher) -> None:
        self._list_watch = list_watch
        self._opening = threading.Lock()  # one at a time asks the API server
        lock = threading.Lock()  # guards all that is below, readers and upstreams
        self._changed = threading.Condition(lock)
        self._taken = threading.Condition(lock)  # or no reader is left to take anything
        self._upstream: _Upstream | None = None  # the one to join

    def join(self, version: str) -> "Reader | None":
        """Follow the open watch from a version on; None where none is open, or its log begins later."""
        with self._changed:
            upstream = self._upstream
            if upstream is None or upstream.over or not upstream.log.covers(version):
                return None
            return Reader(self, upstream, version)

    def open(self, version: str, *, present: str) -> "Reader":
        """Join the open watch, or open one at the version; raise the API server's error.

        A new watch replaces one whose log begins later: the readers of that go on in the new one, where they
        are. A reader that is past ``present``, the resource's version a moment ago, goes back to its
        checkpoint instead, for the cluster may have been restored.
        """
        with self._opening:
            if (reader := self.join(version)) is not None:
                return reader
            upstream = _Upstream(self._list_watch.watch(version), version)
            name = f"distq-shared-{self._list_watch}"
            thread = threading.Thread(target=self._read, args=(upstream,), name=name, daemon=True)
            with self._changed:
                thread.start()
                replaced, self._upstream = self._upstream, upstream
                reader = Reader(self, upstream, version)
                if replaced is not None and not replaced.over:
                    for other in list(replaced.readers):  # a copy, since they leave it
                        other.go_on_in(upstream, present)
                self._changed.notify_all()
                self._taken.notify_all()
            if replaced is not None:
                replaced.lines.close()
            return reader

    def has_dropped(self, version: str) -> bool:
        """Return whether the log may have dropped events after that version."""
        with self._changed:
            upstream = self._upstream
            return upstream is not None and upstream.log.first > 0 and not upstream.log.covers(version)

    def take(self, reader: "Reader") -> list[bytes]:
        """Wait for a reader's next lines; none at its end. Raises the watch's error, after its lines."""
        with self._changed:
            while True:
                self._changed.wait_for(reader.has_news)
                if reader.ended:
                    return []
                upstream = reader.upstream
                if reader.place < upstream.log.first:  # lines that it did not take are gone
                    reader.fell_behind = True
                    return []
                lines = upstream.log.after(reader.place)
                if not lines and upstream.error is not None:
                    raise upstream.error
                if not lines:
                    return []
                given = reader.give(lines)
                self._taken.notify_all()
                if given is None:
                    self._retire(upstream)
                    return []
                if given:
                    return given

    def retire(self, reader: "Reader") -> None:
        """Let no reader join this one's watch: a line of it is bad, and would be bad for each of them."""
        with self._changed:
            if not reader.ended:
                self._retire(reader.upstream)

    def leave(self, reader: "Reader") -> None:
        """Let a reader leave; the last one ends the watch."""
        with self._changed:
            reader.ended = True
            upstream = reader.upstream
            upstream.readers.discard(reader)
            is_last = not upstream.readers
            if is_last:
                self._retire(upstream)
            self._changed.notify_all()
            self._taken.notify_all()
        if is_last:
            upstream.lines.close()

    def _retire(self, upstream: "_Upstream") -> None:
        if self._upstream is upstream:
            self._upstream = None

    def _read(self, upstream: "_Upstream") -> None:
        error: Exception | None = None
        try:
            with upstream.lines as lines:
                for line in lines:
                    with self._changed:
                        while upstream.shall_wait(line):
                            self._taken.wait()
                        upstream.log.append(line)
                        self._changed.notify_all()
        except Exception as raised:  # noqa: BLE001 - handed to the readers
            error = raised
        with self._changed:
            upstream.error, upstream.over = error, True
            self._changed.notify_all()


class _Upstream:
    """One watch of the API server, and its readers; it is ``over`` where the API server ended it."""

    def __init__(self, lines: Lines, version: str) -> None:
        self.lines = lines
        self.log = WatchLog(version)
        self.readers: set[Reader] = set()
        self.over = False
        self.error: Exception | None = None

    def shall_wait(self, line: bytes) -> bool:
        """Return whether to append the line only later, once the quickest reader has read further."""
        quickest = max((each.place for each in self.readers if not each.ended), default=self.log.end)
        first, middle = self.log.first_with(line), (self.log.first + self.log.end) // 2
        # half of the log is for slower readers
        return first > self.log.first and quickest < max(first, middle)


class Reader:
    """A reader of a shared watch (``listwatch.Lines``).

    ``fell_behind`` means at its end that it was too slow: the log has dropped its next line.
    """

    def __init__(self, shared: SharedWatch, upstream: _Upstream, version: str) -> None:
        self.upstream = upstream
        self.place = upstream.log.first
        self.ended = False
        self.fell_behind = False
        self._shared = shared
        self._version = version
        """The reader has all lines up to this version, so they are left out ..."""
        self._skips = version != upstream.log.version
        """... until the first line that is newer."""
        self._last = b""
        """The last line given, from whose version the reader may go on in another watch."""
        upstream.readers.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines; raise the error that ended the watch."""
        while lines := self._shared.take(self):
            for line in lines:
                if self.ended:
                    return
                yield line

    def close(self) -> None:
        """Leave at once."""
        self._shared.leave(self)

    # For the shared watch, which guards it.

    def has_news(self) -> bool:
        """Return whether there is anything to take, be it the end."""
        return self.ended or self.upstream.over or self.place < self.upstream.log.end

    def give(self, lines: list[bytes]) -> list[bytes] | None:
        """Return those of the next lines that the reader does not have.

        None where it looks for its place and finds a line that cannot be read: the reader ends, for that line
        may concern others alone, as "too old" concerns one that came from an earlier version.
        """
        self.place += len(lines)
        self._last = lines[-1]
        if not self._skips:
            return lines
        for number, line in enumerate(lines):
            if not (version := version_of(line)):
                self.ended = True
                return None
            if is_older(self._version, version):
                self._skips = False
                return lines[number:]
        return []

    def go_on_in(self, upstream: _Upstream, present: str) -> None:
        """Go on in a watch that began earlier; end where the reader's place is unknown, or not in its log."""
        if not self._skips and self._last:
            self._version = version_of(self._last)
        is_there = bool(self._version) and upstream.log.covers(self._version)
        if not is_there or is_older(present, self._version):
            self.ended = True
            return
        self.upstream.readers.discard(self)
        upstream.readers.add(self)
        self.upstream, self.place, self._skips = upstream, upstream.log.first, True
