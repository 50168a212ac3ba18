"""The time that a server gets to answer, kept by the kernel instead of Python.

A Python socket with a timeout asks the kernel twice for each read and each write: first whether it is
possible, then to do it. Each time the thread releases the interpreter and has to get it back; with eight busy
threads this costs more than all other parts of a call. A blocking socket asks once, and the kernel ends its
waits as well. Only a process that is stopped and continued again and again, as by a profiler, waits longer
for a silent server.
"""

import os
import socket
import struct
import threading
from typing import cast

import redis
from redis.connection import AbstractConnection


class _Thread(threading.local):
    """A property of the thread that reads it: an attribute, because a call would cost more."""

    def __init__(self) -> None:
        self.gets_signals = threading.get_ident() == threading.main_thread().ident


this_thread = _Thread()


def wait_in_kernel(connection: AbstractConnection) -> None:
    """Let the kernel end the waits on a connected connection after its timeout."""
    sock: object = connection._sock  # noqa: SLF001  # redis-py offers no other way
    seconds = cast("float | None", connection.socket_timeout)
    # after a signal Python asks the kernel again, which gives the whole time again: under a timer that fires
    # every second, a wait would never end
    if this_thread.gets_signals or not seconds:
        return
    if type(sock) is not socket.socket or sock.gettimeout() is None:  # with TLS, OpenSSL would wait on
        return
    microseconds = max(1, int(seconds * 1e6))  # 0 is for ever
    timeval = struct.pack("@ll", *divmod(microseconds, 1_000_000))
    try:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, timeval)
    except OSError:  # the kernel uses another layout, or has no such option: Python's timeout stays
        return
    sock.settimeout(None)
    if not os.get_blocking(sock.fileno()):  # for example a socket of gevent, which waits itself
        sock.settimeout(seconds)


def wait_in_python(connection: AbstractConnection) -> None:
    """Let Python bound a send as a whole, even if signals arrive; the kernel bounds each part of it."""
    sock: socket.socket | None = connection._sock  # noqa: SLF001
    if sock is not None and sock.gettimeout() is None:
        sock.settimeout(connection.socket_timeout)


def is_silence(error: BaseException | None) -> bool:
    """Return whether redis-py's error means that no answer came in time."""
    return isinstance(error, redis.TimeoutError) or (
        error is not None and isinstance(error.__context__, BlockingIOError)
    )


def _after_fork_in_child() -> None:
    this_thread.gets_signals = True  # a child has one thread at first, and that is its main thread


os.register_at_fork(after_in_child=_after_fork_in_child)
