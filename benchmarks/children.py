"""Child processes that are measured from outside: their CPU time and their memory."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from distq.errors import DistqError

TIMEOUT = 300.0


@dataclass(frozen=True)
class Usage:
    """What a child used from its beginning on: seconds, and MB above what it had before."""

    wall: float
    cpu: float
    peak: float
    steady: float


class Child:
    """A program that prints "ready", waits for a line, and prints what it does; a context manager."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._command = [str(word) for word in command]
        self._environment = environment
        self._timeout = timeout
        self.said: list[str] = []
        self._errors: list[str] = []
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        """Start it; it may be started again after its end."""
        self.said, self._errors = [], []
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            text=True,
        )
        self._ended = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._error_reader.start()
        try:
            self.wait_for("ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin(self) -> None:
        """Let it begin, and wait until all is there."""
        self._forget_peak()
        self._base, self._cpu, self._wall = self._memory("VmRSS"), self.cpu(), time.monotonic()
        self.send("go")
        self.wait_for("synced")
        self._wall = time.monotonic() - self._wall

    def send(self, line: str) -> None:
        """Let it read a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def usage(self) -> Usage:
        """Return what it used since it began; the wall time ends where all was there."""
        return Usage(
            wall=self._wall,
            cpu=self.cpu() - self._cpu,
            peak=self._memory("VmHWM") - self._base,
            steady=self._memory("VmRSS") - self._base,
        )

    def cpu(self) -> float:
        """Return the CPU time of all its threads, also those that ended, in seconds."""
        return self.cpu_of(self._process.pid)

    def peak(self) -> float:
        """Return the most memory that it had, in MB."""
        return self._memory("VmHWM")

    @staticmethod
    def cpu_of(pid: int) -> float:
        """Return the CPU time of any process of ours, in seconds."""
        return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3), as Linux makes it

    def rest(self, seconds: float) -> None:
        """Let it come to rest."""
        time.sleep(seconds)

    def wait_for(self, word: str) -> str:
        """Return the first line of its that begins so; raise DistqError where it ends before."""

        def found() -> list[str]:
            return [line for line in self.said if line.startswith(word)]

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, self._timeout)
            if lines := found():
                return lines[0]
        raise self._failed(f"was never {word}")

    def require_alive(self) -> None:
        """Raise DistqError where it has ended."""
        if self._process.poll() is not None:
            raise self._failed("has ended")

    def _failed(self, how: str) -> DistqError:
        self._error_reader.join(1)
        reason = self._errors[-1].strip() if self._errors else "it said nothing"
        return DistqError(f"{' '.join(self._command[:4])} ... {how}: {reason}")

    def received(self) -> list[tuple[str, float]]:
        """Return the names that it printed so far, and when on the monotonic clock it received each."""
        with self._changed:
            lines = [line.split() for line in self.said if line.startswith("heard ")]
        return [(name, float(at)) for _, name, at in lines]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.said.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._error_reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _memory(self, field: str) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1000

    def _forget_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")


def follower(subject: str, *arguments: object) -> Child:
    """Return a child that runs a subject of ``benchmarks.followers``."""
    return Child([sys.executable, "-m", "benchmarks.followers", subject, *map(str, arguments)])


def feeder(subject: str, *arguments: object) -> Child:
    """Return a child that runs a subject of ``benchmarks.feeders``."""
    return Child([sys.executable, "-m", "benchmarks.feeders", subject, *map(str, arguments)])
