"""HTTP as the client speaks it: one piece out, and any answer of a server or a proxy."""

import gc
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3

from distq.client import Client
from distq.errors import ApiError, ConfigError, NotFound, TooManyRequests
from tests.client.tls_server import Echo, data_of, make_certificate, serving, tls_of
from tests.support.api_servers import write_kubeconfig

OK = b"HTTP/1.1 200 OK\r\n"
GZIPPED = gzip.compress(b"abc", mtime=0)
MANY = b"a" * 100_000


class Script:
    """A server that answers each request, of any connection, by the next of some bytes."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.connections = 0
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Take connections one after the other until all is answered."""
        while self._answers:
            connection, _ = self._listener.accept()
            self.connections += 1
            with connection:
                while self._answers and (request := connection.recv(1 << 16)):
                    self.requests.append(request)
                    answer = self._answers.pop(0)
                    connection.sendall(answer)
                    if not answer or b"HTTP/1.0" in answer or b"close" in answer:
                        break

    def close(self) -> None:
        """Stop listening."""
        self._answers.clear()
        with socket.create_connection(("127.0.0.1", self.port)):
            self._listener.close()


@contextmanager
def client_of(folder: Path, *answers: bytes) -> Iterator[tuple[Client, Script]]:
    """Give a Client of a server that answers so."""
    script = Script(*answers)
    thread = threading.Thread(target=script.serve, daemon=True)
    thread.start()
    write_kubeconfig(
        folder / "kubeconfig", cluster={"server": f"http://127.0.0.1:{script.port}"}, user={"token": "t"}
    )
    try:
        yield Client(folder / "kubeconfig", timeout=5.0), script
    finally:
        script.close()


