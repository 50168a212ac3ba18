"""Answers in chunks, however the network divides them."""

import gzip
import io
import math
import socket
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast

import pytest

from distq.client.http_answer import AnswerTooLarge, plain_answer
from distq.errors import ApiError, TooManyRequests
from tests.client.test_http_connection import GZIPPED, OK, client_of

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"kind":"PodList"}\r\n0\r\n\r\n'
CHUNKS = b'12;a=b\r\n{"kind":"PodList"}\r\n7\r\n\r\n0\r\n\r\n\r\n0\r\nA: b\r\nC: d\r\n\r\n'
"""The body has what ends a body, and what follows the last chunk is no part of it."""


class Pieces:
    """A socket that receives what is left, in pieces of one size."""

    def __init__(self, left: bytes, size: int) -> None:
        self.left = left
        self._size = size

    def recv(self, _: int) -> bytes:
        """Return the next piece, nothing at the end."""
        piece, self.left = self.left[: self._size], self.left[self._size :]
        return piece

    def settimeout(self, _: float) -> None:
        """Time does not matter."""


def answer_of(text: bytes, begins: int, size: int, max_bytes: float = math.inf) -> tuple[Any, bool, bytes]:
    """Return the answer, whether nothing came after it, and what was left unread."""
    pieces = Pieces(text[begins:], size)
    deadline = time.monotonic() + 60
    answer, ends = plain_answer(text[:begins], cast("socket.socket", pieces), deadline, max_bytes)
    return answer, ends, pieces.left


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunks_may_be_divided_anywhere(size: int) -> None:
    """A piece may end within a length, a chunk or the end of a line: the body is the same."""
    text = CHUNKED + CHUNKS
    for begins in range(len(CHUNKED), len(text) + 1):
        answer, ends, left = answer_of(text, begins, size)
        assert (answer.data, ends, left) == (BODY, True, b"")


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_bytes_after_the_last_chunk_are_noticed_or_left(size: int) -> None:
    """The part of another answer that was received with this one shows; the rest of it was not read."""
    text, after = CHUNKED + CHUNKS, b"HTTP/1.1 200 OK\r\n"
    for begins in range(len(CHUNKED), len(text + after)):
        answer, ends, left = answer_of(text + after, begins, size)
        assert answer.data == BODY
        assert ends == (left == after)


def test_chunks_that_break_are_no_answer() -> None:
    """Wherever the connection ends, and whichever byte of the frame is another."""
    text = CHUNKED + CHUNKS
    for begins in range(len(CHUNKED), len(text)):
        with pytest.raises(HTTPException):
            answer_of(text[:begins], len(CHUNKED), 5)
    for line in (b"12;a=b\r\n", b"7\r\n", b"}\r\n7", b"A: b\r\n"):
        with pytest.raises(HTTPException):
            answer_of(text.replace(line, line.replace(b"\r", b"x")), len(CHUNKED), 1000)


@pytest.mark.parametrize("begins", [b"", b"0\r\n", b"3\r\nabc\r\n"])
def test_lines_between_chunks_have_an_end(begins: bytes) -> None:
    """From a line without an end at most as many bytes are received as from a line of the head."""
    pieces = Pieces(b"1: 1\r\n" * 20_000 if b"0" in begins else b"1" * 120_000, 1000)
    with pytest.raises(HTTPException):
        plain_answer(CHUNKED + begins, cast("socket.socket", pieces), time.monotonic() + 60)
    assert len(pieces.left) > 40_000


def test_chunks_are_read_until_they_are_too_many() -> None:
    """As soon as their lengths show it: no byte beyond the bound is received."""
    answer, _, _ = answer_of(CHUNKED + CHUNKS, len(CHUNKED), 5, max_bytes=len(BODY))
    assert answer.data == BODY
    pieces = Pieces(b"3\r\nabc\r\n4\r\n", 3)
    with pytest.raises(AnswerTooLarge):
        plain_answer(CHUNKED, cast("socket.socket", pieces), time.monotonic() + 60, 6)
    assert pieces.left == b""


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 6\r\n\r\nabcdef",
        CHUNKED + b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
        OK + b"X-Long: " + b"x" * 30_000 + b"\r\nContent-Length: 6\r\n\r\nabcdef",
        OK + b"Connection: close\r\n\r\nabcdef",
    ],
)
def test_each_answer_has_its_bound(tmp_path: Path, answer: bytes, *, used: bool) -> None:
    """For each way in which an answer ends, on a new connection and on one that was used."""
    good = OK + b"Content-Length: 2\r\n\r\nok"
    with client_of(tmp_path, *([good] if used else []), answer, answer, good) as (client, _):
        if used:
            assert client.request("GET", "/api") == b"ok"
        assert client.request("GET", "/api", max_bytes=6) == b"abcdef"
        with pytest.raises(AnswerTooLarge):
            client.request("GET", "/api", max_bytes=5)
        assert client.request("GET", "/api", max_bytes=5) == b"ok"


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    "frame", ["Content-Length: {}\r\n\r\n{}", "Connection: close\r\nContent-Length: {}\r\n\r\n{}"]
)
@pytest.mark.parametrize("body", ["", "many words"])
def test_a_refusal_has_no_bound(tmp_path: Path, frame: str, body: str, *, used: bool) -> None:
    """Be it long or empty, it says when to ask again: the same with a bound and without."""
    good = OK + b"Content-Length: 2\r\n\r\nok"
    answer = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n" + frame.format(len(body), body).encode()
    for max_bytes in (None, 5):
        with client_of(tmp_path, *([good] if used else []), answer, good) as (client, _):
            if used:
                assert client.request("GET", "/api") == b"ok"
            with pytest.raises(TooManyRequests, match=f"429 {body or 'Too Many Requests'}") as caught:
                client.request("GET", "/api", max_bytes=max_bytes)
            assert caught.value.retry_after == 7.0
            assert client.request("GET", "/api", max_bytes=5) == b"ok"


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("frame", [b"Content-Length: 0\r\n\r\n", b"Connection: close\r\n\r\n", b""])
def test_an_answer_may_be_empty(tmp_path: Path, frame: bytes, *, used: bool) -> None:
    """It is bytes nevertheless."""
    good = OK + b"Content-Length: 2\r\n\r\nok"
    answer = OK + frame if frame else b"HTTP/1.1 204 No Content\r\n\r\n"
    with client_of(tmp_path, *([good] if used else []), answer) as (client, _):
        if used:
            assert client.request("GET", "/api") == b"ok"
        assert client.request("GET", "/api", max_bytes=5) == b""


