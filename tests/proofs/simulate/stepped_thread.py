"""Code of many processes in one, a step at a time: the schedule chooses the next, never the machine."""

import threading
from collections.abc import Callable

from distq.testing.fake_clock import FakeClock


class ProcessKilled(BaseException):
    """A simulated process is at its end: nothing may catch it, as nothing catches SIGKILL."""


class SteppedThread:
    """A thread that runs only during ``step``, until it pauses or ends."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.ended = False
        self.error: BaseException | None = None
        self.killed = False
        self.wakes_at = 0.0
        """The monotonic time until which it sleeps."""
        self._run = run
        self._go, self._paused = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._paused.acquire()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let it run to its next pause, without interruption."""
        self._go.release()
        self._paused.acquire()
        if self.ended:
            self._thread.join()

    def pause(self, until: float = 0.0) -> None:
        """Let others go on, in the thread itself."""
        if not self.killed:
            self.wakes_at = until
            self._paused.release()
            self._go.acquire()
        if self.killed:
            raise ProcessKilled

    def kill(self) -> None:
        """End it where it is; nothing that it would do any more has an effect."""
        self.killed = True
        if not self.ended:
            self.step()

    def _main(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self._run()
        except BaseException as error:  # noqa: BLE001 - the simulation looks at it
            self.error = error
        self.ended = True
        self._paused.release()


class SteppedClock(FakeClock):
    """The clock of all simulated processes; a process that waits gives way to the others."""

    running: SteppedThread | None = None

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Pause until the time has come by this clock."""
        assert self.running is not None
        self.running.pause(self.monotonic() + timeout)
        return event.is_set()
