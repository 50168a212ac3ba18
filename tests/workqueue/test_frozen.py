"""Claims of a process that was frozen for longer than they last: it lives, so it was no crash."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests import ROOT
from tests.support.eventually import eventually

FAILURES = "distq:{foos}:failures"
LONG = 120.0


class Holder:
    """A process that claims one item and freezes; see ``frozen_holder``."""

    def __init__(self, url: str, how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.workqueue.frozen_holder", url, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        self.key, self.fence = self.process.stdout.readline().split()
        if how == "is frozen":
            self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        self.process.send_signal(signal.SIGCONT)
        self.send_line()

    def send_line(self) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Let it end, or make it, and return what it logged."""
        if self.process.poll() is None:
            self.go_on()
        try:
            return self.process.communicate(timeout=60)[0]
        finally:
            self.process.kill()


@pytest.fixture
def living(connection: Connection) -> Iterator[Queue]:
    """Give a handle, as if of another process, which takes over the items that others lose."""
    queue = Queue("foos", connection)
    queue.turn([], 0)
    yield queue
    queue.close()


def lapsed(living: Queue, connection: Connection, key: str, record: bytes) -> None:
    """Wait until the lapse of the item's holder is in its record, which begins so."""

    def is_counted() -> bool:
        living.turn([], 0)
        return bool((connection.execute("HGET", FAILURES, key) or b"").startswith(record))

    eventually(is_counted, lambda: str(connection.execute("HGET", FAILURES, key)), timeout=LONG)


@pytest.mark.parametrize("how", ["holds the interpreter", "is frozen"])
def test_a_process_that_was_frozen_and_lives_on_is_no_crash(
    redis_server: EmbeddedValkey, connection: Connection, living: Queue, how: str
) -> None:
    """Crashes that were counted while it was silent are taken back, and the log reports this."""
    living.add("a")
    holder = Holder(redis_server.url, how)
    try:
        lapsed(living, connection, "a", f"0 1 0 -@{holder.fence} ".encode())
        holder.go_on()
        eventually(lambda: not connection.execute("EXISTS", FAILURES), timeout=LONG)
        assert living.get(0).key == "a"
    finally:
        said = holder.end()
    assert "queue foos: this process did not run for " in said
    assert "its session lapsed, and its 1 item went to other workers without a crash" in said


def test_an_item_that_is_dead_for_a_process_that_lives_on_becomes_pending(
    redis_server: EmbeddedValkey, connection: Connection, living: Queue
) -> None:
    """It is a suspect still: two others did not come back."""
    before = int(connection.now() * 1e6)
    living.add("a")
    connection.execute("HSET", FAILURES, "a", f"0 2 0 -@{before - 2},{before - 1} ")
    holder = Holder(redis_server.url, "is frozen")
    try:
        lapsed(living, connection, "a", b"0 3 ")
        (item,) = Inspector(connection).items("foos", state="dead")
        assert (item.key, item.reason) == ("a", "crashes")
        holder.go_on()
        eventually(lambda: Inspector(connection).items("foos", state="ready"), timeout=LONG)
        assert connection.execute("HGET", FAILURES, "a") == f"0 2 0 -@{before - 2},{before - 1} ".encode()
    finally:
        holder.end()


def test_a_process_that_was_killed_is_a_crash(
    redis_server: EmbeddedValkey, connection: Connection, living: Queue
) -> None:
    """Its process does not come back; one that starts in its place does not speak for it."""
    living.add("a")
    holder = Holder(redis_server.url, "is frozen")
    holder.process.kill()
    record = f"0 1 0 -@{holder.fence} ".encode()
    try:
        lapsed(living, connection, "a", record)
        living.add("b", priority=1)
        successor = Holder(redis_server.url, "lives")
        assert successor.key == "b"
        successor.process.kill()
        successor.end()
        assert connection.execute("HGET", FAILURES, "a") == record
    finally:
        holder.end()
