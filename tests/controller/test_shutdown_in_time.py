"""The end of a process comes in time, although Redis or the API server hangs.

They hang until the process has ended, so a wait for them is seen: the process would not end at all.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from distq.controller.event_queue import ONE_REQUEST
from distq.controller.shutdown import Shutdown
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.api_servers import EmulatedServer, kubeconfig_through
from tests.support.eventually import eventually
from tests.support.tcp_proxy import TcpProxy

LIMIT = 8.0
"""Seconds within which it must end here, on a machine that has more to do; before it took 20 to 75."""


@pytest.fixture
def redis_server() -> Iterator[EmbeddedValkey]:
    """Run a server of the test's own, which it may freeze."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def program(redis_server: EmbeddedValkey, tmp_path: Path) -> Iterator["Program"]:
    """Give a program that runs in a process of its own."""
    (tmp_path / "foos.py").write_text(FOOS)
    program = Program(redis_server, tmp_path)
    yield program
    program.kill()


FOOS = """
import asyncio, os, sys, threading, time
from distq import Controller

def say(text):
    os.write(1, f"{text}\\n".encode())

async def reconcile(request):
    say(f"started {request.key}")
    try:
        await asyncio.sleep(float(request.key))
    finally:
        say(f"finished {request.key}")

controller = Controller("foos", reconcile, concurrency=2)
"""
WATCHER = """
from distq import Controller, For
controller = Controller("foos", print, watches=[For("v1/ConfigMap")])
"""


