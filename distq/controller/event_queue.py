"""The messages for which a Manager's main thread waits: signals, failures, ends of its calls."""

import math
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Literal

from distq.beginning import leave
from distq.clock import SYSTEM_CLOCK, Clock
from distq.signals import LONGEST_WAIT

Message = signal.Signals | BaseException | Literal["stop", "called", "late"]

ONE_REQUEST = 0.5
"""Seconds within which a second signal is the first one's twin: ``timeout`` of coreutils sends two."""


class EventQueue:
    """Messages to one thread; any other, and a signal in the middle of anything, may put one."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._clock = clock

    def put(self, message: Message) -> None:
        """Leave a message; it is taken in the order in which they came."""
        self._messages.put(message)

    def next(self) -> Message:
        """Wait for the next message."""
        # not in one sleep: a signal that another thread received, or that came just before this one fell
        # asleep, does not wake it, and Python runs handlers in the main thread only
        while (message := self.next_within(LONGEST_WAIT)) is None:
            pass
        return message

    def next_within(self, seconds: float) -> Message | None:
        """Wait for the next message, ``seconds`` at most; return None if none came."""
        with suppress(queue.Empty):
            return self._messages.get(timeout=seconds)
        return None

    @contextmanager
    def receiving_signals(self) -> Iterator[None]:
        """Take SIGTERM, SIGINT, and the end of a terminal as messages, if this is the main thread.

        Twins are one message.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        received_at = -math.inf

        def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
            nonlocal received_at
            now = self._clock.monotonic()  # here: on a busy machine the thread may take the twin much later
            if now >= received_at + ONE_REQUEST:
                received_at = now
                self.put(signal.Signals(number))

        numbers = [signal.SIGTERM, signal.SIGINT]
        # else nohup, or a program with a use for it
        if signal.getsignal(signal.SIGHUP) in {signal.SIG_DFL, leave}:
            numbers.append(signal.SIGHUP)
        try:
            for number in numbers:
                _replaced[number] = signal.getsignal(number)
                signal.signal(number, handle)
            yield
        finally:
            for number in list(_replaced):
                _restore(number)


_replaced: dict[signal.Signals, Any] = {}
"""The handlers in whose place messages are put, by their signals."""


def _restore(number: signal.Signals) -> None:
    signal.signal(number, _replaced.pop(number) or signal.SIG_DFL)  # None: a handler that is not Python's


_masks = threading.local()  # two threads may fork at once, and each has a mask


def _before_fork() -> None:
    """Let a SIGTERM that comes early wait until the child has the handler of its parent."""
    _masks.present = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.present)


def _after_fork_in_child() -> None:
    """Let SIGTERM end the child, as ``multiprocessing`` ends its workers: nothing there takes messages."""
    if signal.SIGTERM in _replaced:  # not SIGINT: a terminal sends it to both, and the parent drains
        _restore(signal.SIGTERM)
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
