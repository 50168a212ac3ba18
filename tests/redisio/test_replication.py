"""An add that waits for replicas returns when they have it, or says what is known."""

import os
import signal
from collections.abc import Iterator

import pytest

from distq.errors import ConfigError, NotReplicated
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.memory.queue import MemoryQueue
from distq.workqueue.queue import Queue
from tests.redisio.test_connection import StartServer, start_server  # noqa: F401 - a fixture
from tests.support.eventually import eventually


@pytest.fixture
def primary(start_server: StartServer) -> EmbeddedValkey:  # noqa: F811
    """Start a primary."""
    return start_server("--repl-diskless-sync-delay", "0")


@pytest.fixture
def replica(start_server: StartServer, primary: EmbeddedValkey) -> Iterator[EmbeddedValkey]:  # noqa: F811
    """Start its replica; it may be frozen."""
    replica = start_server("--replicaof", "127.0.0.1", str(primary.port))
    admin = Connection(primary.url)
    eventually(lambda: b"state=online" in admin.execute("INFO", "replication"))
    admin.close()
    yield replica
    os.kill(replica.pid, signal.SIGCONT)


def test_an_add_that_returns_is_on_the_replica(primary: EmbeddedValkey, replica: EmbeddedValkey) -> None:
    """Now or after a delay."""
    queue = Queue("foos", primary.url, wait_replicas=1, wait_timeout=4.0)
    reader = Connection(replica.url)
    reader._address.checked.add(reader.address)  # a replica is not for work
    for number in range(50):
        assert queue.add(f"a{number}") == 1
        assert reader.execute("ZSCORE", "distq:{foos}:ready", f"a{number}") is not None
    queue.add_after("b", 60)
    assert reader.execute("ZSCORE", "distq:{foos}:delayed", "b") is not None
    queue.close()
    reader.close()


def test_an_add_that_no_replica_saw_says_so(primary: EmbeddedValkey, replica: EmbeddedValkey) -> None:
    """It is in the queue; so is one that another producer had added, and that changes nothing."""
    Queue("foos", primary.url, wait_replicas=1, wait_timeout=4.0).add("seen")
    queue = Queue("foos", primary.url, wait_replicas=1, wait_timeout=0.2)
    os.kill(replica.pid, signal.SIGSTOP)
    Queue("foos", primary.url).add("a")
    for added, keys in ((0, ["a"]), (1, ["a", "b"])):
        with pytest.raises(NotReplicated) as caught:
            queue.add(*keys)
        assert (caught.value.added, caught.value.replicas) == (added, 0)
        assert caught.value.retryable
    assert str(caught.value) == (
        "queue foos: added, but within 0.2 s seen by 0 of 1 replicas: a failover now may lose it. "
        "Add it again, and look at them."
    )
    assert queue.depth() == 3
    os.kill(replica.pid, signal.SIGCONT)
    eventually(lambda: is_added(queue, "a"))
    queue.close()


def is_added(queue: Queue, key: str) -> bool:
    """Return whether an add waited with success."""
    try:
        queue.add(key)
    except NotReplicated:
        return False
    return True


def test_the_script_that_the_server_forgot_is_loaded_and_waited_for(
    primary: EmbeddedValkey, replica: EmbeddedValkey
) -> None:
    """The wait after a script that did not run counts for nothing."""
    Queue("foos", primary.url, wait_replicas=1, wait_timeout=4.0).add("a")
    queue = Queue("foos", primary.url, wait_replicas=1, wait_timeout=0.2)
    queue.connection.execute("SCRIPT", "FLUSH")
    os.kill(replica.pid, signal.SIGSTOP)
    with pytest.raises(NotReplicated):
        queue.add("b")
    queue.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"wait_replicas": -1}, "bad wait_replicas -1. Give how many, 0 to wait for none."),
        ({"wait_replicas": True}, "bad wait_replicas True. Give how many, 0 to wait for none."),
        ({"wait_timeout": 0}, "bad wait_timeout 0. Give seconds, more than 0, 4 at most."),
        ({"wait_timeout": 5}, "bad wait_timeout 5. Give seconds, more than 0, 4 at most."),
    ],
)
def test_a_wait_that_is_too_long_is_refused(wrong: dict[str, float], message: str) -> None:
    """A wait longer than what Redis gets for an answer would be an outage."""
    with pytest.raises(ConfigError) as caught:
        Queue("foos", "redis://127.0.0.1:1", **wrong)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_queue_in_memory_has_no_replicas() -> None:
    """So it is not asked to wait for any."""
    with pytest.raises(ConfigError, match="bad wait_replicas: a queue in memory"):
        MemoryQueue("foos", wait_replicas=1)
