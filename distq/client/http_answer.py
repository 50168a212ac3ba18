"""Whole answers of HTTP/1.1: most are plain, and read without urllib3's objects.

A page of a list comes in hundreds of small chunks, and each event of a watch is one. To read them through
urllib3 and ``http.client`` would cost more than to decode them.
"""

import http.client
import math
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import urllib3

PIECE = 1 << 14
"""Bytes that are received at once: a TLS record has at most so many."""

WITHOUT_A_BODY = {204, 304}
"""Statuses of answers that end with their head."""

REFUSES = 300
"""From this status on, an answer is a refusal."""

_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9]{2})(?: |(?=\r))([^\r\n]*)\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n)*)\r\n"
)
_PLAIN_LENGTH = re.compile(rb"[0-9]{1,8}")
_CHUNK = re.compile(rb"0*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
"""The line before a chunk: its length, and extensions, which say nothing to us."""
LONGEST_LINE = 1 << 16
"""Bytes of a line of a head, or between chunks."""
_CHUNKED = -1
"""In place of a length: the body comes in chunks."""
_FRAMING = re.compile(
    rb"(?im)^(content-length|transfer-encoding|content-encoding|connection):[ \t]*([^\r]*?)[ \t]*\r$"
)


@dataclass(slots=True)
class PlainAnswer:
    """A plain answer; its headers are parsed at each access."""

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


class AnswerTooLarge(Exception):
    """An answer has more bytes than the limit; the bytes received are thrown away."""


Receive = Callable[[], bytes]
"""Returns the next bytes, at least one."""

Response = PlainAnswer | urllib3.BaseHTTPResponse
"""A whole answer."""
AnyResponse = TypeVar("AnyResponse", bound=Response)


class Chunks:
    """The chunks of a body, each as soon as it is there; headers that follow them are dropped.

    Its iteration raises AnswerTooLarge before a chunk that makes them more than ``max_bytes``, and
    HTTPException for one that cannot be read.
    """

    def __init__(self, begins: bytes, receive: Receive, max_bytes: float = math.inf) -> None:
        self._begins = begins
        self._receive = receive
        self._max_bytes = max_bytes
        self.rest = b""
        """The bytes after the body, once its end was read."""

    def __iter__(self) -> Iterator[bytes]:
        data, receive = self._begins, self._receive
        size = begins = 0
        while True:
            while (line := _CHUNK.match(data, begins)) is None:
                data, begins = _more_of_line(data[begins:], receive), 0
            length, begins = int(line[1], 16), line.end()
            size += length
            if size > self._max_bytes:
                raise AnswerTooLarge
            if not length:
                # with the end of its line: without trailers the empty line is next
                self.rest = _after_trailers(data[begins - 2 :], receive)
                return
            ends = begins + length + 2
            if ends <= len(data):  # as most: the rest is not copied for each of them
                chunk, begins = data[begins:ends], ends
            else:
                chunk, data = _part(data[begins:], length + 2, receive)
                begins = 0
            if not chunk.endswith(b"\r\n"):
                raise http.client.HTTPException("a chunk is longer than its length says")
            yield chunk[:-2]


def plain_answer(
    received: bytes, sock: socket.socket, deadline: float, max_bytes: float = math.inf
) -> tuple[PlainAnswer | None, bool]:
    """Return the answer that begins with the bytes received, and whether nothing came after it.

    ``deadline``, of the monotonic clock, bounds the rest.
    An answer that is not plain, or whose head has not come at once, is None, and nothing of it is read.
    Raises OSError, AnswerTooLarge for more than ``max_bytes`` that are no refusal, and HTTPException where it
    ends too early or a chunk cannot be read.
    """
    head = _PLAIN_HEAD.match(received)
    if head is None:
        return None, True
    status, words, lines = head.groups()
    length = _plain_length(lines)
    if length is None or int(status) in WITHOUT_A_BODY:
        return None, True
    if int(status) >= REFUSES:  # the bound is for pages; a refusal says when to ask again
        max_bytes = math.inf
    receive = partial(receive_some, sock, deadline)
    data = received[head.end() :]
    if length == _CHUNKED:
        chunks = Chunks(data, receive, max_bytes)
        body, rest = b"".join(chunks), chunks.rest
    elif length > max_bytes:
        raise AnswerTooLarge
    else:
        body, rest = _part(data, length, receive)
    return PlainAnswer(int(status), body, words, lines), not rest


def receive_some(sock: socket.socket, deadline: float | None) -> bytes:
    """Return the next bytes, at least one; raise IncompleteRead at the end of the stream."""
    set_time_left(sock, deadline)
    part = sock.recv(PIECE)
    if not part:
        raise http.client.IncompleteRead(b"")
    return part


def set_time_left(sock: socket.socket, deadline: float | None) -> None:
    """Let a socket wait until the deadline, if any; raise TimeoutError once it is over."""
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")  # as the socket does
        sock.settimeout(left)


def _plain_length(lines: bytes) -> int | None:
    """Return the length of a body that one header alone is about, or _CHUNKED; None of any other body."""
    length = None
    for name, value in _FRAMING.findall(lines):
        header, word = name.lower(), value.lower()
        if header == b"connection" and word == b"keep-alive":
            continue
        if length is not None:
            return None
        if header == b"content-length" and _PLAIN_LENGTH.fullmatch(word):
            length = int(word)
        elif header == b"transfer-encoding" and word == b"chunked":
            length = _CHUNKED
        else:
            return None
    return length


def _part(data: bytes, length: int, receive: Receive) -> tuple[bytes, bytes]:
    """Return so many bytes, and the bytes after them."""
    if len(data) >= length:
        return data[:length], data[length:]
    parts = [data]
    length -= len(data)
    while (left := length - len(data := receive())) > 0:
        parts.append(data)
        length = left
    return b"".join([*parts, data[:length]]), data[length:]


def _more_of_line(begun: bytes, receive: Receive) -> bytes:
    """Return the line with the next bytes; raise HTTPException where it is whole already, or endless."""
    if b"\n" in begun or len(begun) > LONGEST_LINE:
        raise http.client.HTTPException(f"a bad line between chunks: {begun[:80]!r}")
    return begun + receive()


def _after_trailers(data: bytes, receive: Receive) -> bytes:
    """Return the bytes after the empty line that ends a body in chunks."""
    while (end := data.find(b"\r\n\r\n")) < 0:
        if len(data) > LONGEST_LINE:
            raise http.client.HTTPException("headers without an end after the last chunk")
        data += receive()
    # http.client takes a newline alone for the end of a line
    if data.count(b"\n", 0, end) != data.count(b"\r\n", 0, end):
        raise http.client.HTTPException("a bad header after the last chunk")
    return data[end + 4 :]
