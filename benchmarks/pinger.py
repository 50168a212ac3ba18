"""Asks a server again and again whether it is there: ``python -m benchmarks.pinger URL``.

It prints "ready", pings until it reads a line, and prints the longest answer in ms. It is a process of its
own, so that nothing but the server, and the machine, keeps it waiting.
"""

import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from distq.redisio.connection import Connection

PAUSE = 0.0005
"""Seconds between an answer and the next question."""


class Pinger:
    """A process that pings as long as the context lasts; ``worst`` is then the longest answer, in ms."""

    def __init__(self, url: str) -> None:
        self.worst = 0.0
        self._url = url

    def __enter__(self) -> Self:
        """Start it, and wait until it pings."""
        command = [sys.executable, "-m", __name__, self._url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said, _ = self._process.communicate("stop\n", timeout=60)
        if error is None:
            self.worst = float(said)


def main(url: str) -> None:
    """Ping until a line comes."""
    connection, worst = Connection(url), 0.0
    for _ in range(20):
        connection.execute("PING")
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE)[0]:
        began = time.perf_counter()
        connection.execute("PING")
        worst = max(worst, time.perf_counter() - began)
    print(worst * 1e3)


if __name__ == "__main__":
    main(sys.argv[1])
