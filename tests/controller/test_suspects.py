"""Workers that are killed together with one key, in real processes; the others never stop for it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually

WORKER = """
import os, sys, time
from distq import Controller, Manager, Queue, Request

def reconcile(request: Request) -> None:
    with open(sys.argv[1], "a") as journal:
        journal.write(f"{time.time()} {os.getpid()} {request.key}\\n")
    time.sleep(60 if request.key == "poison" else 1.5)

queue = Queue("foos", claim_duration=1.5)
Manager([Controller(queue, reconcile, concurrency=8)]).run(informer=False)
"""


@dataclass(frozen=True)
class Begun:
    """A reconcile that began."""

    at: float
    pid: int
    key: str


class Workers:
    """Worker processes of eight slots each, and their journal."""

    def __init__(self, journal: Path, url: str) -> None:
        self._journal = journal
        self._url = url
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> int:
        """Start one more; return its process id."""
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(self._journal)],
            env={**os.environ, "DISTQ_REDIS_URL": self._url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes[process.pid] = process
        return process.pid

    def kill(self, pid: int) -> None:
        """Kill one, as the kernel does that is out of memory."""
        self._processes[pid].send_signal(signal.SIGKILL)
        self._processes.pop(pid).wait()

    def kill_all(self) -> None:
        """End the test's processes."""
        for pid in list(self._processes):
            self.kill(pid)

    def begun(self) -> list[Begun]:
        """Return what began so far."""
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return [Begun(float(at), int(pid), key) for at, pid, key in map(str.split, lines)]

    def begun_of(self, key: str, times: int) -> Begun:
        """Wait until a key's reconcile began so many times; return the last."""
        deadline = time.monotonic() + 60
        while len(found := [each for each in self.begun() if each.key == key]) < times:
            assert time.monotonic() < deadline, f"{key} began {len(found)} times"
            time.sleep(0.05)
        return found[-1]


@pytest.fixture
def workers(tmp_path: Path, redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Workers]:
    """Give no process yet."""
    workers = Workers(tmp_path / "journal", redis_server.url)
    yield workers
    workers.kill_all()


def test_a_key_that_kills_its_workers_stops_no_other_worker(workers: Workers, connection: Connection) -> None:
    """Killed twice with it: it runs again without a sibling, and items begin elsewhere until then."""
    for _ in range(3):
        workers.start()
    queue = Queue("foos", connection)
    queue.add("poison", priority=9)
    queue.add(*(f"item-{number}" for number in range(900)))
    workers.kill(workers.begun_of("poison", 1).pid)
    replacement = workers.start()
    # a busy machine starts it slowly, and after the next kill a worker must be there to go on
    eventually(lambda: any(each.pid == replacement for each in workers.begun()), timeout=60.0)
    workers.kill(workers.begun_of("poison", 2).pid)
    workers.start()
    third = workers.begun_of("poison", 3)
    second = [each for each in workers.begun() if each.key == "poison"][1]
    between = [each for each in workers.begun() if second.at < each.at <= third.at]
    others = [each.at for each in between if each.pid != third.pid]
    siblings = [each.at for each in between if each.pid == third.pid and each.key != "poison"]
    emptied_since = siblings[-1] if siblings else second.at
    assert not siblings or third.at - emptied_since >= 1.5
    assert [at for at in others if at > emptied_since]
    queue.close()
