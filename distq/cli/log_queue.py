"""A bounded queue between the threads that log and the pipe, file or terminal that takes the lines.

A write to a full pipe lasts until its reader reads, perhaps for ever. So one thread of its own writes, and
no thread that keeps promises waits for it: a line that does not fit is dropped and counted.
"""

import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener
from typing import Any, TextIO

from distq.forks import begin_after_fork
from distq.wording import counted

WAITING_BYTES = 4 * 1024 * 1024
"""Bytes of lines that may wait to be written."""

LINE_COST = 100
"""Bytes that a line counts beside its letters, so that the bound on bytes bounds the number of lines, too."""

FLUSH_TIME = 0.3
"""Seconds that the end of a command waits until all lines are written."""

_STDERR = 2
_CAUSES = "stderr was full or closed, or not read fast enough"


class LogQueue(QueueHandler):
    """Formats a record in the thread that logs it, and leaves the line to a thread that writes.

    No lock is held while a record is formatted: a ``__str__`` of the program that hangs holds up its own
    thread only. ``dropped`` counts the lines that did not fit or could not be written, since the start.
    ``on_dropped`` receives how many, in the thread that writes, once it goes on.
    """

    queue: Any  # a SimpleQueue: a signal's handler may log in the midst of ``put``

    def __init__(self, formatter: logging.Formatter, stream: TextIO | None = None) -> None:
        super().__init__(queue.SimpleQueue())
        self.setFormatter(formatter)
        self.dropped = 0
        self.on_dropped: Callable[[int], None] = lambda _: None
        self._stream = sys.stderr if stream is None else stream
        self._is_stderr = _is_stderr(self._stream)
        self._counted = self._reported = 0
        self.begin()
        begin_after_fork(self)

    def begin(self) -> None:
        """Begin with an empty queue and a thread that writes."""
        # the old one may have lines that the parent of a fork writes
        self.queue = queue.SimpleQueue()
        self._accounts = threading.RLock()  # a signal's handler may log, in the thread that holds it
        self._waiting = 0
        _Writer(self.queue, self._write_out).start()

    def createLock(self) -> None:  # noqa: N802 - logging's name
        """Have none: the queue needs none, and ``logging`` would wait for it when the process ends."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Queue what passes the filters; from Python 3.13 on ``logging``'s own method needs a lock."""
        passed = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return bool(passed)

    def prepare(self, record: logging.LogRecord) -> str:
        """Return the whole line."""
        return self.format(record) + "\n"

    def enqueue(self, record: Any) -> None:
        """Let a line wait for the thread that writes, or drop it where too many wait."""
        with self._accounts:
            if self._waiting >= WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting += _cost(record)
        self.queue.put(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Write a line about a record that cannot be formatted; ``logging`` would print to stderr itself."""
        where = f"{record.name} ({record.pathname}:{record.lineno})"
        error = type(sys.exception()).__name__
        self.enqueue(self._line(f"a log line of {where} cannot be formatted: {error}", logging.ERROR))

    def flush_within(self, seconds: float) -> bool:
        """Wait until all lines are written, no longer than this; return whether they are."""
        written = threading.Event()
        self.queue.put(written)
        return written.wait(seconds)

    def close(self) -> None:
        """End the thread that writes, after it has written the waiting lines."""
        super().close()
        self.queue.put(None)

    def _write_out(self, line: str) -> None:
        try:
            self._write(line)
        except (OSError, ValueError):  # the disk is full, the reader went away, or the stream was closed
            is_written = False
        else:
            is_written = True
        with self._accounts:
            self._waiting -= _cost(line)
            self.dropped += not is_written
        self._count_dropped(is_written=is_written)

    def _write(self, line: str) -> None:
        if not self._is_stderr:
            self._stream.write(line)
            self._stream.flush()
            return
        # past the buffer of stderr: its lock, which a writer holds, is waited for when the interpreter ends
        left = line.encode(self._stream.encoding or "utf-8", "backslashreplace")
        while left:
            try:
                left = left[os.write(_STDERR, left) :]
            except BlockingIOError:  # another process with the same terminal or pipe made it so
                select.select([], [_STDERR], [])

    def _count_dropped(self, *, is_written: bool) -> None:
        """Count the lines dropped lately; where the last line was written, report all that were not yet."""
        newly, unreported = self.dropped - self._counted, self.dropped - self._reported
        if is_written and unreported:
            why = f"{counted(unreported, 'log line')} dropped: {_CAUSES}"
            with suppress(OSError, ValueError):
                self._write(self._line(why, logging.WARNING))
                self._reported += unreported
        if newly:
            self._counted += newly
            self.on_dropped(newly)

    def _line(self, message: str, level: int) -> str:
        return self.prepare(logging.LogRecord("distq", level, __file__, 0, message, None, None))


class _Writer(QueueListener):
    """The thread that writes; it ends with the process."""

    def __init__(self, lines: Any, write: Callable[[str], None]) -> None:
        super().__init__(lines)
        self._write = write

    def handle(self, record: Any) -> None:
        """Write a line, or note that all lines before are written."""
        if isinstance(record, threading.Event):
            record.set()
            return
        with suppress(Exception):  # of the provider that counts: the next line must be written all the same
            self._write(record)


def _is_stderr(stream: TextIO) -> bool:
    try:
        return stream.fileno() == _STDERR
    except (OSError, ValueError, AttributeError):  # a stream in memory, as in tests, or none
        return False


def _cost(line: str) -> int:
    return len(line) + LINE_COST
