"""HTTP/1.1 over urllib3's connections, at a third of the cost of a small request.

urllib3 opens, secures and pools the connections, also through proxies, and reads bodies. Under it
``http.client`` would send head and body apart, each a TLS record and a packet of its own, and let the package
``email`` parse the head of the answer.
"""

import http.client
import io
import math
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection

from distq.client.http_answer import (
    LONGEST_LINE,
    PIECE,
    REFUSES,
    WITHOUT_A_BODY,
    AnswerTooLarge,
    Chunks,
    PlainAnswer,
    Response,
    plain_answer,
    receive_some,
    set_time_left,
)
from distq.errors import ConfigError

_MOST_HEADERS = 100
_MOST_HEADS = 10
_MOST_BYTES = 1 << 40
"""More than any memory holds. A Python that reads a body in parts would wait for all of them."""
_STRANGE = re.compile(r"[^\x20-\x7e]")
"""Characters that could end a header, and begin another one."""
_WITH_A_BODY = {"PATCH", "POST", "PUT"}
"""Methods whose requests have a length, be it 0. Source: http.client."""


class _Received(io.RawIOBase):
    """The bytes of one answer: those received already, then those that its socket receives in time."""

    def __init__(self, sock: socket.socket, deadline: float | None, begins: bytes = b"") -> None:
        self._sock = sock
        self._rest = sock.makefile("rb", buffering=0)  # which keeps the socket open until it is closed
        self._begins = begins
        self.deadline = deadline
        """By the monotonic clock: the socket's timeout bounds each read alone, and an answer may drip."""

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002  as http.client calls a socket's
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if begins := self._begins[: len(buffer)]:
            self._begins = self._begins[len(begins) :]
            buffer[: len(begins)] = begins
            return len(begins)
        set_time_left(self._sock, self.deadline)
        return self._rest.readinto(buffer)

    def receive(self) -> bytes:
        """Return the next bytes of the socket, which follow those received already."""
        return receive_some(self._sock, self.deadline)

    def close(self) -> None:
        self._rest.close()
        super().close()


class _Head(http.client.HTTPResponse):
    """An answer whose head is read by ``begin``, and whose body ``http.client`` reads."""

    def begin(self) -> None:
        """Read the head; raise HTTPException for a bad one."""
        for _ in range(_MOST_HEADS):
            version, self.status, reason = self._read_status()  # type: ignore[attr-defined]  # as urllib3 does
            if version not in {"HTTP/1.0", "HTTP/1.1"} or self.status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                raise http.client.UnknownProtocol(version)
            headers = self._read_headers()
            if self.status >= http.HTTPStatus.OK:  # else the answer is yet to come
                break
        else:
            raise http.client.HTTPException(f"more than {_MOST_HEADS} heads")
        self.version = 10 if version == "HTTP/1.0" else 11
        self.code, self.reason = self.status, reason.strip()
        self.headers = self.msg = headers  # type: ignore[assignment]  # urllib3's; they answer ``get``, too
        self.chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        self.length = None if self.chunked else self._content_length(headers)
        is_open = self.version == 11 and "close" not in headers.get("connection", "").lower()
        self.will_close = not is_open or (self.length is None and not self.chunked)

    def _read_headers(self) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict()
        for _ in range(_MOST_HEADERS + 1):
            line = self.fp.readline(LONGEST_LINE + 1)
            if len(line) > LONGEST_LINE:
                raise http.client.LineTooLong("header line")
            if not line:  # without the headers that are missing a body would seem whole
                raise http.client.HTTPException("the connection ended within the headers")
            if line in {b"\r\n", b"\n"}:
                return headers
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or not name or name != name.strip():  # so are folded lines, which are obsolete
                raise http.client.HTTPException(f"a bad header line: {line[:80]!r}")
            headers.add(name, value.strip())
        raise http.client.HTTPException(f"more than {_MOST_HEADERS} headers")

    def _content_length(self, headers: urllib3.HTTPHeaderDict) -> int | None:
        """Return the length of the body; None where its end is the connection's."""
        if self._method == "HEAD" or self.status in WITHOUT_A_BODY:  # type: ignore[attr-defined]
            return 0
        lengths = set(headers.getlist("content-length"))
        if not lengths:
            return None
        length = lengths.pop()
        if lengths or not re.fullmatch("[0-9]{1,18}", length):  # answers would be mixed up
            raise http.client.HTTPException("a bad Content-Length")
        return int(length)

    def _safe_read(self, amt: int) -> bytes:
        """Read so many bytes of the body; raise HTTPException also where no memory holds them."""
        if amt > _MOST_BYTES:
            raise http.client.HTTPException(f"a body, or a part of one, of {amt} bytes")
        try:
            return super()._safe_read(amt)  # type: ignore[misc,no-any-return]  # urllib3 calls it, too
        except (MemoryError, OverflowError, ValueError):
            raise http.client.HTTPException(f"a body, or a part of one, of {amt} bytes") from None


