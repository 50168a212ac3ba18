"""Redis as it is run: a primary with replicas under Sentinels, and a cluster; real servers on loopback."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.guard import Guard
from tests.support.eventually import eventually
from tests.support.ports import free_port

SERVICE = "mymaster"


@contextlib.contextmanager
def sentinel_program(
    program: Path, settings: Path, lines: Sequence[str], options: Sequence[str], guard: Guard | None = None
) -> Iterator[None]:
    """Run one Sentinel, which writes what it learns into its settings' file."""
    settings.write_text("\n".join([*lines, ""]))
    command = [str(program), str(settings), "--sentinel", "--dir", str(settings.parent), *options]
    if guard:
        command += ["--set-proc-title", "no"]  # it would replace the environment, by which a guard finds it
    environment = os.environ | (guard.environment if guard else {})
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Sentinels:
    """A context with one primary, two replicas, and three Sentinels that notice a death within a second."""

    def __init__(
        self,
        server: Path,
        *,
        options: Sequence[str] = (),
        sentinel_options: Sequence[str] = (),
        client: dict[str, Any] | None = None,
        sentinel_client: dict[str, Any] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._program = server
        self._guard = guard
        self._options = tuple(options)
        self._sentinel_options = tuple(sentinel_options)
        self._client_options = client or {}
        self._sentinel_client = sentinel_client or {}
        self._folder = tempfile.mkdtemp(prefix="distq-sentinels-")
        self._sentinels = contextlib.ExitStack()
        self.ports = [free_port() for _ in range(3)]
        self.servers: dict[int, EmbeddedValkey] = {}

    @property
    def url(self) -> str:
        """Return the URL of database 0."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{SERVICE}/0"

    def primary(self) -> int:
        """Return the port of what the first Sentinel calls the primary."""
        found = self.ask_sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(found[1])

    def ask(self, port: int, *command: str | int) -> Any:
        """Run one command on a server."""
        return raw(port, **self._client_options)(*command)

    def ask_sentinel(self, *command: str | int) -> Any:
        """Run one command on the first Sentinel."""
        return raw(self.ports[0], **self._sentinel_client)(*command)

    def kill(self, port: int) -> None:
        """End a server without a word."""
        self.servers.pop(port).stop()

    def start_server(self, *options: str, port: int = 0) -> int:
        """Start a server and return its port."""
        server = EmbeddedValkey(
            server=self._program,
            options=(*("--repl-diskless-sync-delay", "0"), *self._options, *options),
            port=port or free_port(),
            guard=self._guard,
        ).start()
        self.servers[server.port] = server
        if "password" in self._client_options:  # the connection that waits for its start has none
            raw(server.port)("CONFIG", "SET", "requirepass", self._client_options["password"])
        return server.port

    def end_sentinels(self) -> None:
        """End all Sentinels; the servers stay."""
        self._sentinels.close()

    def wait_until_settled(self) -> None:
        """Wait until every Sentinel knows all that live, and one primary, to which the others are linked."""
        eventually(self._is_settled, "the Sentinels and servers know each other", timeout=180)

    def _is_settled(self) -> bool:
        try:
            known = [self._known(port) for port in self.ports]
            primary = self.primary()
            info = self.ask(primary, "INFO", "replication").decode()
            others = self.servers.keys() - {primary}
            if "role:master" not in info or any(named != primary for named, _ in known):
                return False
            for port in others:
                if f"port={port}," not in info:  # it follows a former primary: Sentinels know no such replica
                    self.ask(port, "REPLICAOF", "127.0.0.1", primary)
        except (redis.RedisError, OSError):
            return False
        return all(others <= replicas for _, replicas in known) and all(
            f"port={port},state=online" in info for port in others
        )

    def _known(self, port: int) -> tuple[int, set[int]]:
        """Return the primary that a Sentinel is content with, 0 for none, and its replicas."""
        sentinel = raw(port, **self._sentinel_client)
        about = _fields(sentinel("SENTINEL", "MASTER", SERVICE))
        replicas = {int(_fields(one)["port"]) for one in sentinel("SENTINEL", "SLAVES", SERVICE)}
        content = about["flags"] == "master" and about["num-other-sentinels"] == "2"
        return int(about["port"]) if content else 0, replicas

    def fail_over(self) -> None:
        """Let the Sentinels promote a replica, and wait until they have."""
        before = self.primary()
        self.ask_sentinel("SENTINEL", "FAILOVER", SERVICE)
        eventually(lambda: self.primary() != before)

    def __enter__(self) -> Self:
        primary = self.start_server()
        for _ in range(2):
            self.start_server("--replicaof", "127.0.0.1", str(primary))
        for port in self.ports:
            monitor = [
                f"sentinel monitor {SERVICE} 127.0.0.1 {primary} 2",
                f"sentinel down-after-milliseconds {SERVICE} 500",
                f"sentinel failover-timeout {SERVICE} 5000",
                *self._sentinel_options,
            ]
            settings = Path(self._folder, f"{port}.conf")
            self._sentinels.enter_context(
                sentinel_program(self._program, settings, monitor, ["--port", str(port)], self._guard)
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sentinels.close()
        for server in self.servers.values():
            server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


class Cluster:
    """A context with three primaries, a replica of each, and all slots."""

    def __init__(self, server: Path, *, options: Sequence[str] = (), guard: Guard | None = None) -> None:
        self._program = server
        self._options = tuple(options)
        self._guard = guard
        self.servers: dict[int, EmbeddedValkey] = {}

    @property
    def url(self) -> str:
        """Return a URL that names two of the nodes."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{port}' for port in list(self.servers)[:2])}"

    def owner(self, slot: int) -> int:
        """Return the port of the primary that serves a slot, as the living nodes agree; 0 if they do not."""
        said: set[int] = set()
        for port in self.servers:
            ranges = raw(port)("CLUSTER", "SLOTS")
            said.update(node[0][1] for first, last, *node in ranges if first <= slot <= last)
        return said.pop() if len(said) == 1 else 0

    def id(self, port: int) -> str:
        """Return a node's name."""
        name: bytes = raw(port)("CLUSTER", "MYID")
        return name.decode()

    def kill(self, port: int) -> None:
        """End a node without a word."""
        self.servers.pop(port).stop()

    def begin_move(self, slot: int, target: int, source: int = 0) -> int:
        """Let two nodes know that a slot moves; return the port of the one that it leaves."""
        source = source or self.owner(slot)
        raw(target)("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        raw(source)("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(target))
        return source

    def move_keys(self, slot: int, source: int, target: int, *, at_most: int = 1000) -> None:
        """Move keys of the slot, whole."""
        keys = raw(source)("CLUSTER", "GETKEYSINSLOT", slot, at_most)
        for key in keys:
            raw(source)("MIGRATE", "127.0.0.1", target, key, 0, 5000)

    def end_move(self, slot: int, target: int) -> None:
        """Let all primaries know who has the slot now."""
        name = self.id(target)
        for port in [target, *(other for other in self.servers if other != target)]:
            try:
                raw(port)("CLUSTER", "SETSLOT", slot, "NODE", name)
            except redis.ResponseError:  # a replica
                continue

    def __enter__(self) -> Self:
        ports = [free_port() for _ in range(6)]
        for port in ports:
            settings = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
            self.servers[port] = EmbeddedValkey(
                server=self._program,
                options=(*settings, "--repl-diskless-sync-delay", "0", *self._options),
                port=port,
                guard=self._guard,
            ).start()
        for port in ports[1:]:
            raw(port)("CLUSTER", "MEET", "127.0.0.1", ports[0])
        cut = [0, 5461, 10923, 16384]
        for port, first, last in zip(ports, cut, cut[1:], strict=False):
            raw(port)("CLUSTER", "ADDSLOTS", *range(first, last))
        for primary, replica in zip(ports[:3], ports[3:], strict=True):
            name = self.id(primary)
            eventually(lambda name=name, replica=replica: _becomes_replica(replica, name))  # type: ignore[misc]
        eventually(lambda: all(b"cluster_state:ok" in raw(port)("CLUSTER", "INFO") for port in ports))
        eventually(lambda: all(len(node) == 4 for port in ports for node in raw(port)("CLUSTER", "SLOTS")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers.values():
            server.stop()


def raw(port: int, **options: Any) -> Callable[..., Any]:
    """Return what runs one command on the server of a port and returns the reply as it came."""

    def execute(*command: str | bytes | int) -> Any:
        kind = redis.SSLConnection if "ssl_ca_certs" in options else redis.Connection
        connection = kind(port=port, protocol=2, socket_timeout=10, **options)
        try:
            connection.connect()
            connection.send_command(*command)
            return connection.read_response()
        finally:
            connection.disconnect()

    return execute


def _becomes_replica(port: int, primary: str) -> bool:
    try:
        raw(port)("CLUSTER", "REPLICATE", primary)
    except redis.ResponseError:  # it does not know that node yet
        return False
    return True


def _fields(reply: Sequence[bytes]) -> dict[str, str]:
    words = [word.decode() for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))
