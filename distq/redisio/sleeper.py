"""Sleeping until a queue has work, without polling and without server timeouts.

A blocking pop with a timeout is answered up to 100 ms late by a quiet server, so the
time is kept here and the pop ended by CLIENT UNBLOCK, or where there is no CLIENT by closing
its connection. A token owns nothing: one that is lost with a connection costs a delay, since
the fleet polls as well.
"""

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable

import redis
from redis.connection import AbstractConnection

from distq.errors import RedisError
from distq.redisio.connection import Connection

_AFTER_TROUBLE = 1.0
"""Seconds to sleep where Redis does not answer; the next turn says so to the caller."""

_PARTING = 0.5
"""Seconds that Redis gets to end the pop of a sleeper that is to sleep no more."""

_LONGEST = 86400.0
"""Seconds that one sleep lasts at most; poll knows no infinity."""

_ANSWER_TIME = 0.02
"""Seconds between tries to end a pop."""
_TRIES = 50

_INTERRUPT, _HURRY = b"!", b"."
"""What other threads write to a sleeper."""


class Sleeper:
    """Lets one thread at a time sleep on a queue's wake list; any thread may interrupt it."""

    def __init__(self, connection: Connection, wake_key: str) -> None:
        self._connection = connection
        self._wake_key = wake_key
        self._blocking: AbstractConnection | None = None
        self._client_id = 0
        self._ended = self._closed = False
        self._lock = threading.Lock()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._close_pipe = weakref.finalize(self, _close, self._read_end, self._write_end)
        self._close_pipe.atexit = False  # a daemon thread may still sleep

    def sleep(self, until: Callable[[], float], *, listen: bool = True) -> None:
        """Sleep until a token comes, ``interrupt`` is called, or the monotonic time that ``until`` says.

        Without ``listen`` tokens are left to others.
        """
        try:
            with self._lock:
                if not self._closed:
                    self._sleep(until, listen)
        finally:
            if self._closed:
                self._release()

    def _sleep(self, until: Callable[[], float], listen: bool) -> None:
        try:
            if listen:
                self._pop(until)
            else:
                self._rest(until)
        except (redis.RedisError, RedisError, OSError):
            self._disconnect()
            soon = time.monotonic() + (0.0 if self._ended else _AFTER_TROUBLE)
            self._rest(lambda: min(until(), soon))
        except BaseException:  # an interrupt: a pop that goes on would take a token for nobody
            self._disconnect()
            raise
        self._drain()

    def hurry(self) -> None:
        """Let a running sleep ask again until when it lasts."""
        self._write(_HURRY)

    def interrupt(self) -> None:
        """End a running or the next sleep at once."""
        self._write(_INTERRUPT)

    def end(self) -> None:
        """End a running or the next sleep at once, though Redis may not answer: no other follows."""
        self._ended = True
        self.interrupt()

    @property
    def is_closed(self) -> bool:
        """Return whether it was closed: nobody sleeps here any more."""
        return self._closed

    def close(self) -> None:
        """End a running sleep, which then closes its connection; where nobody sleeps it is closed here.

        It waits for no sleeper: that may be this very thread, which a signal interrupted.
        """
        self._closed = True
        self.interrupt()
        self._release()

    def _release(self) -> None:
        """Close what sleeping needs, unless somebody sleeps: who does calls this afterwards."""
        if self._lock.locked():
            return
        with self._lock:  # acquire and then try: an interrupt between them would leave it locked
            self._disconnect()
            self._close_pipe()

    def _pop(self, until: Callable[[], float]) -> None:
        blocking = self._blocking or self._connect()
        blocking.send_command("BLPOP", self._wake_key, "0")
        answer = _descriptor(blocking)
        if self._rest(until, answer):
            blocking.read_response()
        elif self._client_id:
            self._unblock(answer)
            blocking.read_response()
        else:
            self._disconnect()

    def _unblock(self, answer: int) -> None:
        """Let Redis end the pop."""
        connection = self._connection.with_timeout(_PARTING) if self._ended else self._connection
        for _ in range(_TRIES):  # the pop may arrive after the first of them
            connection.execute("CLIENT", "UNBLOCK", self._client_id, near=self._wake_key)
            if _readable(_ANSWER_TIME, answer):
                break
        if self._ended:
            connection.close()

    def _rest(self, until: Callable[[], float], *sources: int) -> bool:
        """Return whether one of the sources has something to read; an interrupt ends the waiting, too."""
        while True:
            readable = _readable(until() - time.monotonic(), self._read_end, *sources)
            if not readable.isdisjoint(sources):
                return True
            if not readable or _INTERRUPT in os.read(self._read_end, 4096):
                return False

    def _connect(self) -> AbstractConnection:
        self._blocking = blocking = self._connection.dedicated(self._wake_key)
        blocking.send_command("CLIENT", "ID")
        self._client_id = 0
        with contextlib.suppress(redis.ResponseError):  # some servers have no such command, for us or at all
            self._client_id = blocking.read_response()
        return blocking

    def _disconnect(self) -> None:
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.disconnect()

    def _drain(self) -> None:
        try:  # each call here puts off the claim
            while os.read(self._read_end, 4096):
                pass
        except BlockingIOError:
            pass

    def _write(self, what: bytes) -> None:
        if not self._close_pipe.alive:  # its number may be another file's
            return
        with contextlib.suppress(OSError):  # a full pipe wakes anyway
            os.write(self._write_end, what)


def _descriptor(connection: AbstractConnection) -> int:
    sock: socket.socket | None = connection._sock  # noqa: SLF001  # redis-py offers no other way
    if sock is None:
        raise redis.ConnectionError("closed")
    return sock.fileno()


def _readable(seconds: float, *descriptors: int) -> set[int]:
    """Return those that have something to read, as soon as there are any or ``seconds`` went by."""
    poll = select.poll()  # select itself takes no descriptors above 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    seconds = min(max(0.0, seconds), _LONGEST)
    found = poll.poll(int(seconds * 1000))
    if not found:  # it counts in ms
        time.sleep(seconds % 0.001)
        found = poll.poll(0)
    return {descriptor for descriptor, _ in found}


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
