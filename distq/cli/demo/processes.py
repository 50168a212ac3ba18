"""The demo's informers and workers: real processes, started as anyone would, two of them killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distq.cli.demo.journal import Entry, read_journal

TARGET = "distq.cli.demo.controller"


class Process:
    """A distq command in a process of its own; its log and journal are files in ``folder``."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], *command: str) -> None:
        self.name = name
        self.role = command[0]
        self.killed_at: float | None = None
        self._folder = folder
        with (folder / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "distq", *command, TARGET, "--log-format", "json"],
                cwd=folder,
                env={name: value for name, value in os.environ.items() if not name.startswith("DISTQ_")}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which stops them in order
            )

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL it and wait until it is dead."""
        self._process.kill()
        self._process.wait()
        self.killed_at = time.monotonic()

    def kill_in_mid_reconcile(self) -> None:
        """Kill it while it reconciles something, or after 3 s without."""
        deadline = time.monotonic() + 3.0
        while True:
            self._process.send_signal(signal.SIGSTOP)  # nothing ends between the look and the kill
            running = any(entry.end is None for entry in read_journal(self._folder, self._process.pid))
            if running or time.monotonic() > deadline:
                self.kill()
                return
            self._process.send_signal(signal.SIGCONT)
            time.sleep(0.01)

    def stop(self) -> None:
        """Ask it to stop."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        """Return its exit status; kill it when it does not stop in time."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def journal(self) -> list[Entry]:
        """Return what it reconciled; what a killed process had begun ended with it."""
        entries = read_journal(self._folder, self._process.pid)
        for entry in entries:
            entry.end = entry.end or self.killed_at
        return entries

    def says_follower(self) -> bool:
        """Return whether an informer's log shows that it competes for the lease."""
        return b"wants to lead" in (self._folder / f"{self.name}.log").read_bytes()

    def last_words(self) -> str:
        """Return the end of its log."""
        return (self._folder / f"{self.name}.log").read_text(errors="replace")[-1000:].strip()
