"""How late this machine is: what a promise of seconds cannot be held to."""

import threading
import time

_TICK = 0.02
_STEPS = 5
"""So often a process may wait for the processor from when it is asked to end until it has ended."""


class Lateness(threading.Thread):
    """Sleeps for a moment, again and again, and notes by how much too late it woke."""

    def __init__(self) -> None:
        super().__init__(name="lateness", daemon=True)
        self._worst = 0.0
        self._ended = threading.Event()

    def run(self) -> None:
        """Go on until the end."""
        while not self._ended.is_set():
            due = time.monotonic() + _TICK
            time.sleep(_TICK)
            self._worst = max(self._worst, time.monotonic() - due)

    def forget(self) -> None:
        """Begin anew."""
        self._worst = 0.0

    def slack(self) -> float:
        """Return the seconds by which something that is done in time may have ended late."""
        return _STEPS * self._worst

    def end(self) -> None:
        """Stop for good."""
        self._ended.set()
        self.join()
