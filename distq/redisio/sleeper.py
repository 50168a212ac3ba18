"""Sleeping until a queue has work, without polling and without timeouts of the server.

A quiet server answers a blocking pop with a timeout up to 100 ms late. So this module keeps the time, and
CLIENT UNBLOCK ends the pop; without a CLIENT command, the connection is closed. A token owns nothing: one
that is lost with a connection costs a delay only, because the fleet also polls.
"""

import contextlib
import math
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from redis.connection import AbstractConnection

from distq.errors import RedisError
from distq.forks import begin_after_fork
from distq.redisio.connection import Argument, Connection

_AFTER_TROUBLE = 1.0
"""Seconds to sleep while Redis does not answer; the next turn raises the error for the caller."""

_PARTING = 0.5
"""Seconds that Redis gets to end the pop of a sleeper that must end, and to answer the command behind it."""

_LONGEST = 86400.0
"""The most seconds of one sleep: poll accepts no infinity."""

_ANSWER_TIME, _TRIES = 0.02, 50
"""Seconds between tries to end a pop, and how many there are."""


@dataclass(slots=True)
class FollowUp:
    """A command that Redis runs as soon as the pop before it has ended, so that it costs no round trip."""

    command: Sequence[Argument]
    reply: Any = None
    """None until Redis has answered, and if it refused."""


class Sleeper:
    """Lets the threads of one handle wait for work: one sleeps on Redis, the others take over from it."""

    def __init__(self, connection: Connection, wake_key: str) -> None:
        self._connection = connection
        self._wake_key = wake_key
        self._blocking: AbstractConnection | None = None
        self.begin()
        begin_after_fork(self)

    def begin(self) -> None:
        """Start from nothing; also in the child of a fork: otherwise its pop outlives a killed parent."""
        self._disconnect()
        # reentrant: the garbage collector may end a loop over ``listen`` within it, and so close this
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_asleep = False
        """Whether a thread sleeps on Redis for all. Only that thread uses the connection then."""
        self._wake_at = math.inf
        """The latest time of the next turn: the earliest that the last turns of the threads returned."""
        self._interrupts = self._met = 0
        """How many interrupts there were, and how many of them ended a wait. The others end the next one."""
        self._ended = self._is_closing = False
        self._has_answer = False
        """Whether the last pop on the connection was answered, and the answer is not read yet."""
        self._client_id = 0
        self._pipe: _Pipe | None = None

    def wait(
        self,
        seconds: float,
        at_most: float | None = None,
        *,
        for_work: bool = True,
        follow_up: Callable[[], FollowUp | None] = lambda: None,
    ) -> None:
        """Wait until a token comes, ``interrupt`` is called, or ``at_most`` seconds have passed.

        After ``seconds`` at the latest one thread wakes and makes a turn for all. Without ``for_work`` other
        processes get the tokens. The thread that sleeps on Redis sends the command of ``follow_up`` behind
        its pop; Redis runs it however the pop ends, unless the connection is lost.
        """
        leaves_at = math.inf if at_most is None else time.monotonic() + at_most
        with self._changed:
            met, self._met = self._met, self._interrupts
            self._waiting += 1
            self._wake_within(seconds)
            while self._is_asleep and not self._is_over(met) and time.monotonic() < leaves_at:
                self._changed.wait(min(leaves_at - time.monotonic(), threading.TIMEOUT_MAX))
            if sleeps := not (self._is_asleep or self._is_over(met)):
                self._wake_within(seconds)  # another thread may have made the turn that was due
                self._is_asleep = True

        def until() -> float:
            return -math.inf if self._is_over(met) else min(self._wake_at, leaves_at)

        try:
            if sleeps:
                self._sleep(until, for_work, follow_up)
        finally:
            with self._changed:
                self._leave(leaves_at, was_asleep=sleeps)

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._changed:
            self._interrupts += 1
            if self._waiting:
                self._met = self._interrupts
            self._look_again()
            self._changed.notify_all()

    def end(self) -> None:
        """End all waits, now and from now on; a sleep ends soon even if Redis does not answer."""
        self._ended = True
        self.interrupt()

    def close(self) -> None:
        """End the running waits and close the connection; a later wait opens another."""
        with self._changed:
            self.interrupt()
            self._is_closing = self._is_asleep  # then the thread that sleeps closes it
            if not self._is_asleep:
                self._release()

    # The threads

    def _is_over(self, met: int) -> bool:
        return self._ended or self._interrupts != met

    def _wake_within(self, seconds: float) -> None:
        wake_at = time.monotonic() + seconds
        if wake_at < self._wake_at:
            self._wake_at = wake_at
            self._look_again()

    def _look_again(self) -> None:
        if self._is_asleep and self._pipe is not None:
            self._pipe.write()

    def _leave(self, leaves_at: float, *, was_asleep: bool) -> None:
        """Let another thread sleep for all, if this one did."""
        self._waiting -= 1
        if was_asleep:
            self._is_asleep = False
            if self._is_closing:
                self._release()
        if not self._waiting or (was_asleep and time.monotonic() < leaves_at):
            self._wake_at = math.inf  # this thread makes the turn that is due
        if self._waiting and not self._is_asleep:
            self._changed.notify()

    def _release(self) -> None:
        self._is_closing = False
        self._disconnect()
        self._pipe = None

    # The thread that sleeps

    def _sleep(
        self, until: Callable[[], float], for_work: bool, follow_up: Callable[[], FollowUp | None]
    ) -> None:
        pipe = self._pipe = self._pipe or _Pipe()
        try:
            if for_work:
                self._pop(pipe, until, follow_up)
            else:
                pipe.rest(until)
        except (redis.RedisError, RedisError, OSError):
            self._disconnect()
            soon = time.monotonic() + (0.0 if self._ended else _AFTER_TROUBLE)
            pipe.rest(lambda: min(until(), soon))
        except BaseException:
            self._disconnect()  # a pop that goes on would take a token for no thread
            raise

    def _pop(
        self, pipe: "_Pipe", until: Callable[[], float], follow_up: Callable[[], FollowUp | None]
    ) -> None:
        blocking = self._blocking or self._connect()
        if self._has_answer:  # it woke the thread that slept before, for whose turn no wait is needed
            self._has_answer = False
            blocking.read_response()
        pop, behind = ("BLPOP", self._wake_key, "0"), follow_up()
        commands = [pop] if behind is None else [pop, behind.command]
        blocking.send_packed_command(blocking.pack_commands(commands))
        answer = _descriptor(blocking)
        has_come = pipe.rest(until, answer)
        if has_come and behind is None:
            self._has_answer = True
            return
        if not has_come:
            if not self._client_id:
                self._disconnect()
                return
            self._unblock(answer)
        blocking.read_response()
        if behind is not None:
            self._read_reply(blocking, behind)

    def _read_reply(self, blocking: AbstractConnection, behind: FollowUp) -> None:
        """Read the reply of the command behind the pop, unless Redis delays it and all sleeps have ended."""
        if self._ended and not blocking.can_read(_PARTING):
            self._disconnect()
            return
        with contextlib.suppress(redis.ResponseError):  # its caller sends it again, and gets the error
            behind.reply = blocking.read_response()

    def _unblock(self, answer: int) -> None:
        connection = self._connection.with_timeout(_PARTING) if self._ended else self._connection
        for _ in range(_TRIES):  # the pop may arrive after the first UNBLOCK
            connection.execute("CLIENT", "UNBLOCK", self._client_id, near=self._wake_key)
            if _readable(_ANSWER_TIME, answer):
                break
        if self._ended:
            connection.close()

    def _connect(self) -> AbstractConnection:
        self._blocking = blocking = self._connection.dedicated(self._wake_key)
        blocking.send_command("CLIENT", "ID")
        self._client_id = 0
        with contextlib.suppress(redis.ResponseError):  # the server may lack this command, or deny it
            self._client_id = blocking.read_response()
        return blocking

    def _disconnect(self) -> None:
        blocking, self._blocking, self._has_answer = self._blocking, None, False
        if blocking is not None:
            blocking.disconnect()


