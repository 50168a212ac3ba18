"""The last lines of a watch, for readers that take them each at its own pace."""

from collections import deque

from distq.informer.objects import is_older
from distq.informer.wire import version_of
from distq.redisio.limits import WATCH_BYTES, WATCH_LINES

AT_ONCE = 100
"""Lines handed out at once."""


class WatchLog:
    """What a watch from ``version`` on showed last; ``first`` and ``end`` count its lines."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.first = 0
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = b""  # the last line that is here no more

    @property
    def end(self) -> int:
        """Return the number of the line that comes next."""
        return self.first + len(self._lines)

    @property
    def middle(self) -> int:
        """Return the number of the line in the middle."""
        return self.first + len(self._lines) // 2

    def first_with(self, line: bytes) -> int:
        """Return the number of the oldest line that is still here once a line more is."""
        count, size = len(self._lines) + 1, self._size + len(line)
        lines = iter(self._lines)
        while count > WATCH_LINES or (size > WATCH_BYTES and count > 1):
            count, size = count - 1, size - len(next(lines))
        return self.end + 1 - count

    def append(self, line: bytes) -> None:
        """Keep a line, and drop the oldest that are too many."""
        self._lines.append(line)
        self._size += len(line)
        while len(self._lines) > WATCH_LINES or (self._size > WATCH_BYTES and len(self._lines) > 1):
            self._dropped = self._lines.popleft()
            self._size -= len(self._dropped)
            self.first += 1

    def after(self, place: int) -> list[bytes]:
        """Return lines from that number on, as many as are handed out at once; it must not be dropped."""
        ends = min(len(self._lines), place - self.first + AT_ONCE)
        return [self._lines[number] for number in range(place - self.first, ends)]

    def covers(self, version: str) -> bool:
        """Return whether nothing is missing of what came after that version, as far as is known."""
        begins = version_of(self._dropped) if self._dropped else self.version
        return bool(begins) and not is_older(version, begins)