def test_answers_may_have_another_encoding(tmp_path: Path) -> None:
    """A proxy may have compressed a body that was asked for as it is; the bound is of the unpacked bytes."""
    answer = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(GZIPPED) + GZIPPED
    with client_of(tmp_path, answer, answer, answer) as (client, _):
        assert client.request("GET", "/api", max_bytes=3) == b"abc"
        assert client.request("GET", "/api", max_bytes=3) == b"abc"
        with pytest.raises(AnswerTooLarge, match="GET /api: more than 2 bytes"):
            client.request("GET", "/api", max_bytes=2)


@pytest.mark.parametrize(("after", "connections"), [(b"", 1), (OK + b"Content-Length: 4\r\n\r\nevil", 2)])
def test_a_watch_that_ended_leaves_its_connection(tmp_path: Path, after: bytes, connections: int) -> None:
    """The next request takes it, unless something came that would be taken for its answer."""
    good = OK + b"Content-Length: 2\r\n\r\nok"
    watch = CHUNKED + b"6\r\none\ntw\r\n2;a=b\r\no\n\r\n0\r\n\r\n"
    with client_of(tmp_path, good, watch + after, good) as (client, script):
        assert client.request("GET", "/api") == b"ok"
        with client.stream("/watch", query={}, read_timeout=5.0) as stream:
            assert list(stream) == [b"one", b"two"]
        assert client.request("GET", "/api") == b"ok"
        assert script.connections == connections


@pytest.mark.parametrize("head", [b"Transfer-Encoding: chunked\r\n\r\n", b"Connection: close\r\n\r\n"])
def test_a_watch_that_was_read_has_no_more_lines(tmp_path: Path, head: bytes) -> None:
    """To ask an ended watch again is no error, whichever frame it came in."""
    body = b"4\r\none\n\r\n0\r\n\r\n" if b"chunked" in head else b"one\n"
    with (
        client_of(tmp_path, OK + head + body) as (client, _),
        client.stream("/watch", query={}, read_timeout=5.0) as stream,
    ):
        assert (list(stream), list(stream)) == ([b"one"], [])


@pytest.mark.parametrize(
    ("breaks", "cause"),
    [
        (b"", "the connection ended within the answer"),
        (b"6\r\ntwo\n", "the connection ended within the answer"),
        (b"4\r\ntwo\nzz", "a chunk is longer than its length says"),
        (b"x\r\n", "a bad line between chunks"),
        (b"0\r\na\nb\r\n\r\n", "a bad header after the last chunk"),
    ],
)
def test_a_watch_whose_chunks_break_is_one_error(tmp_path: Path, breaks: bytes, cause: str) -> None:
    """The lines before are good, and the connection is not used again."""
    good = OK + b"Content-Length: 2\r\n\r\nok"
    lines: list[bytes] = []
    # the server closes its connection after an answer that has this word
    head = OK + b"X-Ends: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with client_of(tmp_path, head + b"4\r\none\n\r\n" + breaks, good) as (client, script):
        stream = client.stream("/watch", query={}, read_timeout=5.0)
        with stream, pytest.raises(ApiError, match=f"GET /watch: no answer .*: {cause}") as caught:
            lines.extend(stream)
        assert (lines, caught.value.status) == ([b"one"], 0)
        assert client.request("GET", "/api") == b"ok"
        assert script.connections == 2


def test_a_watch_may_have_another_encoding(tmp_path: Path) -> None:
    """A proxy may have compressed it: its lines are the same."""
    packed = gzip.compress(b"one\ntwo\n")
    watch = OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    with (
        client_of(tmp_path, watch + body) as (client, _),
        client.stream("/watch", query={}, read_timeout=5.0) as stream,
    ):
        assert list(stream) == [b"one", b"two"]


def test_all_chunks_that_came_with_the_head_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer of the head may have many of them: Python 3.14 reads 128 KiB at once."""
    line = b"x" * 999
    watch = CHUNKED + 50 * (b"3e8\r\n" + line + b"\n\r\n") + b"0\r\n\r\n"

    def read_at_once(received: Any, _mode: str) -> io.BufferedReader:
        reader = io.BufferedReader(received, 1 << 17)
        while len(received._sock.recv(1 << 17, socket.MSG_PEEK)) < len(watch):
            time.sleep(0.001)
        return reader

    monkeypatch.setattr("distq.client.http_connection._Received.makefile", read_at_once)
    with (
        client_of(tmp_path, watch) as (client, _),
        client.stream("/watch", query={}, read_timeout=5.0) as stream,
    ):
        assert list(stream) == 50 * [line]


def test_many_small_chunks_are_read_in_time_that_grows_with_them() -> None:
    """Bytes that were received once are not copied for each chunk."""
    text = CHUNKED + 100_000 * b"1\r\n.\r\n" + b"000000000\r\n\r\n"
    answer, ends, _ = answer_of(text, len(text), 1)
    assert (len(answer.data), ends) == (100_000, True)
