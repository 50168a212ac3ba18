"""One process of the fleet: how it is started, killed, frozen and read."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import ROOT
from tests.proofs.nemesis.journal import JournalReader, Reconcile
from tests.proofs.nemesis.judge import FOREVER, Span
from tests.proofs.nemesis.log_pipe import LogPipe, state_of
from tests.support.programs import start_program

_WITHIN = 60.0


class FleetProcess:
    """A Python program in a folder of its own, with a journal."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        folder: Path,
        settings: Mapping[str, str],
        root: Path = ROOT,
    ) -> None:
        self.name = name
        self.folder = folder
        self.journal = JournalReader(folder / "journal", folder.name)
        self.ended_at: float | None = None
        self.is_leaving = False
        """Whether it was asked to end, so that it is no surprise."""
        self.frozen: list[Span] = []
        folder.mkdir(parents=True)
        self.log_pipe = LogPipe(folder / "log", settings)
        self._process = start_program(arguments, folder, settings, root, log=self.log_pipe.end)
        os.close(self.log_pipe.end)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether it has ended; note when that was seen first."""
        if self.ended_at is None and self._process.poll() is not None:
            self.ended_at = time.monotonic()
            self.log_pipe.close()
        return self.ended_at is not None

    @property
    def status(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """Return what it said so far."""
        return (self.folder / "log").read_text(errors="replace")

    def running(self) -> list[Reconcile]:
        """Return what it reconciles at this moment."""
        self.journal.read_on()
        return [run for run in self.journal.reconciles.values() if run.ended is None]

    def kill(self) -> None:
        """SIGKILL it and wait until it is dead."""
        if self.ended_at is None:
            self._process.kill()
            self._process.wait()
            self.ended_at = time.monotonic()
            self.log_pipe.close()

    def freeze(self) -> None:
        """SIGSTOP it, and return when it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        while state_of(self.pid) != "T":
            time.sleep(0.001)
        self.frozen.append((time.monotonic(), FOREVER))

    def thaw(self) -> None:
        """SIGCONT it."""
        self.frozen[-1] = (self.frozen[-1][0], time.monotonic())
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM it."""
        self.is_leaving = True
        self._process.terminate()

    def wait(self) -> int:
        """Return its exit status, once it has ended."""
        status = self._process.wait(_WITHIN)
        self.ended_at = self.ended_at or time.monotonic()
        return status

    def forget_memory(self) -> None:
        """Let ``peak_memory`` begin anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_memory(self) -> int:
        """Return the most bytes of memory that it had at a time."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    def close_journal(self) -> None:
        """Read to the end; what still ran as the process ended has ended with it, and was not kept."""
        self.journal.read_on()
        if self.has_ended():
            for run in self.journal.reconciles.values():
                run.ended = run.ended or self.ended_at
