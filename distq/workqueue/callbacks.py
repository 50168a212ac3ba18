"""The functions of the user that a turn waits for: a custom limiter, and ``on_cancel``."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distq.errors import ConfigError


class Callbacks:
    """Refuses calls that could never end: those of a turn, from a function that this turn waits for."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start from nothing; also in the child of a fork, which makes turns of its own."""
        self._threads = set[int]()
        """The threads, by ident, that are in such a function; mostly none, so a turn pays for one look."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note that this thread calls a function of the user."""
        self._threads.add(threading.get_ident())
        try:
            yield
        finally:
            self._threads.discard(threading.get_ident())

    def is_in_one(self) -> bool:
        """Return whether this thread is in such a function."""
        return threading.get_ident() in self._threads

    def refuse_turn(self) -> None:
        """Raise ConfigError if this thread is in such a function."""
        if self._threads and self.is_in_one():
            raise ConfigError(
                "a limiter or on_cancel settles, claims or backs off in the middle of a turn of the same "
                "queue, which cannot end before it. Let another thread do that; it may call add."
            )
