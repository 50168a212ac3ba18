"""The connections to one server that rest between two calls.

An exception may come anywhere, also where redis-py connects: before it has selected the database, say. So a
connection rests here only after a call has read all its replies. Until then the call alone has it, and where
the call breaks off the connection is closed and forgotten. redis-py's own pool takes back a connection that
it was still making, and counts those that it never gets back against its limit.
"""

import time
from collections.abc import Callable
from contextlib import suppress

import redis
from redis.connection import AbstractConnection

from distq.redisio.kernel_timeout import this_thread, wait_in_kernel, wait_in_python

_FRESH = 1.0
"""Seconds for which a connection that rests is not asked whether the server closed it.

To ask costs as much as all else of a call. One that was closed all the same ends the call without its reply,
and the caller asks again, as after any other.
"""


class Pool:
    """Gives each caller a connection of its own. Safe for threads: the calls of a list are atomic."""

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self.make = make
        """Returns a connection that is not connected yet, and that the pool does not know."""
        self._resting: list[tuple[AbstractConnection, float]] = []
        """With the monotonic time since which each rests."""
        self._broke_off_at = 0.0
        """When a call broke off last: what rested then may be closed as well, as after a restart."""

    def take(self) -> AbstractConnection:
        """Return a connected connection without unread replies; raise what redis-py raises."""
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
        """Let a connection rest here, all replies of which were read."""
        self._resting.append((connection, time.monotonic()))

    def break_off(self, connection: AbstractConnection) -> None:
        """Close a connection on which a reply may still be on its way."""
        connection.disconnect()
        self._broke_off_at = time.monotonic()

    def disconnect(self) -> None:
        """Close the connections that rest here; those in use come back."""
        with suppress(IndexError):  # other threads may take the last one
            while True:
                self._resting.pop()[0].disconnect()


def _refresh(connection: AbstractConnection) -> None:
    """Connect, again where the server closed the connection."""
    connection.connect()
    if _is_stale(connection):
        connection.disconnect()
        connection.connect()
        if _is_stale(connection):
            raise redis.ConnectionError("the server sends data without a request")
    wait_in_kernel(connection)


def _is_stale(connection: AbstractConnection) -> bool:
    """Return whether the server closed it, or sent bytes that are not read."""
    try:
        return connection.can_read()
    except (redis.RedisError, OSError):
        return True
