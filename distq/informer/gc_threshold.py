"""Keeps the cyclic collector out of big lists, whose time it triples without finding anything in them."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLD = 100_000
"""Objects made between two collections of the youngest, instead of some hundreds."""

_lists = 0
_lists_lock = threading.Lock()
_thresholds = gc.get_threshold()


@contextmanager
def raised_gc_threshold() -> Iterator[None]:
    """Let the collector run rarely within the block; several threads may be in one at a time."""
    global _lists, _thresholds  # noqa: PLW0603 - the collector is the process's, and so is their count
    with _lists_lock:
        if not _lists:
            _thresholds = gc.get_threshold()
            gc.set_threshold(THRESHOLD, *_thresholds[1:])
        _lists += 1
    try:
        yield
    finally:
        with _lists_lock:
            _lists -= 1
            if not _lists:
                gc.set_threshold(*_thresholds)
