"""Reads of one round trip are one command, and see one moment."""

from collections.abc import Iterator

import pytest

from distq.config import Settings
from distq.errors import RedisRefused
from distq.redisio.connection import Argument, Connection
from distq.redisio.limits import READS_AT_ONCE
from distq.redisio.roles import user_of
from distq.redisio.snapshots import Snapshots
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.support.monitored import commands_of
from tests.support.redis_servers import server_of
from tests.support.redis_topologies import Cluster

READY, FAILURES = "distq:{foos}:ready", "distq:{foos}:failures"
READS: list[tuple[Argument, ...]] = [
    ("ZRANGE", READY, 0, -1, "WITHSCORES"),
    ("ZMSCORE", READY, "a", "gone", b"\xff"),
    ("HMGET", FAILURES, "a", "gone"),
    ("HGETALL", FAILURES),
    ("ZCARD", "distq:{bars}:ready"),
    ("ZSCAN", READY, 0, "MATCH", "*", "COUNT", 10),
    ("XRANGE", "distq:{foos}:trace", "-", "+"),
    ("HGET", FAILURES, ""),
]
"""Replies of every kind: numbers, scores, bytes that are no text, what is not there, lists in lists."""


@pytest.fixture
def filled(connection: Connection) -> Connection:
    """Put something there to read."""
    connection.execute("ZADD", READY, 1.5, "a", 2**52 + 1, b"\xff\x00")
    connection.execute("HSET", FAILURES, "a", b"1 \xfe")
    connection.execute("XADD", "distq:{foos}:trace", "1-1", "entry", b"\xfd")
    return connection


def test_replies_are_those_of_the_reads_one_by_one(filled: Connection) -> None:
    """What a script passes on is what the server would have answered itself."""
    assert Snapshots(filled).pipeline(READS) == filled.pipeline(READS)
    assert Snapshots(filled).pipeline([]) == []


@pytest.mark.bound("READS_AT_ONCE")
def test_the_reads_are_one_command(filled: Connection, redis_server: EmbeddedValkey) -> None:
    """Up to a thousand of them; the others go into another."""
    snapshots = Snapshots(filled)
    snapshots.pipeline(READS)
    for number, commands in ((len(READS), 1), (READS_AT_ONCE, 1), (READS_AT_ONCE + 1, 2)):
        reads = (READS * READS_AT_ONCE)[:number]
        with commands_of(redis_server.url, filled) as asked:
            assert len(snapshots.pipeline(reads)) == number
        assert [command.split()[0] for command in asked] == ["EVALSHA"] * commands


def test_a_wrong_type_is_said_as_ever(filled: Connection) -> None:
    """A key of another type, by a foreign program, is a typed error, by script or without."""
    filled.execute("SET", "distq:{foos}:dead", "text")
    errors = []
    for way in (Snapshots(filled), filled):
        with pytest.raises(RedisRefused) as refused:
            way.pipeline([*READS, ("ZCARD", "distq:{foos}:dead")])
        errors.append(str(refused.value))
    assert "distq:{foos}:dead" in errors[0] or errors[0] == errors[1]


@pytest.mark.parametrize("by_script", [True, False])
def test_a_refusal_can_take_the_place_of_its_reply(
    filled: Connection, redis_server: EmbeddedValkey, by_script: bool
) -> None:
    """All other replies are there, and the error has the key's fix; by script without a further command."""
    dead = "distq:{foos}:dead"
    filled.execute("SET", dead, "text")
    reads = [READS[0], ("ZCARD", dead), *READS[1:], ("ZRANGE", dead, 0, -1)]
    way = Snapshots(filled) if by_script else filled
    way.pipeline(READS)
    with commands_of(redis_server.url, filled) as asked:
        first, refusal, *rest, last = way.pipeline(reads, keep_refusals=True)
    assert [first, *rest] == filled.pipeline(READS)
    for refused in (refusal, last):
        assert isinstance(refused, RedisRefused)
        assert f"WRONGTYPE {dead} is a string, where distq keeps a zset" in str(refused)
        assert f"redis-cli RENAME {dead} {dead}.odd, and all goes on." in str(refused)
    assert not by_script or len(asked) == 1
    assert way.pipeline(READS) == filled.pipeline(READS)


@pytest.fixture
def viewer(connection: Connection, redis_server: EmbeddedValkey) -> Iterator[Connection]:
    """Log in as a user without the right to run scripts."""
    connection.execute(*user_of(["viewer"], prefix="distq", queues=["foos"]).split())
    settings = Settings(redis_username="distq-viewer", redis_password="PASSWORD")
    limited = Connection(redis_server.url, settings=settings)
    yield limited
    limited.close()
    connection.execute("ACL", "DELUSER", "distq-viewer")


def test_a_user_without_the_right_to_run_scripts_reads_without(
    filled: Connection, viewer: Connection
) -> None:
    """It is refused once, and then not tried again."""
    reads = [read for read in READS if "{bars}" not in str(read[1])]
    snapshots = Snapshots(viewer)
    filled.execute("ACL", "LOG", "RESET")
    for _ in range(3):
        assert snapshots.pipeline(reads) == filled.pipeline(reads)
    refusals = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in filled.execute("ACL", "LOG")]
    assert {entry[b"object"]: entry[b"count"] for entry in refusals} == {b"evalsha": 1, b"eval": 1}


def test_in_a_cluster_each_read_goes_to_its_server() -> None:
    """A script would have the keys of one slot alone, so the reads are sent one by one."""
    with Cluster(server_of("valkey9")) as cluster:
        connection = Connection(cluster.url)
        connection.execute("ZADD", READY, 1, "a")
        connection.execute("ZADD", "distq:{bars}:ready", 1, "b")
        reads: list[tuple[Argument, ...]] = [("ZCARD", READY), ("ZCARD", "distq:{bars}:ready")]
        assert Snapshots(connection).pipeline(reads) == [1, 1]
        connection.close()
