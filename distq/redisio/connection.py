"""One process's connection to Redis: a lazy pool, typed errors, and retries by the class of the error.

redis-py's own retries are off: it would repeat a script after a lost reply without
knowing whether that is safe. All calls of distq are safe to repeat, so they are repeated
here: a few times within a second, once if the server hangs. Callers handle longer
outages, since they know how long their work can wait.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
from redis.connection import AbstractConnection
from redis.exceptions import AskError, MovedError, NoScriptError

from distq.config import Settings
from distq.errors import DistqError, RedisError, RedisRefused
from distq.instances import Instances
from distq.redisio import diagnosis, server_checks
from distq.redisio.address import Address
from distq.redisio.cluster import slot_of
from distq.redisio.conversation import Meanwhile, converse, without_refusal
from distq.redisio.error_mapping import is_denied, refusals_typed, typed_error
from distq.redisio.keys import queues_key
from distq.redisio.servers import OneServer, Server, Servers, servers_of

Argument = str | bytes | int | float
Reply = TypeVar("Reply")

_PAUSES = (0.0, 0.05, 0.2, 0.5)
"""Seconds before each repetition; the first is at once, since a pooled connection may just be stale."""

_REDIRECTIONS = 5
"""How many redirections between nodes of a cluster one attempt follows."""


class Connection:
    """The connections to one Redis or Valkey; lazy, safe for threads and after a fork.

    ``url`` is ``redis://``, ``rediss://`` or ``unix://``, with ``+sentinel`` or ``+cluster`` for several
    servers. None takes it from the settings, and those from the environment. The first use checks the
    server's version and eviction policy.
    """

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        self._address = Address(url, settings)
        self._timeout = 5.0
        self._tired_after = 7.5  # one try that took the whole time may have had a stale connection
        self._pauses: Sequence[float] = _PAUSES
        self._servers: Servers | None = None
        self._lock = threading.RLock()  # within it the garbage collector may end a loop over listen
        _connections.add(self)

    @property
    def server_time(self) -> int:
        """Tests only: the time, µs, that scripts use instead of the server's; 0 is the server's clock."""
        return self._address.server_time

    @server_time.setter
    def server_time(self, microseconds: int) -> None:
        self._address.server_time = microseconds

    @property
    def address(self) -> str:
        """Return host:port, the socket's path, or the Sentinels or nodes, for messages."""
        return self._address.where

    @property
    def prefix(self) -> str:
        """Return the prefix of all keys."""
        return self._address.prefix

    @property
    def is_cluster(self) -> bool:
        """Return whether its keys are on several servers."""
        return self._address.url.topology == "cluster"

    def now(self) -> float:
        """Return the server's time, seconds since the epoch; raise RedisUnavailable or RedisRefused."""
        if self.server_time:
            return self.server_time / 1e6
        seconds, microseconds = self.execute("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def execute(self, *command: Argument, near: str | None = None) -> Any:
        """Run one command that may safely run twice; raise RedisUnavailable or RedisRefused.

        A command without a key goes to the server of the key ``near``.
        """
        return self._repeat(self._key_of(command) if near is None else near, [command])[0]

    def pipeline(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool = False) -> list[Any]:
        """Run commands without a transaction, in one round trip to each server that has their keys.

        Raises the first error among the replies. With ``keep_refusals`` an error about one key, its type or
        a missing right to it, is returned as a RedisRefused in place of the reply.
        """
        if commands and not self.is_cluster:
            return self._repeat(self._key_of(commands[0]), commands, keep_refusals=keep_refusals)
        replies: dict[int, Any] = {}
        for places in self._parts(commands):
            together = self._together([commands[place] for place in places], keep_refusals=keep_refusals)
            replies.update(zip(places, together, strict=True))
        return [replies[place] for place in range(len(commands))]

    def typed(self, replies: list[Any]) -> list[Any]:
        """Return the replies of reads that a script ran, with typed errors for the refused ones."""
        return refusals_typed(replies, self._address)

    def _together(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool) -> list[Any]:
        """Return the replies of the server of these keys; send each command alone if some keys have moved."""
        keys = [self._key_of(command) for command in commands]
        try:
            follow = len({*map(slot_of, keys)}) == 1
            return self._repeat(keys[0], commands, follow=follow, keep_refusals=keep_refusals)
        except RedisRefused as error:
            if not _is(error, AskError) or len(commands) == 1:
                raise
        return [
            self._repeat(key, [command], keep_refusals=keep_refusals)[0]
            for key, command in zip(keys, commands, strict=True)
        ]

    def evaluate(
        self,
        source: str,
        sha: str,
        arguments: Sequence[Argument],
        meanwhile: Meanwhile = None,
        /,
    ) -> Any:
        """Run a script by its hash; if the server does not have it, load it first or send its source."""
        return self.evaluate_and(source, sha, arguments, meanwhile=meanwhile)[0]

    def evaluate_and(
        self,
        source: str,
        sha: str,
        arguments: Sequence[Argument],
        *then: Sequence[Argument],
        meanwhile: Meanwhile = None,
    ) -> list[Any]:
        """Run a script and then commands on the same connection, in one round trip; return all replies."""
        key = str(arguments[1])
        if not self._address.runs_by_hash:
            return self._repeat(key, [("EVAL", source, *arguments), *then], meanwhile=meanwhile)
        by_hash = "EVALSHA", sha, *arguments
        try:
            return self._repeat(key, [by_hash, *then], meanwhile=meanwhile)
        except RedisRefused as error:
            if not _is(error, NoScriptError) and not is_denied(error):
                raise
            loadable = _is(error, NoScriptError)
        try:
            if loadable:
                self.execute("SCRIPT", "LOAD", source, near=key)
                return self._repeat(key, [by_hash, *then])
        except RedisRefused as error:  # a user without SCRIPT LOAD may still send the source
            if not _is(error, NoScriptError) and not is_denied(error):
                raise
        replies = self._repeat(key, [("EVAL", source, *arguments), *then])  # ``meanwhile`` was called already
        self._address.runs_by_hash = loadable  # False where EVALSHA is denied; else EVAL has loaded it
        return replies

    def call_of(self, source: str, sha: str, arguments: Sequence[Argument]) -> Sequence[Argument]:
        """Return the command that runs a script which the server has, for a ``dedicated`` connection."""
        by_hash = self._address.runs_by_hash
        return ("EVALSHA", sha, *arguments) if by_hash else ("EVAL", source, *arguments)

    def dedicated(self, near: str | None = None) -> AbstractConnection:
        """Return a connected connection outside of the pool, for a caller that blocks on it.

        It goes to the server of the key ``near``.
        """
        servers, server = self._ready_servers(), None
        try:
            server = servers.of(near or queues_key(self.prefix))
            self._check(server.address)
            connection = server.pool.make()
            connection.connect()
        except (redis.RedisError, OSError) as error:
            servers.failed(server, error)
            raise typed_error(error, server.address if server else self._address) from None
        return connection

    def with_timeout(self, timeout: float, *, repeats: bool = False) -> "Connection":
        """Return a Connection to the same server that waits at most ``timeout`` seconds.

        It repeats no call; with ``repeats`` it repeats calls that failed within half of that time.
        """
        other = Connection()
        other._address, other._timeout, other._tired_after = self._address, timeout, timeout / 2
        other._pauses = self._pauses if repeats else ()
        return other

    def check(self) -> list[str]:
        """Return the lines of ``distq check`` about its servers; each begins with OK, WARN or FAIL."""
        servers = servers_of(self._address, self._timeout)
        try:
            primaries = servers.all()
        except (redis.RedisError, OSError) as error:
            return [f"FAIL  {self._explained(typed_error(error, self._address))}"]
        finally:
            servers.disconnect()
        found = (self._greet(server.address, server_checks.findings) for server in primaries)
        return [finding for findings in found for finding in findings]

    def close(self) -> None:
        """Close the pooled connections; the next use opens new ones, and reads the environment again."""
        with self._lock:
            servers, self._servers = self._servers, None
            self._address = self._address.anew()
        if servers is not None:
            servers.disconnect()

    def _ready_servers(self) -> Servers:
        with self._lock:
            if self._servers is None:
                self._servers = servers_of(self._address, self._timeout)
            return self._servers

    def _check(self, address: Address) -> None:
        """Check a server, once in a process: a later check may meet a failover."""
        checked = self._address.checked
        with self._lock:
            if address.where not in checked:
                self._greet(address, server_checks.enforce)
                checked.add(address.where)

    def _greet(self, address: Address, look: Callable[[Callable[..., Any], Address], Reply]) -> Reply:
        """Check a server before its first use: with a shorter timeout, and the cause of an error."""
        timeout = min(self._timeout, diagnosis.SILENCE_TIMEOUT)
        server = OneServer(address, timeout)

        def execute(*command: Argument) -> Any:
            try:  # no connection is stale yet, so there is no retry after silence
                return self._repeat("", [command], servers=server, tired_after=timeout / 2)[0]
            except RedisError as error:
                raise self._explained(error) from None

        try:
            return look(execute, address)
        finally:
            server.disconnect()

    def _explained(self, error: RedisError) -> DistqError:
        """Return the error with its cause, if there is time to find it."""
        return diagnosis.explain(error, self._address) if self._pauses else error

    def _key_of(self, command: Sequence[Argument]) -> str:
        """Return the first key of a command; without keys any server will do."""
        first = command[3:4] if command[0] in ("EVALSHA", "EVAL") else command[1:2]
        key = str(first[0]) if first else ""
        return key if key.startswith(f"{self.prefix}:") else queues_key(self.prefix)

    def _parts(self, commands: Sequence[Sequence[Argument]]) -> list[list[int]]:
        """Return groups of commands, by their places, that can travel together in a cluster."""
        parts: dict[object, list[int]] = {}
        for place, command in enumerate(commands):
            slot = slot_of(self._key_of(command))
            parts.setdefault(self._address.slots.known_owner(slot) or slot, []).append(place)
        return list(parts.values())

    def _repeat(
        self,
        key: str,
        commands: Sequence[Sequence[Argument]],
        *,
        servers: Servers | None = None,
        tired_after: float | None = None,
        follow: bool = True,
        keep_refusals: bool = False,
        meanwhile: Meanwhile = None,
    ) -> list[Any]:
        """Try until it succeeds or is refused; do not try again after ``tired_after`` seconds."""
        tried, began = 0, time.monotonic()
        tired_after = self._tired_after if tired_after is None else tired_after
        chosen = servers or self._servers or self._ready_servers()
        while True:
            server = None
            try:
                server = chosen.of(key)
                # a given server is being checked just now
                if not servers and server.address.where not in self._address.checked:
                    self._check(server.address)
                replies = _ask(chosen, server, commands, follow, meanwhile)
                return refusals_typed(replies, server.address) if keep_refusals else without_refusal(replies)
            except (redis.RedisError, OSError) as error:
                typed = typed_error(error, server.address if server else self._address)
                chosen.failed(server, error)
                hangs = time.monotonic() - began > tired_after
                if not typed.retryable or tried == len(self._pauses) or hangs:
                    raise typed from None  # its __context__ is redis-py's error
                time.sleep(self._pauses[tried])
                tried += 1


def _ask(
    servers: Servers,
    server: Server,
    commands: Sequence[Sequence[Argument]],
    follow: bool,
    meanwhile: Meanwhile,
) -> list[Any]:
    """Return the replies of a server, or of the server that it redirects to."""
    asking = False
    for _ in range(_REDIRECTIONS):
        connection = server.pool.take()
        try:
            replies = converse(connection, commands, asking=asking, meanwhile=meanwhile)
        except redis.ResponseError as error:  # all replies were read
            server.pool.give_back(connection)
            if not isinstance(error, AskError):
                raise
            server, asking = servers.redirected(error, server), not isinstance(error, MovedError)
            if not follow:  # ``_together`` sends each command alone then
                raise
        except BaseException:
            server.pool.break_off(connection)
            raise
        else:
            server.pool.give_back(connection)
            return replies
    raise redis.exceptions.ClusterDownError("CLUSTERDOWN its nodes send from one to another")


_connections = Instances[Connection]()


def _after_fork_in_child() -> None:
    """Replace all locks: one that a thread of the parent held would never be released here."""
    for connection in _connections:
        connection._lock = threading.RLock()  # noqa: SLF001  # this module's own
        connection._servers = None  # noqa: SLF001  # the parent goes on using these connections


os.register_at_fork(after_in_child=_after_fork_in_child)

_shared = Connection()


def shared_connection() -> Connection:
    """Return the process's shared Connection, from the environment."""
    return _shared


def _is(error: RedisRefused, *kinds: type[Exception]) -> bool:
    return isinstance(error.__context__, kinds)
