"""One elector of this process for each lock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distq.errors import ConfigError
from distq.leaderelection.lock import Lock

_competing: set[int] = set()
_competing_lock = threading.Lock()


@contextmanager
def exclusive(lock: Lock) -> Iterator[None]:
    """Keep other electors of this process off a lock, since its record would name them all.

    Raises ConfigError where one competes for it already.
    """
    with _competing_lock:
        if id(lock) in _competing:
            raise ConfigError(
                f"bad leader election: {lock.describe()} is competed for with this lock already. Give each "
                "elector a lock of its own, and run it once at a time."
            )
        _competing.add(id(lock))
    try:
        yield
    finally:
        _competing.discard(id(lock))
