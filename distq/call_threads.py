"""Threads for calls that coroutines await, or that run apart; they never delay the end of a process."""

import asyncio
import contextvars
import functools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from distq.forks import begin_after_fork

IDLE_SECONDS = 10.0
"""Seconds without a call after which a thread ends."""

Value = TypeVar("Value")


class AwaitedCalls:
    """Blocking calls that coroutines of any event loop await, ``most`` at a time; more wait for a thread.

    A call that is cancelled while it waits for a thread is not made. A call that has its thread continues.
    After a fork the child has its own threads.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self.begin()
        begin_after_fork(self)

    def begin(self) -> None:
        """Start from nothing; also in the child of a fork: a thread of the parent may have held the lock."""
        self._lock = threading.Lock()
        self._threads: CallThreads | None = None

    async def call(self, function: Callable[[], Value]) -> Value:
        """Call a function in one of the threads, with the caller's context variables."""
        function = functools.partial(contextvars.copy_context().run, function)
        with self._lock:
            if self._threads is None:
                self._threads = CallThreads(self._most, self._name)
            future = self._threads.submit(function)
        return await asyncio.wrap_future(future)

    async def aclose(self) -> None:
        """Wait for the calls that were made, and end the threads; a later call starts new ones."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            # apart, because it waits for calls, and the loop goes on meanwhile
            await asyncio.wrap_future(call_apart(threads.close, f"{self._name}-end"))


class CallThreads:
    """Runs calls in up to ``most`` threads, in the order of their submission.

    With a ThreadPoolExecutor, the end of the process would wait for calls that hang.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False
        self._lock = threading.RLock()  # a Condition's own ``with`` may be interrupted when it has the lock
        self._changed = threading.Condition(self._lock)

    def submit(self, call: Callable[[], Value]) -> Future[Value]:
        """Return the future of a call; a call that is cancelled before it runs does not run."""
        future: Future[Value] = Future()
        with self._lock:
            if self._idle > len(self._calls):  # each call in the queue has woken one of the idle threads
                self._changed.notify()
            elif len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                thread.start()  # first: if it fails, nothing was submitted
                self._threads.add(thread)
            self._calls.append((future, call))
        return future

    def close(self) -> None:
        """Wait until all submitted calls have run and the threads have ended."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        while taken := self._take():
            if taken[0].set_running_or_notify_cancel():
                _answer(*taken)
            del taken  # while this thread waits it keeps neither the call nor its result

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Wait for the next call; None ends the thread."""
        with self._lock:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls or self._closed, IDLE_SECONDS)
            self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._threads.discard(threading.current_thread())  # with the lock: submit counts the threads
            return None


def call_apart(call: Callable[[], Value], name: str) -> Future[Value]:
    """Make a call in its own thread, which does not delay the end of the process; return its future."""
    future = Future[Value]()
    future.set_running_or_notify_cancel()  # the wait for it can be cancelled, but not the call
    threading.Thread(target=_answer, args=(future, call), name=name, daemon=True).start()
    return future


def _answer(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  raised where it is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
