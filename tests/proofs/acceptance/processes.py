"""Informers and workers as they are deployed: ``python -m distq`` in processes of their own."""

import signal
import time
from collections.abc import Mapping
from pathlib import Path

from distq.cli.demo.journal import Entry, read_journal
from tests.proofs.acceptance.journaled_sample import HOLD
from tests.support.programs import start_program

TARGET = "tests.proofs.acceptance.journaled_sample"


class Process:
    """A distq command that runs the journaled sample in a folder of its own."""

    def __init__(self, command: str, folder: Path, settings: Mapping[str, str]) -> None:
        self.name = folder.name
        self.killed_at: float | None = None
        self._folder = folder
        self._process = start_program(["distq", command, TARGET], folder, settings)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    @property
    def fell(self) -> bool:
        """Return whether it ended by itself, without a kill."""
        return self.killed_at is None and self._process.poll() is not None

    def log(self) -> str:
        """Return what it said so far."""
        return (self._folder / "log").read_text(errors="replace")

    def journal(self) -> list[Entry]:
        """Return what it reconciled; what was open when it was killed ended with it."""
        entries = read_journal(self._folder, self.pid)
        for entry in entries:
            entry.end = entry.end or self.killed_at
        return entries

    def open(self) -> list[Entry]:
        """Return what it reconciles now."""
        return [entry for entry in self.journal() if entry.end is None]

    def hold(self) -> None:
        """Let its reconciles begin, but not go on."""
        (self._folder / HOLD).touch()

    def go_on(self) -> None:
        """Let its reconciles go on."""
        (self._folder / HOLD).unlink()

    def freeze(self) -> None:
        """SIGSTOP it."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT it."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL it and wait until it is dead."""
        self._process.kill()
        self._process.wait()
        self.killed_at = time.monotonic()

    def killed_in_mid_reconcile(self) -> bool:
        """Kill it if it reconciles something at this moment; return whether it did."""
        self.freeze()  # nothing ends between the look and the kill
        if self.open():
            self.kill()
        else:
            self.thaw()
        return self.killed_at is not None

    def terminate(self) -> None:
        """SIGTERM it."""
        self._process.terminate()

    def wait(self, timeout: float) -> int:
        """Return its exit status."""
        return self._process.wait(timeout)
