"""The one event that an elector waits for, since Python waits for one at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distq.clock import Clock


class Wakeup:
    """Ends an elector's waiting: a record came, the work of its term failed, or it shall stop."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._event = threading.Event()

    def set(self) -> None:
        """End the present wait, or the next one."""
        self._event.set()

    def clear(self) -> None:
        """Forget what happened so far."""
        self._event.clear()

    def wait(self, seconds: float) -> bool:
        """Wait until something happens, or so long; return whether something did."""
        woken = self._clock.wait(self._event, max(0.0, seconds))
        self._event.clear()
        return woken

    @contextmanager
    def set_by(self, stop: threading.Event) -> Iterator[None]:
        """Let ``stop`` end waits, too, within the block."""
        ended = threading.Event()

        def relay() -> None:
            while not ended.is_set() and not stop.wait(1.0):
                pass
            self._event.set()

        threading.Thread(target=relay, name=f"distq-election-stop-{self._name}", daemon=True).start()
        try:
            yield
        finally:
            ended.set()
