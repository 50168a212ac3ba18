"""Threads for calls that are awaited, of which none keeps a process from its end."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

IDLE_SECONDS = 10.0
"""After so long without a call a thread ends."""

Value = TypeVar("Value")


class CallThreads:
    """Runs calls in up to ``most`` threads, in the order in which they came.

    A ThreadPoolExecutor would let the process wait at its end for whatever hangs.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False
        self._lock = threading.RLock()  # a Condition's own ``with`` may be interrupted when it has the lock
        self._changed = threading.Condition(self._lock)

    def submit(self, call: Callable[[], Value]) -> Future[Value]:
        """Return what the call will return or raise; one that is cancelled before it runs does not run."""
        future: Future[Value] = Future()
        with self._lock:
            if self._idle > len(self._calls):
                self._changed.notify()
            elif len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name="distq-client", daemon=True)
                thread.start()  # first: where it fails nothing was submitted
                self._threads.add(thread)
            self._calls.append((future, call))
        return future

    def close(self) -> None:
        """Return when all that was submitted has run and the threads have ended."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        while taken := self._take():
            future, call = taken
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001  raised where it is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Wait for the next call; None ends the thread."""
        with self._lock:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls or self._closed, IDLE_SECONDS)
            self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._threads.discard(threading.current_thread())
            return None
