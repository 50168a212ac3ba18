"""The one event that an elector waits for, since Python waits for one at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distq.clock import Clock


class Wakeup(threading.Event):
    """Ends an elector's waiting: a record came, the work of its term failed, or it is to stop."""

    def __init__(self, clock: Clock, name: str) -> None:
        super().__init__()
        self._clock = clock
        self._name = name

    def wait_once(self, seconds: float) -> bool:
        """Wait until something happens, or so long; return whether something did, and forget it."""
        woken = self._clock.wait(self, max(0.0, seconds))
        self.clear()
        return woken

    @contextmanager
    def set_by(self, stop: threading.Event) -> Iterator[None]:
        """Let ``stop`` end waits, too, within the block."""
        ended = threading.Event()

        def relay() -> None:
            while not ended.is_set() and not stop.wait(1.0):  # a second after the block it ends in any case
                pass
            self.set()

        threading.Thread(target=relay, name=f"distq-election-stop-{self._name}", daemon=True).start()
        try:
            yield
        finally:
            ended.set()
