"""A server that is no primary with its slots is refused at the start, by its name; a demoted one is left."""

import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from distq.config import Settings
from distq.errors import ConfigError, RedisUnavailable
from distq.redisio import queue_store, registration
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.redisio.test_connection import StartServer, start_server  # noqa: F401 - a fixture
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.tcp_proxy import TcpProxy


def is_refused(url: str, message: str) -> None:
    """Expect the same message of the first use and of ``distq check``."""
    connection = Connection(url, settings=Settings())
    with pytest.raises(ConfigError) as caught:
        QueueStore(connection, "foos").run("add", items=["a"], priority=0, max_length="")
    assert str(caught.value) == message
    assert connection.check() == [f"FAIL  {message}"]
    connection.close()


def test_a_replica_is_refused(start_server: StartServer) -> None:  # noqa: F811
    """It says of which primary, and where to go."""
    primary, replica = start_server(), start_server()
    admin = Connection(replica.url)
    admin.execute("REPLICAOF", "127.0.0.1", primary.port)
    is_refused(
        replica.url,
        f"Redis at 127.0.0.1:{replica.port} is a replica of 127.0.0.1:{primary.port}: "
        "what is written here is refused or lost. Give the primary's address, or redis+sentinel://host:port/service.",
    )
    admin.close()


@pytest.mark.parametrize("database", [0, 1])
def test_a_sentinel_is_refused(database: int, sentinel: EmbeddedValkey) -> None:
    """Also by a URL with a database, which it does not have."""
    is_refused(
        f"redis://127.0.0.1:{sentinel.port}/{database}",
        f"Redis at 127.0.0.1:{sentinel.port} is a Sentinel: it keeps no data. "
        "Give the address of the primary that it watches, or redis+sentinel://host:port/service.",
    )


@pytest.fixture
def sentinel(redis_server: EmbeddedValkey, tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """Run a Sentinel of the server's kind."""
    settings = tmp_path / "sentinel.conf"
    settings.write_text(f"sentinel monitor foos 127.0.0.1 {redis_server.port} 1\n")
    server = redis_server._server
    assert server is not None
    port = free_port()
    command = [str(server), str(settings), "--sentinel", "--port", str(port), "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: answers(port))
    yield EmbeddedValkey(port=port)
    process.kill()
    process.wait()


def answers(port: int) -> bool:
    """Return whether a program listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_cluster_node_without_slots_is_refused(start_server: StartServer) -> None:  # noqa: F811
    """One that has all of them is as good as any; one that has some sends away."""
    node = start_server("--cluster-enabled", "yes", port=low_port())
    is_refused(
        node.url,
        f"Redis at 127.0.0.1:{node.port} is a node of a cluster without slots. "
        "Assign all slots to it, or use a standalone Redis.",
    )
    admin = raw(node)
    admin("CLUSTER", "ADDSLOTS", *range(16384))
    connection = Connection(node.url)
    eventually(lambda: b"cluster_state:ok" in admin("CLUSTER", "INFO"))
    queue = Queue("foos", connection)
    queue.add("a")
    assert queue.get(0).key == "a"
    queue.close()

    other = start_server("--cluster-enabled", "yes", port=low_port())
    raw(other)("CLUSTER", "MEET", "127.0.0.1", node.port)
    eventually(lambda: b"cluster_state:ok" in raw(other)("CLUSTER", "INFO"))
    is_refused(
        other.url,
        f"Redis at 127.0.0.1:{other.port} is a node of a cluster, "
        f"and other nodes have slots that are needed. Use redis+cluster://127.0.0.1:{other.port}.",
    )


def low_port() -> int:
    """Return a free port; another, 10,000 above, is the cluster's, and none that systems give away."""
    ports = iter(lambda: random.randrange(11000, 22000), 0)
    return next(port for port in ports if not (answers(port) or answers(port + 10000)))


def raw(server: EmbeddedValkey) -> Callable[..., bytes]:
    """Return what runs one command, on a server that need not be fit for queues."""

    def execute(*command: str | int) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            words = [str(word).encode() for word in command]
            plain.sendall(
                b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
            )
            return plain.recv(1 << 16)

    return execute


def test_a_client_of_a_demoted_primary_connects_anew(start_server: StartServer) -> None:  # noqa: F811
    """The address leads to another server by now, but for the connections that there are."""
    old, new = start_server(), start_server()
    with TcpProxy(("127.0.0.1", old.port)) as proxy:
        connection = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        queue = Queue("foos", connection)
        queue.add("before")
        proxy.target = ("127.0.0.1", new.port)
        raw(old)("REPLICAOF", "127.0.0.1", new.port)
        queue.add("after")
        assert queue.get(5).key == "after"
        queue.close()
        connection.close()


def test_while_no_replica_is_promoted_it_is_an_outage(start_server: StartServer) -> None:  # noqa: F811
    """Not a mistake in the settings that would end the process; and what goes on finds the next primary."""
    server, other = start_server(), start_server()
    connection = Connection(server.url)
    connection.execute("PING")
    raw(server)("REPLICAOF", "127.0.0.1", other.port)
    for each in (connection, connection.with_timeout(5.0)):
        with pytest.raises(RedisUnavailable, match=r"is not ready: .*read only replica"):
            each.execute("HSET", "a", "b", "c")
    raw(server)("REPLICAOF", "NO", "ONE")
    assert connection.execute("HSET", "a", "b", "c") == 1
    connection.close()


def test_a_living_producer_makes_its_queue_known_again_after_a_wipe(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a minute, though it opens no session."""
    queue = Queue("foos", connection)
    queue.add("a")
    connection.execute("FLUSHALL")
    queue.add("a")
    assert connection.execute("HKEYS", "distq:queues") == []
    later = time.monotonic() + registration.REGISTRATION_PERIOD
    for module in (registration, queue_store):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: later, time=time.time))
    queue.add("b")
    assert connection.execute("HKEYS", "distq:queues") == [b"foos"]


def test_a_full_redis_that_does_not_know_the_queue_is_worked_off(start_server: StartServer) -> None:  # noqa: F811
    """Its name is for people alone; it is set as soon as there is room."""
    connection = Connection(start_server().url)
    producer = Queue("foos", connection)
    producer.add("a", "b")
    connection.execute("DEL", "distq:queues")
    connection.execute("CONFIG", "SET", "maxmemory", 1)
    queue = Queue("foos", connection)
    for request in queue.listen():
        known = connection.execute("HKEYS", "distq:queues")
        assert known == ([] if request.key == "a" else [b"foos"])
        connection.execute("CONFIG", "SET", "maxmemory", 0)
        queue.settle(request)
        if known:
            queue.shut_down()
    connection.close()