@contextmanager
def dripping(folder: Path, start: bytes, *, used: bool) -> Iterator[Client]:
    """Give a Client of a server whose answer takes about twenty seconds: a start, then byte by byte.

    On a connection that is ``used`` it answers the first request at once.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        with suppress(OSError):  # the client left
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    if used:
                        connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
                        connection.recv(1 << 16)
                    connection.sendall(start)
                    for _ in range(400):
                        connection.sendall(b"x")
                        time.sleep(0.05)

    threading.Thread(target=drip, daemon=True).start()
    server = f"http://127.0.0.1:{listener.getsockname()[1]}"
    write_kubeconfig(folder / "kubeconfig", cluster={"server": server}, user={"token": "t"})
    with listener:
        yield Client(folder / "kubeconfig", timeout=5.0)


def test_a_request_is_one_tls_record(tmp_path: Path) -> None:
    """Head and body go out together: apart they are two records, two packets, two wake-ups."""
    make_certificate(tmp_path, "server")
    with serving(Echo, tls_of(tmp_path, "server")) as server:
        relay = _Relay(int(server.rpartition(":")[2]))
        write_kubeconfig(
            tmp_path / "kubeconfig",
            cluster={"server": f"https://127.0.0.1:{relay.port}", "certificate-authority": "server.crt"},
            user={"token": "t"},
        )
        client = Client(tmp_path / "kubeconfig", timeout=5.0)
        client.request("GET", "/api")
        before = relay.records()
        answer = client.request("PATCH", "/api", body={"data": {"size": "1"}})
        assert data_of(answer)["body"] == '{"data":{"size":"1"}}'
        assert relay.records() == before + 1


class _Relay:
    """Moves the bytes of one connection to a server, and keeps what the client sent."""

    def __init__(self, target: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sent = bytearray()
        threading.Thread(target=self._serve, args=(target,), daemon=True).start()

    def records(self) -> int:
        """Return how many TLS records the client has sent. Source: RFC 8446 section 5.1."""
        place = count = 0
        while place < len(self._sent):
            place, count = place + 5 + int.from_bytes(self._sent[place + 3 : place + 5]), count + 1
        return count

    def _serve(self, target: int) -> None:
        client, _ = self._listener.accept()
        self._listener.close()
        with client, socket.create_connection(("127.0.0.1", target)) as server:
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
            while data := client.recv(1 << 16):
                self._sent += data
                server.sendall(data)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        while data := server.recv(1 << 16):
            client.sendall(data)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"content-length:3\r\ncontent-length:3\r\n\r\nabc", b"abc"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
        (OK + b"transfer-encoding:Chunked\r\n\r\n003;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", b"abc"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n186A0\r\n%b\r\n0\r\n\r\n" % MANY, MANY),
        (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200\nContent-Length: 3\n\nabc", b"abc"),
        (OK + b"Connection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"Content-Length: 100000\r\n\r\n" + MANY, MANY),
        (OK + b"A: " + b"b" * 30_000 + b"\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(GZIPPED) + GZIPPED, b"abc"),
    ],
)
def test_answers_with_an_end_keep_their_connection(tmp_path: Path, answer: bytes, body: bytes) -> None:
    """For each way in which a body ends: the next request takes the same connection."""
    with client_of(tmp_path, answer, answer) as (client, script):
        assert client.request("GET", "/api") == body
        assert client.request("GET", "/api") == body
        assert script.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"\r\nabc",
        OK + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_answers_that_end_their_connection_are_read_whole(tmp_path: Path, answer: bytes) -> None:
    """By what says so, or since nothing else says where the body ends; then there is a new connection."""
    if b"close" not in answer and b"HTTP/1.0" not in answer:
        answer = answer.replace(b"\r\n\r\n", b"\r\nX: close\r\n\r\n")  # for the script alone
    with client_of(tmp_path, answer, answer) as (client, script):
        assert client.request("GET", "/api") == b"abc"
        assert client.request("GET", "/api") == b"abc"
        assert script.connections == 2


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "SSH"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "abc"),
        (OK + b"no colon\r\nContent-Length: 0\r\n\r\n", "a bad header line: b'no colon"),
        (OK + b"A: b\r\n folded\r\nContent-Length: 0\r\n\r\n", "a bad header line"),
        (OK + b"A : b\r\nContent-Length: 0\r\n\r\n", "a bad header line"),
        (OK + b"A: b\r\n" * 200 + b"\r\n", "more than 100 headers"),
        (OK + b"A: " + b"b" * 70000 + b"\r\n\r\n", "header line"),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "a bad Content-Length"),
        (OK + b"Content-Length: -1\r\n\r\n", "a bad Content-Length"),
        (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "a bad Content-Length"),
        (OK + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n", "a body, or a part of one, of 9"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", ""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", "-5"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n", ""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabclose\r\n", ""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n30\r\nabclose", ""),
        (OK + b"Transfer-Encoding: chunked\r\nX: close\r\n\r\n3\r\nabc\r\n", ""),
        (OK + b"X: close\r\n", "the connection ended within the headers"),
        (OK + b"X: close\r\nContent-Length: 1", "the connection ended within the headers"),
        (b"HTTP/1.1 200 close", "the connection ended within the headers"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20, "more than 10 heads"),
        (b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 2000 OK"),
        (b"HTTP/1.1 200OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200OK"),
        (b"HTTP/2 200\r\nContent-Length: 2\r\n\r\nok", "HTTP/2"),
        (b"", "without response"),
    ],
)
@pytest.mark.parametrize("used", [False, True])
def test_bytes_that_are_no_answer_are_one_error(
    tmp_path: Path, answer: bytes, cause: str, *, used: bool
) -> None:
    """An ApiError of status 0 that quotes the bytes, and that connection is not used again.

    On a new connection urllib3 asks, and on one that was used before distq itself.
    """
    good = OK + b"Content-Length: 2\r\n\r\nok"
    with client_of(tmp_path, *([good] if used else []), answer, good) as (client, script):
        if used:
            assert client.request("GET", "/api") == b"ok"
        with pytest.raises(ApiError, match="no answer from") as caught:
            client.request("PATCH", "/api", body={})
        assert cause in str(caught.value)
        assert caught.value.status == 0
        assert client.request("GET", "/api") == b"ok"
        assert script.connections == 2


@pytest.mark.parametrize(
    "good",
    [
        OK + b"Content-Length: 2\r\n\r\nok",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    ],
)
def test_bytes_behind_an_answer_are_no_other_answer(tmp_path: Path, good: bytes) -> None:
    """They would be taken for the answer to the next request: it takes another connection."""
    evil = OK + b"Content-Length: 4\r\n\r\nevil"
    with client_of(tmp_path, good, good + evil, good) as (client, script):
        for _ in range(3):
            assert client.request("GET", "/api") == b"ok"
        assert script.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        (b"Content-Length: 10\r\n\r\nhello", b"world"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"5\r\nworld\r\n0\r\n\r\n" + b" " * 9000),
    ],
)
def test_bytes_behind_an_answer_that_tls_has_decrypted_are_no_other_answer(
    tmp_path: Path, pieces: tuple[bytes, bytes]
) -> None:
    """The rest of a TLS record of which a part was read shows at no look at the socket."""
    make_certificate(tmp_path, "server")
    evil = OK + b"Content-Length: 4\r\n\r\nevil"
    listener = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve() -> None:
        with suppress(OSError):  # the client left
            while True:
                connection = tls_of(tmp_path, "server").wrap_socket(listener.accept()[0], server_side=True)
                connections.append(connection)
                while connection.recv(1 << 16):
                    connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
                    if len(connections) == 1 and connection.recv(1 << 16):
                        connection.sendall(OK + pieces[0])
                        connection.sendall(pieces[1] + evil)

    threading.Thread(target=serve, daemon=True).start()
    write_kubeconfig(
        tmp_path / "kubeconfig",
        cluster={
            "server": f"https://127.0.0.1:{listener.getsockname()[1]}",
            "certificate-authority": "server.crt",
        },
        user={"token": "t"},
    )
    client = Client(tmp_path / "kubeconfig", timeout=5.0)
    with listener:
        answers = [client.request("GET", "/api") for _ in range(3)]
    assert answers == [b"ok", b"helloworld", b"ok"]
    assert len(connections) == 2


def test_a_refusal_on_a_used_connection_has_its_words(tmp_path: Path) -> None:
    """Reason and headers, as Retry-After, are those of the answer."""
    good = OK + b"Content-Length: 2\r\n\r\nok"
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    with client_of(tmp_path, good, refusal, good) as (client, script):
        assert client.request("GET", "/api") == b"ok"
        with pytest.raises(TooManyRequests, match="429 Too Many Requests") as caught:
            client.request("GET", "/api")
        assert caught.value.retry_after == 7.0
        assert client.request("GET", "/api") == b"ok"
        assert script.connections == 1


@pytest.mark.parametrize("part", [b"", OK, OK + b"Content-Length: 3\r\n\r\na"])
def test_silence_on_a_used_connection_ends_in_time(tmp_path: Path, part: bytes) -> None:
    """Before the answer, within its head and within its body: an ApiError that says so."""
    good = OK + b"Content-Length: 2\r\n\r\nok"

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(good)
            connection.recv(1 << 16)
            connection.sendall(part)
            while connection.recv(1 << 16):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": server}, user={"token": "t"})
        client = Client(tmp_path / "kubeconfig", timeout=5.0)
        assert client.request("GET", "/api") == b"ok"
        with pytest.raises(ApiError, match="silence for too long"):
            client.request("PATCH", "/api", body={}, timeout=0.1)


@pytest.mark.parametrize("status", [b"200 OK", b"304 Not Modified", b"401 Unauthorized", b"503 Away"])
@pytest.mark.parametrize("used", [False, True])
def test_an_answer_without_bytes_may_be_bounded(tmp_path: Path, status: bytes, *, used: bool) -> None:
    """It is empty, or a refusal by its status, on a new connection, too."""
    empty = b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    first = OK + b"Content-Length: 2\r\n\r\nok"
    with client_of(tmp_path, *[first] * used, empty, empty) as (client, _):
        if used:
            client.request("GET", "/api")
        if status == b"200 OK":
            assert client.request("GET", "/api", max_bytes=9) == b""
        else:
            with pytest.raises(ApiError) as caught:
                client.request("GET", "/api", max_bytes=9)
            assert caught.value.status == int(status[:3])


@pytest.mark.parametrize("details", [b"[" * 20_000 + b"]" * 20_000, b"[1]", b'"text"'])
def test_a_refusal_may_have_any_body(tmp_path: Path, details: bytes) -> None:
    """One that is nested too deeply, or of wrong types, is refused as any other."""
    body = b'{"kind":"Status","details":' + details + b"}"
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with client_of(tmp_path, answer) as (client, _), pytest.raises(NotFound):
        client.request("PATCH", "/api/status", body={})


def test_an_object_that_is_nested_too_deeply_is_one_error(tmp_path: Path) -> None:
    """API servers keep what Python cannot read: a typed error, as for any answer that is none."""
    kinds = b'{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}'
    deep = b'{"spec":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    answers = [OK + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in (kinds, deep)]
    gc.collect()  # what earlier tests left would be collected so deep that no finalizer can run
    with client_of(tmp_path, *answers) as (client, _), pytest.raises(ApiError, match="nested too deeply"):
        client.get("example.com/v1/Widget", "shop/a")


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"500 Internal Server Error"])
def test_a_watch_whose_refusal_breaks_is_one_error(tmp_path: Path, status: bytes) -> None:
    """An ApiError of status 0, as for any answer that came in part."""
    answer = b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc"
    with client_of(tmp_path, answer, answer) as (client, _):
        with pytest.raises(ApiError, match="no answer from") as caught:
            client.stream("/api", query={}, read_timeout=5.0)
        assert caught.value.status == 0


@pytest.mark.parametrize(
    "dripped",
    [
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        OK + b"Content-Length: 400\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n190\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n190;",
    ],
)
@pytest.mark.parametrize("max_bytes", [None, 1 << 20])
@pytest.mark.parametrize("used", [False, True])
def test_an_answer_that_drips_does_not_outlive_the_timeout(
    tmp_path: Path, dripped: bytes, max_bytes: int | None, *, used: bool
) -> None:
    """Each byte comes in time, the answer does not."""
    with dripping(tmp_path, dripped, used=used) as client:
        if used:
            assert client.request("GET", "/api") == b"ok"
        with pytest.raises(ApiError, match="silence for too long") as caught:
            client.request("GET", "/api", timeout=0.3, max_bytes=max_bytes)
    assert caught.value.status == 0


class OtherSocket:
    """A socket as pyOpenSSL's, which has no ``gettimeout``."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name == "gettimeout":
            raise AttributeError(name)
        return getattr(self._real, name)


