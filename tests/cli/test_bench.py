"""``distq bench``: figures of one's own Redis, of which nothing is left there, however it ends."""

import json
import signal

import pytest

from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.support.eventually import eventually

FIGURES = [
    "round trip, half of them within",
    "round trip, 99 of 100 within",
    "add, 100 a call",
    "settle and claim, 100 a call",
    "Redis' time of an item, 100 a call",
    "add, one a call",
    "settle and claim, one a call",
    "Redis' time of an item, one a call",
    "add to claim by a sleeping worker, half of them within",
    "add to claim by a sleeping worker, 99 of 100 within",
]


def left_over(redis: Connection) -> set[bytes]:
    """Return the keys that are of no queue of ours."""
    return {key for key in redis.execute("KEYS", "*") if b"{foos}" not in key}


@pytest.fixture(autouse=True)
def foos(redis: Connection) -> None:
    """Make a queue that is none of the benchmark's business."""
    Queue("foos", redis).add("a")


def test_it_measures_and_leaves_nothing(distq: CommandLine, redis: Connection) -> None:
    """A row each, what to expect of them, and every other queue as it was."""
    done = distq("bench", "--seconds", "2")
    assert done.returncode == 0, done.stderr
    _, *rows = done.stdout.splitlines()
    assert [row.split("  ")[0] for row in rows] == FIGURES
    assert "expect: a process that adds or takes items one by one does" in done.stderr
    assert left_over(redis) == {b"distq:queues"}
    assert redis.execute("HKEYS", "distq:queues") == [b"foos"]


def test_programs_read_its_figures(distq: CommandLine) -> None:
    """One object each, all of them more than none."""
    rows = [json.loads(line) for line in distq("bench", "--seconds", "2", "--json").stdout.splitlines()]
    assert [row["what"] for row in rows] == FIGURES
    assert all(row["value"] > 0 and row["unit"] in {"ms", "µs", "items/s"} for row in rows)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_an_interrupt_leaves_nothing_behind(
    distq: CommandLine, redis: Connection, number: signal.Signals, status: int
) -> None:
    """In the middle of its work."""
    process = distq.start("bench", "--seconds", "20")
    eventually(lambda: any(b"ready" in key or b"claims" in key for key in left_over(redis)))
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == status
    assert left_over(redis) == {b"distq:queues"}
    assert redis.execute("HKEYS", "distq:queues") == [b"foos"]