class Program:
    """A command line under test, and what it wrote."""

    def __init__(self, redis_server: EmbeddedValkey, folder: Path) -> None:
        self._redis = redis_server
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def start(self, *command: str, **environment: str) -> None:
        """Start python with these arguments."""
        with (self._folder / "said").open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self._folder,
                env=os.environ | {"DISTQ_REDIS_URL": self._redis.url, **environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def said(self) -> str:
        """Return what it wrote."""
        return (self._folder / "said").read_text()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def status(self, within: float = LIMIT) -> int:
        """Return how it ended, ``within`` seconds from now."""
        assert self._process is not None
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still runs after {within:g} s:\n{self.said()}")

    def kill(self) -> None:
        """End it in any case."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def frozen(server: EmbeddedValkey) -> Iterator[None]:
    """Let the server take connections and say nothing, as one whose machine hangs."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_an_idle_worker_ends_while_redis_hangs(
    program: Program, redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """It says what it leaves behind, and status 3 says so, too."""
    program.start("-m", "distq", "worker", "foos")
    eventually(lambda: connection.execute("HLEN", "distq:{foos}:workers"))
    with frozen(redis_server):
        program.signal(signal.SIGTERM)
        assert program.status() == 3
    assert "stopped before all was settled: what foos had claimed" in program.said()


def test_a_busy_worker_ends_with_its_grace_period_while_redis_hangs(
    program: Program, redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """Reconciles that finished meanwhile cannot be settled, the others are cancelled on time."""
    Queue("foos", connection).add("0.5", "600")
    program.start("-m", "distq", "worker", "foos", "--grace-period", "2")
    eventually(lambda: program.said().count("started") == 2)
    with frozen(redis_server):
        program.signal(signal.SIGTERM)
        assert program.status(2 + LIMIT) == 3
    assert program.said().count("finished") == 2
    assert "Traceback" not in program.said()


def test_a_second_signal_ends_a_worker_while_redis_hangs(
    program: Program, redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """A second request to stop waits neither for the reconciles nor for Redis."""
    Queue("foos", connection).add("600")
    program.start("-m", "distq", "worker", "foos", "--grace-period", "600")
    eventually(lambda: "started" in program.said())
    with frozen(redis_server):
        program.signal(signal.SIGTERM)
        eventually(lambda: "no new work" in program.said())
        time.sleep(ONE_REQUEST + 0.1)  # a twin of the first would come sooner
        program.signal(signal.SIGTERM)
        assert program.status() == 3
    assert "finished 600" in program.said()


def test_two_signals_in_one_breath_are_one() -> None:
    """As ``timeout`` sends them: to the program, and to its process group."""
    now = [100.0]
    shutdown = Shutdown([], [], clock=lambda: now[0])
    shutdown.begin(25.0)
    now[0] += 0.4
    assert not shutdown.end_grace_period()
    now[0] += 0.2
    assert shutdown.end_grace_period()


def test_timeout_of_coreutils_lets_reconciles_finish(program: Program, connection: Connection) -> None:
    """It sends SIGTERM twice at once; a process that took this for impatience would have no grace period."""
    Queue("foos", connection).add("1.5")
    program.start("-m", "distq", "worker", "foos", "--grace-period", "60")
    eventually(lambda: "started" in program.said())
    program.signal(signal.SIGTERM)
    program.signal(signal.SIGTERM)
    assert program.status(60) == 0
    assert "again" not in program.said()
    assert not connection.execute("EXISTS", "distq:{foos}:processing", "distq:{foos}:ready")


def test_a_worker_that_settles_all_ends_with_0(program: Program, connection: Connection) -> None:
    """A reconcile that outlives the grace period is released, and that is settled, too."""
    Queue("foos", connection).add("0.2", "600")
    program.start("-m", "distq", "worker", "foos", "--grace-period", "1")
    eventually(lambda: program.said().count("started") == 2)
    program.signal(signal.SIGTERM)
    assert program.status(60) == 0
    assert connection.execute("ZCARD", "distq:{foos}:ready") == 1


def test_a_thread_of_to_thread_does_not_hold_up_the_end(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    """Python waits for those of ``asyncio.to_thread``, for as long as they take: the process does not."""
    (tmp_path / "stuck.py").write_text(
        FOOS.replace("await asyncio.sleep(float(request.key))", "await asyncio.to_thread(time.sleep, 600)")
    )
    Queue("foos", connection).add("600")
    program.start("-m", "distq", "worker", "stuck", "--grace-period", "0")
    eventually(lambda: "started" in program.said())
    program.signal(signal.SIGTERM)
    assert program.status() == 0
    assert connection.execute("ZCARD", "distq:{foos}:ready") == 1


class TestInformers:
    """The other side: it waits for the API server, too."""

    @pytest.fixture
    def api(self, tmp_path: Path) -> Iterator[TcpProxy]:
        """Give the way to an emulated API server, for programs that watch."""
        (tmp_path / "watcher.py").write_text(WATCHER)
        with EmulatedServer() as server, TcpProxy(_address(server.url)) as proxy:
            kubeconfig_through(server, proxy.port, tmp_path / "kubeconfig")
            yield proxy

    def lead(self, program: Program, connection: Connection) -> None:
        """Start an informer and wait until it leads and has listed."""
        program.start("-m", "distq", "informer", "watcher", KUBECONFIG="kubeconfig")
        eventually(lambda: any(stream.synced for stream in Inspector(connection).streams("foos")))

    def test_a_leader_ends_while_the_api_server_hangs(
        self, program: Program, connection: Connection, api: TcpProxy
    ) -> None:
        """It says that its lease is left to expire."""
        self.lead(program, connection)
        api.mode = "hang"
        program.signal(signal.SIGTERM)
        assert program.status() == 3
        assert "the lease default/distq-watcher expires by itself" in program.said()

    def test_an_informer_that_never_led_ends_while_the_api_server_hangs(
        self, program: Program, api: TcpProxy
    ) -> None:
        """It has nothing to settle."""
        program.start("-m", "distq", "informer", "watcher", KUBECONFIG="kubeconfig")
        api.turn("hang", after=1)
        eventually(lambda: "wants to lead" in program.said())
        program.signal(signal.SIGTERM)
        assert program.status() == 0

    def test_a_leader_frees_its_lease_while_redis_hangs(
        self,
        program: Program,
        redis_server: EmbeddedValkey,
        connection: Connection,
        api: TcpProxy,  # noqa: ARG002 - it listens
    ) -> None:
        """Its streams wait for Redis, and commit nothing more once another leads: so another may at once."""
        self.lead(program, connection)
        with frozen(redis_server):
            time.sleep(1.2)  # a stream asks Redis each second
            program.signal(signal.SIGTERM)
            assert program.status() == 0
        assert "released the lease" in program.said()


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def test_a_process_without_a_free_slot_ends_with_a_status_of_its_own(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    """So that it is started again, though its threads hang."""
    (tmp_path / "hung.py").write_text(
        "import time\nfrom distq import Controller\n"
        "controller = Controller('foos', lambda _: time.sleep(600), concurrency=2, max_hold=0.3)\n"
    )
    Queue("foos", connection).add("a", "b")
    program.start("-m", "distq", "worker", "hung")
    assert program.status(60) == 4
    assert "reconciles past max_hold have all of its 2 slots" in program.said()
    assert connection.execute("ZCARD", "distq:{foos}:processing") == 0


LISTENER = """
import os, signal
from distq import Queue

queue = Queue("foos")
signal.signal(signal.SIGTERM, lambda *_: queue.BEGINNING)
for request in queue.listen():
    os.write(1, b"claimed\\n")
END
"""


@pytest.mark.parametrize(
    "ending", ["shut_down(); pass", "shut_down_with_drain(timeout=0.5); pass", "shut_down(); queue.close()"]
)
def test_a_program_of_ones_own_ends_while_redis_hangs(
    program: Program,
    redis_server: EmbeddedValkey,
    connection: Connection,
    tmp_path: Path,
    ending: str,
) -> None:
    """Asleep in ``listen`` and with a claim: its session will lapse, and that is logged."""
    beginning, _, end = ending.partition("; ")
    (tmp_path / "listener.py").write_text(LISTENER.replace("BEGINNING", beginning).replace("END", end))
    Queue("foos", connection).add("web")
    program.start("listener.py")
    eventually(lambda: "claimed" in program.said())
    eventually(lambda: b"cmd=blpop" in connection.execute("CLIENT", "LIST"))
    with frozen(redis_server):
        program.signal(signal.SIGTERM)
        assert program.status() == (1 if end != "pass" else 0)
    assert ("no Redis at" if end != "pass" else "it will lapse") in program.said()
