"""An HTTP proxy that answers some requests itself, badly; it speaks plain HTTP to its clients."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.api_servers import ApiServer

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[[str], Answer | None]
"""From a path with its query to an answer, or None to let the server answer."""


def ok(*lines: bytes) -> Answer:
    """Return a stream of these bytes that ends in good order."""
    return 200, {"Content-Type": "application/json"}, b"".join(lines)


def refusal(status: int, **headers: str) -> Answer:
    """Return a Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": "no"}
    return status, {"Content-Type": "application/json", **headers}, json.dumps(body).encode()


def is_watch(path: str) -> bool:
    """Return whether a request is a watch."""
    return "watch=true" in path


def once(concerns: Callable[[str], bool], answer: Callable[[], Answer]) -> Fault:
    """Return the fault that the first request of a sort meets."""
    met: list[str] = []

    def fault(path: str) -> Answer | None:
        if met or not concerns(path):
            return None
        met.append(path)
        return answer()

    return fault


class FaultyProxy:
    """Forward requests to the API server unless ``fault`` has an answer of its own to a GET."""

    def __init__(self, api_server: ApiServer) -> None:
        self.fault: Fault = lambda _: None
        self._connection = _connections_to(api_server)
        self._upstream: set[socket.socket] = set()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                answer = proxy.fault(self.path)
                if answer is not None:
                    proxy.give(self, answer)
                else:
                    proxy.forward(self)

            def do_POST(self) -> None:
                proxy.forward(self)

            do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - as http.server calls them

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.end_streams()

    def end_streams(self) -> None:
        """End the answers under way, as a server does that goes away."""
        for upstream in list(self._upstream):
            with contextlib.suppress(OSError):  # it just ended
                # not SSLSocket.shutdown, which takes the cipher away from the thread that reads
                socket.socket.shutdown(upstream, socket.SHUT_RDWR)

    @staticmethod
    def give(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        """Answer as set."""
        status, headers, body = answer
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        with contextlib.suppress(OSError):  # a client that is done with it went away
            handler.wfile.write(body)

    def forward(self, handler: BaseHTTPRequestHandler) -> None:
        """Pass the server's answer on as it comes, and end the connection with it."""
        handler.close_connection = True
        connection = self._connection()
        try:
            connection.connect()
        except OSError:
            return  # the server is away, which the client sees as its connection ends
        upstream: socket.socket = connection.sock
        self._upstream.add(upstream)
        headers = {name: value for name, value in handler.headers.items() if name != "Host"}
        try:
            body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
            connection.request(handler.command, handler.path, body=body or None, headers=headers)
            response = connection.getresponse()
            handler.send_response(response.status)
            handler.send_header("Content-Type", response.headers.get("Content-Type", ""))
            handler.send_header("Connection", "close")
            handler.end_headers()
            while data := response.read1(1 << 16):
                handler.wfile.write(data)
                handler.wfile.flush()
        except (OSError, http.client.HTTPException):
            pass  # one of both went away
        finally:
            self._upstream.discard(upstream)
            connection.close()


def _connections_to(api_server: ApiServer) -> Callable[[], http.client.HTTPConnection]:
    address = urlsplit(api_server.url)
    if address.scheme == "http":
        return partial(http.client.HTTPConnection, address.netloc)
    cluster = json.loads(api_server.kubeconfig.read_text())["clusters"][0]["cluster"]
    trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
    return partial(http.client.HTTPSConnection, address.netloc, context=trust)
