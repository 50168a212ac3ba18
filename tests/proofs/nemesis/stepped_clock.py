"""A clock of the server that steps for all processes at once: scripts get its time, from a shared file.

libfaketime ends redis-server 7, so the time comes from where tests may give it anyway
(``Connection.server_time``); each process looks at the offset with every call.
"""

import mmap
import os
import struct
import time
from pathlib import Path

from distq.redisio.connection import Connection

VARIABLE = "NEMESIS_CLOCK"
_OFFSET = struct.Struct("d")


class SteppedClock:
    """An offset in seconds, in a file that processes share."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_OFFSET.pack(0.0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _OFFSET.size)

    def step(self, seconds: float) -> None:
        """Let the server's clock be so many seconds away from the right time."""
        self._memory[:] = _OFFSET.pack(seconds)

    @property
    def server_time(self) -> int:
        """Return the time that scripts get: µs, or 0 for the server's own clock."""
        (seconds,) = _OFFSET.unpack(self._memory[:])
        return int((time.time() + seconds) * 1e6) if seconds else 0


def install() -> None:
    """Let all Connections of this process go by the shared clock, if the environment names one."""
    if path := os.environ.get(VARIABLE):
        clock = SteppedClock(Path(path))
        Connection.server_time = property(lambda _: clock.server_time)  # type: ignore[assignment,method-assign]
