"""Whole answers of HTTP/1.1: most are plain, and read in one piece."""

import http.client
import re
import socket
import time
from dataclasses import dataclass
from typing import TypeVar

import urllib3

PIECE = 1 << 14
"""Bytes that are received at once: a TLS record has no more."""

WITHOUT_A_BODY = {204, 304}
"""Statuses of answers that end with their head."""

_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9]{2})(?: |(?=\r))([^\r\n]*)\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n)*)\r\n"
)
_PLAIN_LENGTH = re.compile(rb"[0-9]{1,8}")
_FRAMING = re.compile(
    rb"(?im)^(content-length|transfer-encoding|content-encoding|connection):[ \t]*([^\r]*?)[ \t]*\r$"
)


@dataclass(slots=True)
class PlainAnswer:
    """A plain answer; its headers are read when somebody asks for them."""

    status: int
    data: bytes
    words: bytes
    lines: bytes

    @property
    def reason(self) -> str:
        """Return the words beside the status."""
        return self.words.decode("latin-1").strip()

    @property
    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return its headers, by names in any case."""
        headers = urllib3.HTTPHeaderDict()
        for line in self.lines.decode("latin-1").split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            headers.add(name, value.strip())
        return headers


Response = PlainAnswer | urllib3.BaseHTTPResponse
"""A whole answer."""
AnyResponse = TypeVar("AnyResponse", bound=Response)


def plain_answer(received: bytes, sock: socket.socket, deadline: float) -> tuple[PlainAnswer | None, bool]:
    """Return the answer that begins with what was received, and whether nothing came after it.

    ``deadline``, of the monotonic clock, bounds the rest.
    An answer that is not plain, or whose head has not come at once, is None, and nothing of it is read.
    Raises OSError, and HTTPException where the connection ends within the body.
    """
    head = _PLAIN_HEAD.match(received)
    if head is None:
        return None, True
    status, words, lines = head.groups()
    length = _plain_length(lines)
    if length is None or int(status) in WITHOUT_A_BODY:
        return None, True
    data = received[head.end() :]
    if len(data) < length:
        data = _whole(sock, data, length, deadline)
    return PlainAnswer(int(status), data[:length], words, lines), len(data) == length


def set_time_left(sock: socket.socket, deadline: float | None) -> None:
    """Let a socket wait until the deadline, if any; raise TimeoutError once it is over."""
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")  # as the socket does
        sock.settimeout(left)


def _plain_length(lines: bytes) -> int | None:
    """Return the length of a body that nothing but a Content-Length is about, None of any other."""
    length = None
    for name, value in _FRAMING.findall(lines):
        if name.lower() == b"connection" and value.lower() == b"keep-alive":
            continue
        if length is not None or name.lower() != b"content-length" or not _PLAIN_LENGTH.fullmatch(value):
            return None
        length = int(value)
    return length


def _whole(sock: socket.socket, data: bytes, length: int, deadline: float) -> bytes:
    parts, left = [data], length - len(data)
    while left:
        set_time_left(sock, deadline)
        part = sock.recv(min(left, PIECE))
        if not part:
            raise http.client.IncompleteRead(b"".join(parts), left)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
