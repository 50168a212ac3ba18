"""The pipe that a process logs to, with a reader that writes a file: as in a container, and it may hang."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_PART = 4096
"""Bytes that a full pipe takes wholly or not at all."""


class LogPipe:
    """A pipe; a process writes to ``end``, which its starter closes after that."""

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        reader, self.end = os.pipe()
        with path.open("wb") as file:
            self._reader = subprocess.Popen(
                ["cat"], stdin=reader, stdout=file, env={**os.environ, **settings}
            )
        os.close(reader)

    def hang(self, writer: int) -> None:
        """Stop reading, and fill the pipe of the process ``writer``."""
        self._reader.send_signal(signal.SIGSTOP)
        while state_of(self._reader.pid) != "T":
            time.sleep(0.001)
        end = os.open(f"/proc/{writer}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        try:
            for part in (b"\n" * _PART, b"\n"):
                _fill(end, part)
        finally:
            os.close(end)

    def read_on(self) -> None:
        """Read again."""
        self._reader.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Wait until all is in the file; the process has ended."""
        self.read_on()
        self._reader.wait()


def _fill(end: int, part: bytes) -> None:
    """Write until nothing more goes in."""
    while True:
        try:
            os.write(end, part)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return
            raise


def state_of(pid: int) -> str:
    """Return the letter that Linux has for what a process does: T where it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
