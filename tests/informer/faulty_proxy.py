"""An HTTP proxy that answers some requests itself, badly; for servers that speak plain HTTP."""

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[[str], Answer | None]
"""From a path with its query to an answer, or None to let the server answer."""


class FaultyProxy:
    """Forward GET requests to ``target`` unless ``fault`` has an answer of its own."""

    def __init__(self, target: str) -> None:
        self.fault: Fault = lambda _: None
        self.asked: list[str] = []
        address = urlsplit(target).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.asked.append(self.path)
                answer = proxy.fault(self.path)
                if answer is not None:
                    proxy.give(self, answer)
                else:
                    proxy.forward(self, address)

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

    @staticmethod
    def give(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        """Answer as told."""
        status, headers, body = answer
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    @staticmethod
    def forward(handler: BaseHTTPRequestHandler, address: str) -> None:
        """Pass the server's answer on as it comes, and end the connection with it."""
        connection = http.client.HTTPConnection(address)
        headers = {name: value for name, value in handler.headers.items() if name != "Host"}
        try:
            connection.request("GET", handler.path, headers=headers)
            response = connection.getresponse()
            handler.send_response(response.status)
            handler.send_header("Content-Type", response.headers.get("Content-Type", ""))
            handler.send_header("Connection", "close")
            handler.end_headers()
            while data := response.read1(1 << 16):
                handler.wfile.write(data)
                handler.wfile.flush()
        except OSError:
            pass  # one of both went away
        finally:
            connection.close()
        handler.close_connection = True
