"""Processes that compete for Leases, client-go's and ours alike, and what they say."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from tests.go.clientgo import MODULE

Kind = Literal["ours", "client-go"]


def program(kind: Kind) -> list[str]:
    """Return the command of one's elector; both take the same flags and print the same lines."""
    if kind == "ours":
        return [sys.executable, "-m", "tests.leaderelection.acting_process"]
    return [str(MODULE.cached() / "elector")]


class Competitor:
    """One process, which has one term at most; times are ns of the machine's monotonic clock."""

    def __init__(
        self,
        kind: Kind,
        identity: str,
        *,
        kubeconfig: Path,
        namespace: str,
        lease: str,
        times: Sequence[float],
        release: bool = True,
    ) -> None:
        self.kind = kind
        self.identity = identity
        self.acts: list[int] = []
        self.leaders: list[str] = []
        self.cancelled_at: int | None = None
        self._flags = [
            *(
                "-kubeconfig",
                str(kubeconfig),
                "-namespace",
                namespace,
                "-lease",
                lease,
                "-identity",
                identity,
            ),
            *("-lease-duration", f"{times[0]}s", "-renew-deadline", f"{times[1]}s"),
            *("-retry-period", f"{times[2]}s", *(["-release"] if release else [])),
        ]
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name=f"reader-{identity}", daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def process(self) -> "subprocess.Popen[str]":
        """The process, once started."""
        assert self._process is not None
        return self._process

    def start(self) -> Self:
        """Begin to compete."""
        self._process = subprocess.Popen(
            [*program(self.kind), *self._flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader.start()
        return self

    def ended(self) -> bool:
        """Return whether it is gone, and all that it said was read."""
        return self._process is not None and self._process.poll() is not None and not self._reader.is_alive()

    def cancel(self) -> None:
        """Stop it, which releases the Lease."""
        self.cancelled_at = time.monotonic_ns()
        with contextlib.suppress(BrokenPipeError):  # it may just have lost the lease
            print(file=self.process.stdin, flush=True)

    def freeze(self) -> None:
        """Give it no processor any more."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash does, and read the rest of what it said."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at, what, *who = line.split()
            if what == "working":
                self.acts.append(int(at))
            elif what == "sees" and who:
                self.leaders.append(who[0])
