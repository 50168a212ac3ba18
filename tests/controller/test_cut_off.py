"""Workers that cannot reach Redis, or are frozen: no other runs what they still run; in real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.redis_servers import server_of
from tests.support.tcp_proxy import TcpProxy

KEYS = ("one", "two", "three", "four")


@dataclass(frozen=True)
class Run:
    """A reconcile, by CLOCK_MONOTONIC; one that has not ended yet goes on for ever."""

    pid: int
    key: str
    began: float
    ended: float


class Workers:
    """Worker processes, and what they ran."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, port: int, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one that uses Redis at this port."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.controller.cut_off_worker", str(self._journal), *arguments],
            env={**os.environ, "DISTQ_REDIS_URL": f"redis://127.0.0.1:{port}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Kill all."""
        for process in self._processes:
            process.kill()
            process.wait()

    def runs(self, pid: int | None = None) -> list[Run]:
        """Return all reconciles, or those of one process."""
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        runs: dict[tuple[str, ...], Run] = {}
        for who, key, began, ended in map(str.split, lines):
            runs[who, key, began] = Run(
                int(who), key, float(began), float("inf") if ended == "-" else float(ended)
            )
        return [run for run in runs.values() if pid in {None, run.pid}]

    def overlaps(self) -> list[tuple[Run, Run]]:
        """Return the pairs of reconciles of one key that ran at the same time."""
        return [
            (one, other)
            for one, other in product(self.runs(), repeat=2)
            if one.key == other.key and one.pid < other.pid
            if one.began < other.ended and other.began < one.ended
        ]


@pytest.fixture
def server() -> Iterator[EmbeddedValkey]:
    """Start one server: what processes do on it they do on all."""
    with EmbeddedValkey(server=server_of("valkey9")) as server:
        yield server


@pytest.fixture
def connection(server: EmbeddedValkey) -> Iterator[Connection]:
    """Give a connection to it."""
    connection = Connection(server.url)
    yield connection
    connection.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Give no process yet."""
    workers = Workers(tmp_path / "journal")
    yield workers
    workers.end()


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_worker_in_a_black_hole_has_stopped_when_others_take_over(
    workers: Workers, server: EmbeddedValkey, connection: Connection, kind: str
) -> None:
    """It gets no notice: connections stay open without a byte. An event loop, or a function that looks."""
    queue = Queue("foos", connection)
    with TcpProxy(("127.0.0.1", server.port)) as proxy:
        cut_off = workers.start(proxy.port, kind)
        queue.add(*KEYS)
        eventually(lambda: len(workers.runs(cut_off.pid)) == len(KEYS), timeout=60)
        other = workers.start(server.port, kind)
        eventually(lambda: len(connection.execute("HKEYS", "distq:{foos}:workers")) == 2, timeout=60)
        proxy.mode = "hang"
        eventually(lambda: len(workers.runs(other.pid)) == len(KEYS), timeout=90)
        assert not workers.overlaps()
        assert all(run.ended < float("inf") for run in workers.runs(cut_off.pid))
        workers.end()


@pytest.mark.parametrize(("kind", "place"), [("async", "reply"), ("plain", "turn")])
def test_a_worker_that_was_frozen_begins_nothing_that_others_have(
    workers: Workers, server: EmbeddedValkey, connection: Connection, kind: str, place: str
) -> None:
    """It claimed an item and was stopped before it could begin; when it goes on, another one runs that."""
    queue = Queue("foos", connection)
    frozen = workers.start(server.port, kind, place)
    queue.add("first")
    eventually(lambda: workers.runs(frozen.pid), timeout=60)
    queue.add("late")
    eventually(lambda: any(run.key == "frozen" for run in workers.runs(frozen.pid)), timeout=60)
    other = workers.start(server.port, kind)
    eventually(lambda: any(run.key == "late" for run in workers.runs(other.pid)), timeout=90)
    frozen.send_signal(signal.SIGCONT)
    queue.add(*KEYS, priority=-1)
    eventually(lambda: any(run.key in KEYS for run in workers.runs(frozen.pid)), timeout=90)
    assert all(run.key != "late" for run in workers.runs(frozen.pid)), (frozen.pid, workers.runs())
    assert [run.key for run, _ in workers.overlaps()] in ([], ["first"]), "that one had begun before"
