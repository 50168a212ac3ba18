"""Requests to the API server as bytes: the way of lists, watches and leases.

On the ``kubernetes`` package's pool and credentials, without its models:
decoding into them costs more than all other work of a controller.
"""

import contextlib
import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import urllib3
from urllib3.exceptions import HTTPError, ProtocolError

from distq.client import credentials
from distq.client.authorities import authorities
from distq.client.error_mapping import response_error
from distq.client.http_answer import REFUSES, AnswerTooLarge, AnyResponse, Response
from distq.client.http_pool import CONNECT_TIMEOUT, LeanPool
from distq.client.objects import encode
from distq.client.transport import Transport
from distq.config import kubeconfig_variable
from distq.errors import ApiError, ConfigError, short_tracebacks
from distq.seconds import Duration, in_seconds

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from distq.client.http_connection import UnreadAnswer

_READ_SIZE = 1 << 16


@short_tracebacks
class RawClient:
    """The requests of one process to one cluster; connects when used, from any thread, also after a fork."""

    def __init__(
        self,
        kubeconfig: str | os.PathLike[str] | None = None,
        *,
        context: str | None = None,
        timeout: Duration = 30.0,
    ) -> None:
        timeout = in_seconds(timeout)
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not (is_number and 0 < timeout < math.inf):
            raise ConfigError(f"bad timeout {timeout!r:.80}. Give a finite number of seconds, more than 0.")
        self._kubeconfig = kubeconfig
        self._context = context
        self._timeout = timeout
        self._transport: Transport | None = None
        self._transport_locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        """By process: a plugin may hold one for seconds, and a child forked meanwhile needs another."""
        self._no_credentials = "", -math.inf
        """Why credentials could not be read anew the last time, and when."""

    @property
    def server(self) -> str:
        """Return the API server's URL."""
        return self._connected().server

    @property
    def namespace(self) -> str:
        """Return the namespace of the kubeconfig's context, or the pod's; "default" where there is none."""
        return self._connected().namespace

    def authorities(self) -> tuple[str, ...]:
        """Return short fingerprints of the certificates that vouch for the API server, as they are now.

        It makes no request; nothing where none is known.
        """
        return authorities(self._kubeconfig, self._context)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: Duration | None = None,
        max_bytes: int | None = None,
    ) -> bytes:
        """Send one request, its body encoded as JSON, and return the answer's body.

        Raises ApiError by the answer's status; 0 when none came within ``timeout`` seconds. A GET whose
        connection broke is sent once more, on a new connection. With ``max_bytes`` it raises AnswerTooLarge
        as soon as more came.
        """
        seconds = self._timeout if timeout is None else in_seconds(timeout)
        headers = {"Accept": accept}
        if body is not None:
            body, headers["Content-Type"] = encode(body), content_type
        options = {"query": query, "body": body, "headers": headers, "timeout": seconds}
        bound = math.inf if max_bytes is None else max_bytes
        try:
            answer: Response = self._authorized(LeanPool.exchange, method, path, **options, max_bytes=bound)
        except AnswerTooLarge:
            raise AnswerTooLarge(f"{method} {path}: more than {max_bytes} bytes") from None
        return self._good(method, path, answer).data

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        read_timeout: float,
        accept: str = "application/json",
    ) -> "WatchResponse":
        """Open a watch; its value iterates raw lines until the server ends it.

        ``read_timeout`` seconds without a byte end it with an ApiError. Use it in a with statement.
        """
        transport = self._connected()
        try:
            answer = self._answered(
                "GET",
                path,
                query=query,
                body=None,
                headers={"Accept": accept},
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read_timeout),
                preload_content=False,
            )
            self._good("GET", path, answer)
        except (HTTPError, OSError) as error:  # the body of a refusal broke
            raise transport.no_answer(f"GET {path}", error) from None
        response = cast("UnreadAnswer", answer)  # as all that LeanPool returns before it is read
        return WatchResponse(response, lambda error: transport.no_answer(f"GET {path}", error))

    def api_client(self) -> "ApiClient":
        """Return an ApiClient for the typed API of ``kubernetes``: ``CoreV1Api(client.api_client())``.

        Its requests take this client's way: server, TLS and credentials as they are when a call is made, in
        another sandbox, too. An answer that refuses is the package's ApiException; ApiError (status 0) when
        none came. Without a ``_request_timeout`` it is this client's, of a watch or log that follows none.
        """
        from distq.client.typed_api import api_client

        return api_client(self._connected, self._answered, self._timeout)

    def _answered(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        return self._authorized(LeanPool.send, method, path, **options)

    def _good(self, method: str, path: str, response: AnyResponse) -> AnyResponse:
        """Return an answer; raise ApiError for one that refuses."""
        if response.status >= REFUSES:
            raise response_error(f"{method} {path}", response, self._connected().origin)
        return response

    def _authorized(
        self, send: Callable[..., AnyResponse], method: str, path: str, **options: Any
    ) -> AnyResponse:
        """Send with today's credentials; those that are refused are read anew, once."""
        transport = self._connected()
        try:
            response = transport.ask(send, method, path, **options)
        except ApiError:
            if transport.lacks_files():
                with contextlib.suppress(ApiError):  # they may be just being replaced
                    self._reconnected(transport)
            raise
        if response.status == 401:
            if isinstance(response, urllib3.BaseHTTPResponse):
                response.drain_conn()  # so that another request can have its connection
            transport = self._reconnected(transport)
            response = transport.ask(send, method, path, **options)
        return response

    def _connected(self) -> Transport:
        with self._transport_locks[os.getpid()]:
            if self._transport is None or self._is_outdated(self._transport):
                self._transport = self._connect()
            return self._transport

    def _connect(self) -> Transport:
        return Transport(credentials.load(self._kubeconfig, self._context))

    def _connect_again(self, asked: float) -> Transport:
        """Connect; where the thread for which this one waited since ``asked`` could not, raise its error."""
        why, failed_at = self._no_credentials
        if failed_at > asked:  # a plugin may have taken its time to fail
            raise ConfigError(why)
        try:
            return self._connect()
        except ConfigError as error:
            self._no_credentials = str(error), time.monotonic()
            raise

    def _is_outdated(self, transport: Transport) -> bool:
        """Return whether it is a parent's, or KUBECONFIG names another file now, as in another sandbox."""
        chosen_by_variable = self._kubeconfig is None
        return transport.process != os.getpid() or (
            chosen_by_variable and transport.variable != kubeconfig_variable()
        )

    def _reconnected(self, refused: Transport) -> Transport:
        """Return a transport with credentials read anew, unless another thread did that already.

        Where they cannot be read, perhaps since they are just being written, they are tried again next time.
        """
        asked = time.monotonic()
        try:
            with self._transport_locks[os.getpid()]:
                if self._transport is refused:
                    self._transport = self._connect_again(asked)
            return self._connected()
        except ConfigError as error:
            raise ApiError(str(error), status=401, reason="Unauthorized") from None


class WatchResponse:
    """The lines of a watch, read by one thread; any thread may close it."""

    def __init__(self, response: "UnreadAnswer", broken: Callable[[Exception], ApiError]) -> None:
        self._response = response
        self._broken = broken
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines without their ends; raise ApiError (status 0) when the stream breaks."""
        try:
            for line in self._lines():
                if self._closed.is_set():
                    return
                yield line
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # a socket that another thread shut down fails in any of these ways
            if not self._closed.is_set():
                raise self._broken(error) from None

    def close(self) -> None:
        """End the stream at once, also while another thread waits for its next line."""
        self._closed.set()
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it had ended
            self._response.shutdown()

    def _lines(self) -> Iterator[bytes]:
        started: list[bytes] = []
        for chunk in self._chunks():
            if not started and chunk.find(b"\n") == len(chunk) - 1:  # most are a line; ``split`` is slower
                yield chunk[:-1]
                continue
            first, *others = chunk.split(b"\n")
            started.append(first)
            for other in others:
                yield b"".join(started)
                started = [other] if other else []
        if started:
            raise ProtocolError("the stream ended within a line")

    def _chunks(self) -> Iterator[bytes]:
        """Yield bytes as they arrive; for a body without chunks only ``read1`` does not wait for more."""
        if self._response.chunked:
            return self._response.chunks()
        return iter(lambda: self._response.read1(_READ_SIZE), b"")
