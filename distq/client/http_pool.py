"""A pool of connections with a shorter way for requests whose answer is wanted whole.

urllib3 makes a dozen objects for each request, and asks each of them several questions.
"""

import functools
import http.client
import math
import queue
import re
import ssl
import time
from typing import TYPE_CHECKING, Any, cast

import urllib3
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ProtocolError, ReadTimeoutError, SSLError

from distq.client.http_answer import Response
from distq.client.http_connection import Exchange, UnreadAnswer

if TYPE_CHECKING:
    from urllib3._base_connection import BaseHTTPConnection

CONNECT_TIMEOUT = 5.0
"""Seconds."""

_PLAIN_TARGET = re.compile(r"/[\w/.~%?&=+,:;@!$'()*-]*", re.ASCII)
"""Paths that urllib3 would not encode."""


@functools.cache
def lean(pool: type[HTTPConnectionPool]) -> "type[LeanPool]":
    """Return the class of a pool with exchanges as here, over any class of connections."""
    connection = pool.ConnectionCls
    lean_connection = type(f"Lean{connection.__name__}", (Exchange, connection), {})
    return type(f"Lean{pool.__name__}", (LeanPool, pool), {"ConnectionCls": lean_connection})


class IdleConnections:
    """The idle connections of a pool, the last one first, as urllib3 asks a ``LifoQueue`` for them.

    It has no lock: the calls of a list are atomic. A thread may hold a lock at a fork, and the child, which
    closes its copies of these connections, would wait for ever. Threads that give a connection back at the
    same time may exceed ``maxsize``.
    """

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._idle: list[BaseHTTPConnection | None] = []

    def qsize(self) -> int:
        """Return how many there are, with the places of those that are not made yet."""
        return len(self._idle)

    def get(self, block: bool = False, timeout: float | None = None) -> "BaseHTTPConnection | None":  # noqa: ARG002  as urllib3 calls it
        """Return one, or None for a place; raise ``queue.Empty`` where there is none."""
        try:
            return self._idle.pop()
        except IndexError:
            raise queue.Empty from None

    def put(self, connection: "BaseHTTPConnection | None", block: bool = False) -> None:  # noqa: ARG002
        """Keep one; raise ``queue.Full`` where there are ``maxsize``."""
        if len(self._idle) >= self._maxsize:
            raise queue.Full
        self._idle.append(connection)


class LeanPool(HTTPConnectionPool):
    """A pool with a shorter way for answers that are wanted whole; the rest of it is urllib3's."""

    QueueCls: Any = IdleConnections

    def exchange(
        self, method: str, url: str, *, timeout: float, max_bytes: float, **content: Any
    ) -> Response:
        """Send a request, and return its answer; raise as ``urlopen`` does without retries.

        AnswerTooLarge for more than ``max_bytes``. ``content`` are headers and body. urllib3 makes new
        connections, and those through a proxy.
        """
        if self.proxy is None and _PLAIN_TARGET.fullmatch(url):
            connection = self._get_conn()
            if not connection.is_closed:
                options = {"timeout": timeout, "max_bytes": max_bytes, **content}
                return self._exchange_on(connection, method, url, **options)
            self._put_conn(connection)
        is_bounded, deadline = max_bytes < math.inf, time.monotonic() + timeout
        bounds = urllib3.Timeout(connect=min(CONNECT_TIMEOUT, timeout), read=timeout, total=timeout)
        response = self.send(method, url, **content, timeout=bounds, preload_content=not is_bounded)
        if not is_bounded:
            return response
        return cast("UnreadAnswer", response).read_whole(deadline, max_bytes)

    def send(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send a request, by urllib3's options, and return its answer as soon as its head is there."""
        request = self.request if "fields" in options else self.urlopen  # which the typed API may leave to it
        return request(method, url, retries=False, redirect=False, assert_same_host=False, **options)

    def _exchange_on(
        self, connection: "BaseHTTPConnection", method: str, url: str, **options: Any
    ) -> Response:
        """Return the answer, and keep the connection; after an error close it."""
        keeps = False
        try:
            answer = cast("Exchange", connection).exchange(method, url, **options)
            keeps = True
            return answer
        except TimeoutError as error:  # before OSError, of which this and the next are kinds
            raise ReadTimeoutError(self, url, "Read timed out.") from error
        except ssl.SSLError as error:
            raise SSLError(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise ProtocolError("Connection aborted.", error) from error
        finally:
            if not keeps:
                connection.close()
            self._put_conn(connection if keeps else None)  # None gives the place back