class _Pipe:
    """A pipe by which other threads wake a thread that sleeps on a connection."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        # not at the exit of the process: a daemon thread may still sleep
        weakref.finalize(self, _close, self._read_end, self._write_end).atexit = False

    def write(self) -> None:
        """Let the thread that sleeps look again until when it does."""
        with contextlib.suppress(OSError):  # a full pipe wakes the thread anyway
            os.write(self._write_end, b"!")

    def rest(self, until: Callable[[], float], *sources: int) -> bool:
        """Sleep until the monotonic time ``until``; return whether a source became readable before."""
        while (left := until() - time.monotonic()) > 0:
            readable = _readable(left, self._read_end, *sources)
            if not readable.isdisjoint(sources):
                return True
            if readable:
                os.read(self._read_end, 4096)
        return False


def _descriptor(connection: AbstractConnection) -> int:
    sock: socket.socket | None = connection._sock  # noqa: SLF001  # redis-py offers no other way
    if sock is None:
        raise redis.ConnectionError("closed")
    return sock.fileno()


def _readable(seconds: float, *descriptors: int) -> set[int]:
    """Return the readable descriptors, once there are any or ``seconds`` have passed."""
    poll = select.poll()  # select accepts no descriptors above 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    seconds = min(seconds, _LONGEST)
    found = poll.poll(int(seconds * 1000))
    if not found:  # poll counts in ms
        time.sleep(seconds % 0.001)
        found = poll.poll(0)
    return {descriptor for descriptor, _ in found}


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
