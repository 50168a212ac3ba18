"""Waiting for announcements of other threads, by a clock that a test may replace."""

import math
import threading
from collections.abc import Callable

from distq.clock import Clock
from distq.forks import begin_after_fork


class Announcement:
    """Wakes all threads that wait for a predicate: first change the state it reads, then ``announce``."""

    def __init__(self) -> None:
        self.begin()
        begin_after_fork(self)

    def begin(self) -> None:
        """Start from nothing; also in the child of a fork: a thread of the parent may have held the lock."""
        self._lock = threading.RLock()  # within it the garbage collector may end a loop over listen
        self._waiting: list[threading.Event] = []

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None, clock: Clock) -> bool:
        """Sleep until the predicate holds or ``timeout`` seconds have passed; return whether it holds."""
        deadline = math.inf if timeout is None else clock.monotonic() + timeout
        changed = threading.Event()
        with self._lock:
            self._waiting.append(changed)
        try:
            while not (holds := predicate()) and (left := deadline - clock.monotonic()) > 0:
                clock.wait(changed, min(left, threading.TIMEOUT_MAX))  # a longer one raises OverflowError
                changed.clear()
            return holds
        finally:
            with self._lock:
                self._waiting.remove(changed)

    def announce(self) -> None:
        """Let all waiting threads check their predicates again."""
        if not self._waiting:  # a thread that begins to wait now checks its predicate after that
            return
        with self._lock:
            for changed in self._waiting:
                changed.set()
