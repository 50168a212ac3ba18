"""One process's way to Redis: a lazy pool, typed errors, and retries by the class of the error.

redis-py's own retries are off: it repeats a script after a lost reply without
knowing whether that is safe. Every call of ours is, so it is repeated here, a few
times within a second, once where the server hangs; longer outages are for the caller,
who knows what waits.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import redis
from redis.connection import AbstractConnection, ConnectionPool

from distq.config import Settings
from distq.errors import RedisError, RedisRefused
from distq.redisio import diagnosis, server_checks, wrong_type
from distq.redisio.address import Address
from distq.redisio.error_mapping import is_read_only, typed_error

Argument = str | bytes | int | float
Reply = TypeVar("Reply")

_PAUSES = (0.0, 0.05, 0.2, 0.5)
"""Seconds before each repetition; the first is at once, since a pooled connection may just be stale."""


class Connection:
    """A pool of connections to one Redis or Valkey server; lazy, safe for threads and after a fork.

    ``url`` is ``redis://``, ``rediss://`` or ``unix://``; None takes it from the settings, and these
    from the environment. The first use checks the server's version and eviction policy.
    """

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        self._address = Address(url, settings)
        self._timeout = 5.0
        self._tired_after = 7.5  # one try that took the whole time may have had a stale connection
        self._pauses: Sequence[float] = _PAUSES
        self._pool: ConnectionPool | None = None
        self._lock = threading.Lock()
        _connections.add(self)

    @property
    def server_time(self) -> int:
        """Tests only: µs that scripts take for the server's TIME; 0 is the server's own clock."""
        return self._address.server_time

    @server_time.setter
    def server_time(self, microseconds: int) -> None:
        self._address.server_time = microseconds

    @property
    def address(self) -> str:
        """Return host:port or the socket's path, for messages."""
        return self._address.where

    @property
    def prefix(self) -> str:
        """Return what the names of all keys begin with."""
        return self._address.prefix

    def now(self) -> float:
        """Return the server's time, seconds since the epoch; raise RedisUnavailable or RedisRefused."""
        if self.server_time:
            return self.server_time / 1e6
        seconds, microseconds = self.execute("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def execute(self, *command: Argument) -> Any:
        """Run one command that may safely run twice; raise RedisUnavailable or RedisRefused."""
        return self._repeat(self._ready_pool(), lambda connection: _converse(connection, [command])[0])

    def pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Run commands in one round trip, without a transaction; raise the first error among the replies."""
        return self._repeat(self._ready_pool(), lambda connection: _converse(connection, commands))

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument]) -> Any:
        """Run a script by its hash; where the server does not have it, load it first or send it whole."""
        try:
            return self.execute("EVALSHA", sha, *arguments)
        except RedisRefused as error:
            if not _is(error, redis.exceptions.NoScriptError):
                raise
        try:
            self.execute("SCRIPT", "LOAD", source)
            return self.execute("EVALSHA", sha, *arguments)
        except RedisRefused as error:  # who may not load scripts may still send them
            if not _is(error, redis.exceptions.NoScriptError, redis.exceptions.NoPermissionError):
                raise
        return self.execute("EVAL", source, *arguments)

    def dedicated(self) -> AbstractConnection:
        """Return a connected connection outside of the pool, for a caller that blocks on it."""
        pool = self._ready_pool()
        connection = pool.connection_class(**pool.connection_kwargs)
        try:
            connection.connect()
        except (redis.RedisError, OSError) as error:
            raise typed_error(error, self._address) from None
        return connection  # type: ignore[no-any-return]  # redis-py does not say

    def with_timeout(self, timeout: float, *, repeats: bool = False) -> "Connection":
        """Return a pool to the same server that waits at most ``timeout`` seconds.

        It repeats nothing, or with ``repeats`` what was lost before half of that time had passed.
        """
        other = Connection()
        other._address, other._timeout, other._tired_after = self._address, timeout, timeout / 2
        other._pauses = self._pauses if repeats else ()
        return other

    def check(self) -> list[str]:
        """Return what ``distq check`` prints of this server; each line begins with OK, WARN or FAIL."""
        with self._greeting() as execute:
            return server_checks.findings(execute, self._address)

    def close(self) -> None:
        """Close the pooled connections; the next use opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.disconnect()

    def _ready_pool(self) -> ConnectionPool:
        pool = self._pool
        if pool is not None:
            return pool
        with self._lock:
            if self._pool is None:
                if not self._address.checked:  # once a process: later ones may come upon a failover
                    with self._greeting() as execute:
                        server_checks.enforce(execute, self._address)
                    self._address.checked = True
                self._pool = self._address.pool(self._timeout)
            return self._pool

    @contextlib.contextmanager
    def _greeting(self) -> Iterator[Callable[..., Any]]:
        """Give what runs one command at the first use: sooner tired of silence, and asking for its cause."""
        timeout = min(self._timeout, diagnosis.SILENCE_TIMEOUT)
        pool = self._address.pool(timeout)

        def execute(*command: Argument) -> Any:
            try:  # no connection is stale yet, so a silent server is not asked again
                return self._repeat(
                    pool, lambda connection: _converse(connection, [command])[0], tired_after=timeout / 2
                )
            except RedisError as error:
                if not self._pauses:  # who gave a timeout has no time for more
                    raise
                raise diagnosis.explain(error, self._address) from None

        try:
            yield execute
        finally:
            pool.disconnect()

    def _repeat(
        self,
        pool: ConnectionPool,
        attempt: Callable[[AbstractConnection], Reply],
        tired_after: float | None = None,
    ) -> Reply:
        """Try until it succeeds or is refused; not again where it took ``tired_after`` seconds so far."""
        pauses, began = iter(self._pauses), time.monotonic()
        tired_after = self._tired_after if tired_after is None else tired_after
        while True:
            try:
                connection = pool.get_connection()
                try:
                    return attempt(connection)
                except redis.ResponseError:
                    raise
                except BaseException:
                    connection.disconnect()  # a reply may still be on its way
                    raise
                finally:
                    pool.release(connection)
            except (redis.RedisError, OSError) as error:
                typed = typed_error(error, self._address)
                if is_read_only(error):  # the primary may be another one by now, at the same address
                    pool.disconnect(inuse_connections=False)
                pause = next(pauses, None)
                hangs = time.monotonic() - began > tired_after
                if not typed.retryable or pause is None or hangs:
                    raise typed from None  # its __context__ is redis-py's error
                time.sleep(pause)


_connections: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Let no lock stay that a thread of the parent held: there is nobody here who would release it."""
    for connection in list(_connections):
        connection._lock = threading.Lock()  # noqa: SLF001  # this module's own
        connection._pool = None  # noqa: SLF001  # redis-py's has such a lock, too


os.register_at_fork(after_in_child=_after_fork_in_child)

_shared = Connection()


def shared_connection() -> Connection:
    """Return the process's shared Connection, from the environment."""
    return _shared


def _is(error: RedisRefused, *kinds: type[Exception]) -> bool:
    return isinstance(error.__context__, kinds)


def _converse(connection: AbstractConnection, commands: Sequence[Sequence[Argument]]) -> list[Any]:
    connection.send_packed_command(connection.pack_commands(commands))
    replies, refusals = [], []
    for command in commands:
        try:
            replies.append(connection.read_response())
        except redis.ResponseError as error:
            refusals.append((error, command))
    if refusals:
        refusal, refused = refusals[0]
        raise wrong_type.with_key(refusal, refused, lambda *asked: _converse(connection, [asked])[0])
    return replies
