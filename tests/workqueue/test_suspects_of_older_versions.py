"""Suspects beside distq 0.1.0, which keeps them in ``ready`` and knows no other place; on one server."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests import ROOT
from tests.proofs.nemesis import release
from tests.workqueue.conftest import ServerTime, beat

Make = Callable[..., Queue]

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
FAILURES, READY, SUSPECTS = (f"distq:{{foos}}:{name}" for name in ("failures", "ready", "suspects"))
CLAIM = "import sys, distq; print([r.key for r in distq.Queue('foos', sys.argv[1]).turn([], 8).requests])"


def keys(queue: Queue, want: int = 8) -> list[str]:
    """Claim, and return the keys."""
    return [request.key for request in queue.turn([], want).requests]


def test_suspects_that_0_1_0_left_are_taken_over(make_queue: Make, connection: Connection) -> None:
    """They move from ``ready`` when a worker meets them, without a change of their order."""
    busy, other = make_queue(), make_queue()
    busy.add("long", "longer")
    assert (keys(busy, 1), keys(other, 1)) == (["long"], ["longer"])
    busy.add("one", "two", "item")
    before = dict(zip(*[iter(connection.execute("ZRANGE", READY, 0, -1, "WITHSCORES"))] * 2, strict=True))
    connection.execute("HSET", FAILURES, "one", "0 2 0 - ", "two", "0 2 0 - ")
    assert keys(busy) == []
    assert keys(other) == ["item"]
    moved = connection.execute("ZRANGE", SUSPECTS, 0, -1, "WITHSCORES")
    assert moved == [b"one", before[b"one"], b"two", before[b"two"]]


def test_an_item_that_0_1_0_claimed_meanwhile_is_not_claimed_beside_it(
    make_queue: Make, connection: Connection
) -> None:
    """It added and claimed a suspect that also waits apart: that is pending again, and runs afterwards."""
    older, newer = make_queue(), make_queue()
    older.add("suspect")
    (request,) = older.turn([], 1).requests
    connection.execute("HSET", FAILURES, "suspect", "0 2 0 - ")
    connection.execute("ZADD", SUSPECTS, 2**52 + 1, "suspect")
    assert keys(newer) == []
    assert connection.execute("ZCARD", SUSPECTS) == 0
    assert older.is_dirty("suspect")
    assert keys(newer) == []
    assert older.settle(request)
    assert keys(newer) == ["suspect"]


def test_an_item_that_0_1_0_settled_meanwhile_waits_with_the_others_again(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Its failure record is gone, and with the last of them no turn looks for suspects; a tick does."""
    queue = make_queue()
    queue.turn([], 0)
    connection.execute("ZADD", SUSPECTS, 2**52 + 1, "settled")
    server_time.advance(1)
    assert beat(queue)
    assert keys(queue) == ["settled"]


@pytest.mark.skipif(not release.is_in_history(), reason="no git, or a shallow clone: 0.1.0 is not there")
def test_0_1_0_runs_the_suspects_that_were_moved_back(
    make_queue: Make, connection: Connection, redis_server: EmbeddedValkey, tmp_path: Path
) -> None:
    """By the two commands of the page, in their order, and one alone."""
    queue = make_queue()
    queue.add("long")
    (long,) = queue.turn([], 1).requests
    queue.add("one", "two", "item")
    connection.execute("HSET", FAILURES, "one", "0 2 0 - ", "two", "0 2 0 - ")
    assert keys(queue) == []
    assert connection.execute("ZCARD", SUSPECTS) == 2
    assert queue.settle(long)
    queue.close()
    page = (ROOT / "docs/operations/upgrade.md").read_text()
    for command in re.findall(r"`redis-cli ((?:ZUNIONSTORE|DEL) [^`]+)`", page):
        connection.execute(*shlex.split(command))
    assert not connection.execute("EXISTS", SUSPECTS)
    assert connection.execute("ZRANGE", READY, 0, -1) == [b"one", b"two", b"item"]
    release.unpack(tmp_path / "older")
    command = [sys.executable, "-c", CLAIM, redis_server.url]
    done = subprocess.run(command, cwd=tmp_path / "older", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['one']"
