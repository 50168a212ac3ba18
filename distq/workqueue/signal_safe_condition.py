"""Waiting for a condition that a signal's handler may change, in the very thread that waits for it.

The locks of ``threading.Condition`` and ``Event`` would wait for the thread that the handler interrupted,
or lose its call between the check of the condition and the sleep.
"""

import math
import threading
from collections.abc import Callable
from contextlib import suppress

from distq.clock import Clock


class SignalSafeCondition:
    """A condition variable without a mutex: ``notify`` may be called anywhere, at any moment.

    First change what ``predicate`` reads, then notify.
    """

    def __init__(self) -> None:
        self._bells: list[Bell] = []

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None, clock: Clock) -> bool:
        """Sleep until the predicate holds or ``timeout`` seconds went by; return whether it holds."""
        deadline = math.inf if timeout is None else clock.monotonic() + timeout
        while True:
            bell = Bell()
            self._bells.append(bell)  # before the check: what changes after it rings
            try:
                if predicate():
                    return True
                left = deadline - clock.monotonic()
                if left <= 0:
                    return False
                clock.wait(bell, min(left, threading.TIMEOUT_MAX))
            finally:
                with suppress(ValueError):  # it rang
                    self._bells.remove(bell)

    def notify(self) -> None:
        """Let the one who has waited longest check its predicate again."""
        with suppress(IndexError):
            self._bells.pop(0).set()

    def notify_all(self) -> None:
        """Let all who wait check their predicates again."""
        for bell in self._bells.copy():
            bell.set()


class Bell(threading.Event):
    """An event for one waiter, of one bare lock: to set it takes no other."""

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def set(self) -> None:
        """End the wait, or the one to come."""
        self._is_set = True
        with suppress(RuntimeError):  # set twice
            self._silence.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set or ``timeout`` seconds went by."""
        self._silence.acquire(timeout=-1 if timeout is None else timeout)
        return self._is_set
