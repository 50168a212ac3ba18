"""Programs at a terminal of their own, and what is left of them."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.eventually import eventually

PROGRAMS = Path(sys.executable).parent
TIMEOUT = 60.0
_CONTROLS = re.compile(r"\x1b\[[?>=]?[0-9;]*[a-zA-Z]|\x1b\][^\x07]*\x07|\r")


class Window:
    """A terminal window, and in it a program that leads a session of its own."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.shown = ""
        self.raw = ""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x28\x00\x50\x00\x00\x00\x00\x00")
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            cwd=folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Read until the pattern shows; return what it matched. Escape sequences are left out."""
        deadline = time.monotonic() + TIMEOUT
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.shown}"
            self._read()
        self.shown = self.shown[found.end() :]
        return found[0]

    def close(self) -> None:
        """Close the window, as its cross does: the kernel sends SIGHUP."""
        with contextlib.suppress(OSError):
            os.close(self._ours)
        self._ours = -1

    def wait(self) -> int:
        """Return the exit status; read on meanwhile, as terminals do."""
        deadline = time.monotonic() + TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on:\n{self.shown}"
            self._read()
        self._read()
        return self.process.returncode

    def _read(self) -> None:
        if self._ours < 0:
            time.sleep(0.05)
            return
        readable, _, _ = select.select([self._ours], [], [], 0.1)
        if readable:
            try:
                text = os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # no process has it open any more
                time.sleep(0.01)
                return
            self.raw += text
            self.shown += _CONTROLS.sub("", text)


class Desk:
    """Opens windows, whose processes and files all bear the mark of this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.windows: list[Window] = []
        own = {name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
        self.environment = {
            **own,
            "HOME": str(folder),
            "TMPDIR": str(self.temporary),
            "TERM": "xterm",
            "PATH": f"{PROGRAMS}:{own.get('PATH', os.defpath)}",
        }

    def open(self, *command: str, **environment: str) -> Window:
        """Open a window that runs this command."""
        window = Window([*command], self.folder, {**self.environment, **environment})
        self.windows.append(window)
        return window

    def processes(self) -> dict[int, str]:
        """Return the command lines of all that was started from here."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"TMPDIR={self.temporary}".encode() in path.read_bytes().split(b"\0"):
                    found[int(path.parent.name)] = (
                        path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                    )
        return found

    def files(self) -> list[str]:
        """Return what lies in the temporary folder."""
        return [path.name for path in self.temporary.iterdir()]

    def require_nothing_left(self) -> None:
        """Wait until no process and no temporary file is there; a port belongs to a process."""
        eventually(lambda: not self.processes() and not self.files(), "no processes, no files")

    def clear(self) -> None:
        """Close all windows and kill what is left."""
        for window in self.windows:
            window.close()
        for process in self.processes():
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        for window in self.windows:
            window.process.wait()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Give windows, which are closed at the end of the test."""
    desk = Desk(tmp_path)
    yield desk
    desk.clear()
