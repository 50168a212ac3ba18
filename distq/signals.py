"""Signals that wait in a queue for the main thread.

A handler may run between any two instructions of the main thread, so it can do little: an exception that it
raises in a destructor or in the callback of a weak reference is printed and lost, and an Event that it sets
may wait for a lock that the main thread itself has at that moment. It can put into a SimpleQueue.
"""

import queue
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

Signals = queue.SimpleQueue[int]

_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LONGEST_WAIT = 1.0
"""Seconds that the main thread waits at a time: a signal that another one received does not wake it."""


@contextmanager
def received_signals() -> Iterator[Signals]:
    """Put SIGTERM, SIGINT and SIGHUP into a queue, but none that is ignored, as nohup lets SIGHUP be."""
    signals: Signals = queue.SimpleQueue()
    heeded = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: signals.put(number)) for number in heeded}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: a handler that is not Python's


def next_signal(signals: Signals) -> int:
    """Wait for a signal and return its number."""
    while True:
        with suppress(queue.Empty):
            return signals.get(timeout=LONGEST_WAIT)
