"""Ends what a sandbox or demo started, also when its process is killed and can end nothing itself.

A guard is a process beside the one that it guards, run from this file. It waits on a pipe, which the
kernel closes when the guarded process is gone, however it went. What was started is known by a
variable that every child inherits, so that shells' background jobs and daemons are found, too.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Self

VARIABLE = "DISTQ_SANDBOX"
"""Names the folder of the sandbox or demo in which a process was started."""

_STEPS = ((signal.SIGTERM, 3.0), (signal.SIGHUP, 1.0), (signal.SIGKILL, 5.0))
"""What processes get, each with the seconds that they have then; a shell at a terminal ignores SIGTERM."""


class Guard:
    """A context with a folder for files, which ends together with all that has ``environment``."""

    folder: Path

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix=f"distq-{self._name}-"))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(self.folder), str(os.getpid())],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's signals are for the guarded process
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None  # noqa: S101 - for mypy
        self._process.stdin.close()
        self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable by which what is started is found again."""
        return {VARIABLE: str(self.folder)}

    def end_all(self, *, but: Collection[int] = ()) -> int:
        """End all that was started, processes with these ids apart; return how many there were."""
        return _end_all(str(self.folder), but)


def _end_all(folder: str, but: Collection[int] = ()) -> int:
    first = found = _started_in(folder, but)
    for number, seconds in _STEPS:
        for process in found:
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(process, number)
                os.kill(process, signal.SIGCONT)  # a stopped one would not notice
        deadline = time.monotonic() + seconds
        while (found := _started_in(folder, but)) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not found:
            break
    return len(first)


def _started_in(folder: str, but: Collection[int]) -> list[int]:
    """Return the processes that have the variable; zombies, which have ended, show none."""
    sought = f"{VARIABLE}={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            started_here = sought in path.read_bytes().split(b"\0")
        except OSError:  # another user's, or just gone
            continue
        if started_here and (process := int(path.parent.name)) not in but:
            found.append(process)
    return found


def _wait_for_the_end_of(guarded: int) -> None:
    """Return when the pipe is closed; where a fork of it holds that open, when the process is gone."""
    while os.getppid() == guarded:
        readable, _, _ = select.select([0], [], [], 1.0)
        if readable and not os.read(0, 1):
            return


def _main(folder: str, guarded: str) -> None:
    # a signal that ends the guarded process must not end its guard
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _wait_for_the_end_of(int(guarded))
    _end_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
