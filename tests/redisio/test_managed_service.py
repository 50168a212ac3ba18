"""What a managed service leaves out is done without: CONFIG, CLIENT, scripts by their hash; TLS alone."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.config import Settings
from distq.redisio.cluster import slot_of
from distq.redisio.connection import Connection
from distq.redisio.sleeper import Sleeper
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.proofs.first_contact.test_addresses import certificate, tls_server  # noqa: F401 - fixtures
from tests.redisio.test_connection import StartServer, start_server  # noqa: F401 - a fixture
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.redis_servers import server_of
from tests.support.redis_topologies import SERVICE, raw, sentinel_program

WITHOUT = ("CONFIG", "CLIENT", "EVALSHA", "SCRIPT", "DEBUG")


@pytest.fixture
def managed(start_server: StartServer) -> EmbeddedValkey:  # noqa: F811
    """Run a server that has none of these commands."""
    hidden = [word for name in WITHOUT for word in ("--rename-command", name, f"HIDDEN-{name}")]
    return start_server(*hidden)


def blocked_clients(server: EmbeddedValkey) -> int:
    """Return how many clients wait for a token."""
    info: bytes = raw(server.port)("INFO", "clients")
    return int(info.partition(b"blocked_clients:")[2].split()[0])


def test_a_queue_lives_there(managed: EmbeddedValkey) -> None:
    """Scripts are sent whole, once a call; a worker that waits is woken by a token, and by an interrupt."""
    connection = Connection(managed.url)
    queue = Queue("foos", connection)
    got: list[str] = []
    waiting = threading.Thread(
        target=lambda: got.extend(request.key for request in queue.listen()), daemon=True
    )
    waiting.start()
    for key in ("a", "b"):
        eventually(lambda: blocked_clients(managed) == 1)
        queue.add(key)
        eventually(lambda key=key: key in got)  # type: ignore[misc]
    eventually(lambda: blocked_clients(managed) == 1)
    queue.shut_down()
    waiting.join(60)
    assert not waiting.is_alive()
    eventually(lambda: blocked_clients(managed) == 0)
    assert raw(managed.port)("HIDDEN-CONFIG", "GET", "maxmemory-policy")
    assert not connection._address.runs_by_hash
    queue.close()
    connection.close()


def test_the_check_finds_no_fault(managed: EmbeddedValkey) -> None:
    """It says what waiting costs there."""
    connection = Connection(managed.url)
    findings = connection.check()
    assert not [finding for finding in findings if finding.startswith("FAIL")]
    assert 'OK    user "default" may run scripts' in findings
    assert any(finding.startswith('WARN  user "default" may not run CLIENT UNBLOCK') for finding in findings)
    connection.close()


def test_a_sleep_ends_in_time_without_client(managed: EmbeddedValkey) -> None:
    """And leaves no sleeper that would take a token for nothing."""
    connection = Connection(managed.url)
    sleeper = Sleeper(connection, "distq:{foos}:wake")
    for _ in range(3):
        began = time.monotonic()
        sleeper.wait(0.3)
        assert time.monotonic() >= began + 0.3
    eventually(lambda: blocked_clients(managed) == 0)
    connection.execute("RPUSH", "distq:{foos}:wake", 1)
    sleeper.wait(60)
    assert connection.execute("LLEN", "distq:{foos}:wake") == 0
    sleeper.close()
    connection.close()


@pytest.fixture
def trusting(certificate: Path) -> Settings:  # noqa: F811
    """Return settings that trust the servers' certificate."""
    return Settings(redis_ca_file=certificate)


def tls_options(certificate: Path, port: int) -> list[str]:  # noqa: F811
    """Return what makes a server take TLS on a port."""
    key = certificate.with_name("key.pem")
    return [
        *("--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate)),
        *("--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate), "--tls-replication", "yes"),
    ]


@pytest.fixture
def tls_sentinel(tls_server: EmbeddedValkey, certificate: Path, tmp_path: Path) -> Iterator[int]:  # noqa: F811
    """Run a Sentinel that takes TLS alone, of a primary that does."""
    port = free_port()
    monitor = f"sentinel monitor {SERVICE} 127.0.0.1 {tls_server.port} 1"
    options = ["--port", "0", *tls_options(certificate, port)]
    with sentinel_program(server_of("redis7"), tmp_path / "sentinel.conf", [monitor], options):
        eventually(lambda: raw_answers(port, certificate))
        yield port


def raw_answers(port: int, certificate: Path) -> bool:  # noqa: F811
    """Return whether a Sentinel answers by TLS."""
    try:
        return bool(raw(port, ssl_ca_certs=str(certificate))("PING"))
    except Exception:  # noqa: BLE001  it is not up yet
        return False


def test_sentinels_are_asked_by_tls(tls_sentinel: int, trusting: Settings) -> None:
    """And so is the primary that they name."""
    connection = Connection(f"rediss+sentinel://127.0.0.1:{tls_sentinel}/{SERVICE}", settings=trusting)
    assert connection.execute("HSET", "distq:x", "a", "b") in (0, 1)
    connection.close()


def test_nodes_of_a_cluster_are_asked_by_tls(certificate: Path, trusting: Settings) -> None:  # noqa: F811
    """Whose slots name the ports for it."""
    port = free_port()
    options = [*tls_options(certificate, port), "--cluster-enabled", "yes", "--tls-cluster", "yes"]
    with EmbeddedValkey(server=server_of("redis7"), options=options, port=free_port()) as node:
        raw(node.port)("CLUSTER", "ADDSLOTS", *range(16384))
        eventually(lambda: b"cluster_state:ok" in raw(node.port)("CLUSTER", "INFO"))
        connection = Connection(f"rediss+cluster://127.0.0.1:{port}", settings=trusting)
        queue = Queue("foos", connection)
        queue.add("a")
        assert connection._address.slots.owner(slot_of("distq:{foos}:ready")) == ("127.0.0.1", port)
        assert queue.get(10).key == "a"
        queue.close()
        connection.close()