class UnreadAnswer(urllib3.HTTPResponse):
    """An answer whose body the caller may read chunk by chunk, without urllib3's objects, or whole."""

    def __init__(self, received: _Received, head: _Head, **options: Any) -> None:
        super().__init__(body=head, original_response=head, **options)
        self._received = received
        self._head = head

    def chunks(self) -> Iterator[bytes]:
        """Yield the chunks of the body, each as soon as it is there; raise the errors of ``stream``."""
        if "content-encoding" in self.headers:  # by a proxy, since it was not asked for
            yield from self.stream(decode_content=True)
            return
        if self._head.isclosed():  # it was read to its end before
            return
        with self._error_catcher():  # which gives the connection back, or closes it
            # the buffer has the bytes that came with the head; with a size, ``read1`` may return a part
            chunks = Chunks(self._head.fp.read1(), self._received.receive)
            yield from chunks
            if chunks.rest and self._connection:  # it is no answer to any request
                self._connection.close()
            self._head.close()

    def read_whole(self, deadline: float, max_bytes: float) -> Response:
        """Return the answer with all of its body, by a deadline of the monotonic clock.

        Raises AnswerTooLarge as ``plain_answer`` does, and urllib3's errors.
        """
        self._received.deadline = deadline
        parts: list[bytes] = []
        size = 0
        try:
            for part in iter(lambda: self.read1(PIECE), b""):  # as it comes: the whole may be too large
                size += len(part)
                if size > max_bytes and self.status < REFUSES:
                    raise AnswerTooLarge
                parts.append(part)
        finally:
            self.close()  # one that was read to its end has given its connection back
        words = (self.reason or "").encode("latin-1")
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        return PlainAnswer(self.status, b"".join(parts), words, lines.encode("latin-1"))


class Exchange(HTTPConnection):
    """A connection that sends a request whole; the rest of it is urllib3's."""

    response_class = _Head

    @property
    def is_connected(self) -> bool:
        """Return whether it is open, and nothing came after the last answer, nor lies decrypted in TLS."""
        return super().is_connected and not getattr(self.sock, "pending", int)()

    def request(  # type: ignore[override]  # as urllib3 calls it
        self,
        method: str,
        url: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        chunked: bool = False,  # noqa: ARG002  only bodies of unknown length are, and there are none
        **options: Any,
    ) -> None:
        """Send a request; ``headers`` are all of its headers but the body's length."""
        if self.sock is None:
            self.connect()
        body = body.encode() if isinstance(body, str) else body
        lines = [f"{method} {url} HTTP/1.1", *[f"{name}: {value}" for name, value in (headers or {}).items()]]
        if body is not None or method in _WITH_A_BODY:
            lines.append(f"Content-Length: {len(body or b'')}")
        if _STRANGE.search("".join(lines)):
            raise ConfigError(
                f"cannot send {method} {url!r:.80}: strange characters in a header. Correct it."
            )
        self._asked = {"request_method": method, "request_url": url, **options}
        # to set the timeout that it has is a call of the system, too; pyOpenSSL's socket does not know it
        if getattr(self.sock, "gettimeout", float)() != self.timeout:
            self.sock.settimeout(self.timeout)
        self.sock.sendall("\r\n".join([*lines, "\r\n"]).encode() + (body or b""))

    def exchange(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
        max_bytes: float,
    ) -> Response:
        """Send a request, and return its whole answer; most are plain, of the others ``_Head`` decides.

        Raises AnswerTooLarge for more than ``max_bytes``.
        """
        self.timeout = timeout
        with suppress(BrokenPipeError):  # the server may have answered before it closed, as urllib3 says
            self.request(method, url, body, headers, preload_content=max_bytes == math.inf)
        sock, deadline = self.sock, time.monotonic() + timeout
        begins = sock.recv(PIECE)
        answer, ends = None, True
        if method != "HEAD":  # its Content-Length is of a body that does not come
            answer, ends = plain_answer(begins, sock, deadline, max_bytes)
        if answer is None:
            response = self._response(_Received(sock, deadline, begins))
            return response if max_bytes == math.inf else response.read_whole(deadline, max_bytes)
        if not ends:  # the next bytes are no answer to any request
            self.close()
        return answer

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as urllib3 has it
        """Return the answer as soon as its head is there, or all of it if that was asked for.

        The timeout bounds the head, and all of an answer that is read here. A body that the caller reads,
        such as a watch, is bounded read by read.
        """
        self.sock.settimeout(self.timeout)
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        return self._response(_Received(self.sock, deadline))

    def _response(self, received: _Received) -> UnreadAnswer:
        # kept apart, since the connection may end with this answer; TLS within TLS has that of the outer one
        sock: Any = self.sock
        shut_down = getattr(sock, "shutdown", None) or sock.socket.shutdown
        head = self.response_class(received, method=self._asked["request_method"])  # type: ignore[arg-type]
        try:
            head.begin()
            if not self._asked.get("preload_content", True):
                received.deadline = None
                sock.settimeout(self.timeout)
        except BaseException:
            head.close()
            raise
        if head.will_close:
            self.close()
        return UnreadAnswer(
            received,
            head,
            headers=head.headers,
            status=head.status,
            version=head.version,
            version_string=f"HTTP/1.{head.version % 10}",
            reason=head.reason,
            sock_shutdown=shut_down,
            **self._asked,
        )