def test_a_socket_need_not_know_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library of the process may have put pyOpenSSL's in the place of Python's own."""
    connect = urllib3.util.connection.create_connection

    def create_connection(*where: Any, **how: Any) -> OtherSocket:
        return OtherSocket(connect(*where, **how))

    monkeypatch.setattr(urllib3.util.connection, "create_connection", create_connection)
    answer = OK + b"Content-Length: 2\r\n\r\nok"
    with client_of(tmp_path, answer, answer) as (client, script):
        assert [client.request("GET", "/api") for _ in range(2)] == [b"ok", b"ok"]
    assert script.connections == 1


@pytest.mark.parametrize("strange", ["text\r\nX-Evil: 1", "text\x00", "té"])
def test_a_header_of_strange_characters_is_not_sent(tmp_path: Path, strange: str) -> None:
    """It could end the header, and begin another one."""
    with client_of(tmp_path, OK + b"Content-Length: 2\r\n\r\nok") as (client, script):
        with pytest.raises(ConfigError, match="strange characters"):
            client.request("GET", "/api", accept=strange)
        assert script.requests == []
        assert client.request("GET", "/api") == b"ok"


def test_a_path_cannot_begin_another_request(tmp_path: Path) -> None:
    """Characters that no target may contain are encoded."""
    with client_of(tmp_path, OK + b"Content-Length: 2\r\n\r\nok") as (client, script):
        assert client.request("GET", "/api HTTP/1.1\r\nX: 1\r\n\r\n") == b"ok"
        target = b"/api%20HTTP/1.1%0D%0AX:%201%0D%0A%0D%0A"
        assert script.requests[0].startswith(b"GET " + target + b" HTTP/1.1\r\nHost: ")


def test_a_connection_that_breaks_late_leaves_no_time_for_another_try(tmp_path: Path) -> None:
    """A GET is sent again within its timeout, which bounds both tries together."""
    listener = socket.create_server(("127.0.0.1", 0))

    def leave_late() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    time.sleep(1.5)

    threading.Thread(target=leave_late, daemon=True).start()
    server = f"http://127.0.0.1:{listener.getsockname()[1]}"
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": server}, user={"token": "t"})
    with listener:
        client = Client(tmp_path / "kubeconfig", timeout=2.0)
        assert client.server == server
        began = time.monotonic()
        with pytest.raises(ApiError, match="silence for too long"):
            client.request("GET", "/version")
        assert time.monotonic() - began < 2.9


def test_a_redirect_names_where_it_leads(tmp_path: Path) -> None:
    """As of a proxy that wants a log-in, or of a server that has TLS now; a query may be a secret."""
    where = b"https://user:word@login.example.com/auth?state=word#word"
    answer = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + where + b"\r\n\r\n"
    with client_of(tmp_path, answer) as (client, _), pytest.raises(ApiError) as caught:
        client.request("GET", "/version")
    assert caught.value.status == 302
    assert "302 Found. It leads to https://login.example.com/auth: check the server in kubeconfig" in str(
        caught.value
    )
    assert "word" not in str(caught.value)
