"""The Redis user that ``distq check --acl`` proposes may do all that distq does, and no more."""

import pytest

from distq.cli.check import ACL
from distq.errors import RedisRefused, TerminalError
from distq.inspector import Inspector
from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.support.populated import Populated


def test_the_proposed_user_is_enough_and_not_more(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """A queue's whole life, and its repair; but no other keys and nothing dangerous."""
    connection.execute(*ACL.split())
    limited = Connection(f"redis://distq:PASSWORD@127.0.0.1:{redis_server.port}/0")
    queue = Queue("foos", limited)
    queue.add("a", "b")
    queue.add("c", after=0.05)
    queue.settle(queue.get(), TerminalError("no"))
    queue.settle(queue.get(), RuntimeError("later"))
    assert queue.get(timeout=5).key in {"b", "c"}
    inspector = Inspector(limited)
    assert inspector.requeue("foos", state="dead") == 1
    assert inspector.pause("foos")
    assert inspector.resume("foos")
    queue.add("d", "e")
    assert inspector.park("foos", "d") == inspector.delete("foos", "e") == 1
    assert [item.key for item in inspector.items("foos", match="a")] == ["a"]
    assert inspector.workers("foos")
    queue.close()
    assert not [finding for finding in limited.check() if finding.startswith("FAIL")]
    for command in (["SET", "other", 1], ["FLUSHALL"], ["KEYS", "*"], ["CONFIG", "GET", "*"]):
        with pytest.raises(RedisRefused, match="denied"):
            limited.execute(*command)
    limited.close()
    connection.execute("ACL", "DELUSER", "distq")


def test_the_proposed_user_may_run_every_script(redis_server: EmbeddedValkey, connection: Connection) -> None:
    """Each command in each script, on a queue that has something of everything."""
    connection.execute(*ACL.split())
    limited = Connection(f"redis://distq:PASSWORD@127.0.0.1:{redis_server.port}/0")
    for script in scripts.names():
        connection.execute("FLUSHALL")
        populated = Populated(limited)
        populated.run(script, **populated.inputs(script))
    limited.close()
    connection.execute("ACL", "DELUSER", "distq")


def test_it_is_printed(distq: CommandLine) -> None:
    """One line, to paste."""
    assert distq("check", "--acl").stdout == f"{ACL}\n"
