"""Reads a watch ahead of the thread that handles it, so that handling finds in one go all that has come.

A batch then has the events that came while the last batch was handled: one when little happens, many when
much does. It never waits for more events than the taker asks for.
"""

import threading
from collections.abc import Iterable
from time import sleep

from distq.clock import Clock
from distq.redisio.limits import READ_AHEAD_BYTES, READ_AHEAD_LINES

GATHERED = 1 << 18
"""Bytes after which the reader pauses, while many lines are wanted."""

PAUSE = 0.003
"""Seconds of that pause: to be woken for each line that comes costs more than to read it."""


class ReadAhead:
    """Pull lines in a thread of its own and hand over all that are there."""

    def __init__(self, lines: Iterable[bytes], name: str, clock: Clock) -> None:
        self._source = lines
        self._clock = clock
        self._lines: list[bytes] = []
        self._size = 0
        """Bytes of the lines; past READ_AHEAD_BYTES the socket fills, and the API server waits."""
        self._since = 0.0
        """When the first of the lines came."""
        self._wanted = 1
        """Lines at which the taker is woken."""
        self._ended = False
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def take(self, timeout: float, *, wanted: int = 1) -> tuple[list[bytes], float]:
        """Return the lines and the monotonic time at which the first of them came; none after the timeout.

        It waits for ``wanted`` lines, but no longer than the timeout; to be woken for each line costs more
        than a line. Raises EOFError when the watch ended and all its lines were taken, or the error that
        ended it.
        """
        with self._changed:
            self._wanted = wanted
            self._changed.wait_for(lambda: len(self._lines) >= wanted or self._ended, timeout)
            if not self._lines and self._ended:
                raise self._error or EOFError
            lines, self._lines, self._size = self._lines, [], 0
            self._changed.notify_all()  # the reader may wait for room
            return lines, self._since

    def close(self) -> None:
        """Wait for the reader, whose source was closed; drop the lines that it had read."""
        self._end()
        self._thread.join()

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read(self) -> None:
        read = 0
        try:
            for line in self._source:
                with self._lock:  # which costs a fifth of entering the condition
                    while not self._ended and (
                        len(self._lines) >= READ_AHEAD_LINES or self._size >= READ_AHEAD_BYTES
                    ):
                        self._changed.wait()
                    if self._ended:
                        return
                    if not self._lines:
                        self._since = self._clock.monotonic()
                    self._lines.append(line)
                    self._size += len(line)
                    if len(self._lines) >= self._wanted:
                        self._changed.notify()
                read += len(line)
                if read >= GATHERED and self._wanted > 1:
                    sleep(PAUSE)  # not the clock's: it is the network that needs time
                    read = 0
        except Exception as error:  # noqa: BLE001 - handed to the taker
            self._error = error
        self._end()
