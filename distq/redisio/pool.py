"""The idle connections to one server, between two calls.

An exception may come anywhere, also while redis-py connects, for example before it has selected the database.
So a connection is stored here only after a call has read all its replies. Until then only the call has it; if
the call ends early, the connection is closed and forgotten. redis-py's own pool takes back a connection that
it was still making, and counts the connections that it never gets back against its limit.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from redis.connection import AbstractConnection

from distq.redisio.kernel_timeout import this_thread, wait_in_kernel, wait_in_python

_FRESH = 1.0
"""Seconds for which an idle connection is used without a check whether the server closed it.

A check costs as much as all other parts of a call. If the server has closed the connection, the call ends
without its reply, and the caller repeats it, as after any other lost reply.
"""


class Pool:
    """Gives each caller a connection of its own. Safe for threads: the calls of a list are atomic."""

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self.make = make
        """Returns a connection that is not connected yet, and that the pool does not know."""
        self._resting: list[tuple[AbstractConnection, float]] = []
        """With the monotonic time since when each is idle."""
        self._broke_off_at = 0.0
        """When a call last ended early: older idle connections may be closed as well, as after a restart."""

    def take(self) -> AbstractConnection:
        """Return a connected connection without unread replies; raise redis-py's errors."""
        try:
            connection, since = self._resting.pop()
        except IndexError:
            connection, since = self.make(), 0.0
        try:
            if since <= self._broke_off_at or since <= time.monotonic() - _FRESH:
                _refresh(connection)
            if this_thread.gets_signals:
                wait_in_python(connection)
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def give_back(self, connection: AbstractConnection) -> None:
        """Store a connection, all replies of which were read."""
        self._resting.append((connection, time.monotonic()))

    def break_off(self, connection: AbstractConnection) -> None:
        """Close a connection on which a reply may still be on its way."""
        connection.disconnect()
        self._broke_off_at = time.monotonic()

    def disconnect(self) -> None:
        """Close the idle connections; those in use come back."""
        with suppress(IndexError):  # other threads may take the last one
            while True:
                self._resting.pop()[0].disconnect()


def ask_once(connection: AbstractConnection, *command: str) -> Any:
    """Return the answer to a command on a connection that is opened for it alone."""
    try:
        connection.connect()
        connection.send_command(*command)
        return connection.read_response()
    finally:
        connection.disconnect()


def _refresh(connection: AbstractConnection) -> None:
    """Connect; connect again if the server closed the connection."""
    connection.connect()
    if _is_stale(connection):
        connection.disconnect()
        connection.connect()
        if _is_stale(connection):
            raise redis.ConnectionError("the server sends data without a request")
    wait_in_kernel(connection)


def _is_stale(connection: AbstractConnection) -> bool:
    """Return whether the server closed the connection, or sent bytes that are not read."""
    try:
        return connection.can_read()
    except (redis.RedisError, OSError):
        return True
