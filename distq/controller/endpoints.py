"""The HTTP endpoints of a process: /healthz and /readyz for the kubelet, /metrics for Prometheus.

The standard library's WSGI server; it closes the connection of a slow client to make room for others. It
answers before and during all other work: a probe reports that Redis is away, and does not wait for it.
"""

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from distq.config import host_and_port
from distq.errors import ConfigError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Problems = Callable[[], Sequence[str]]

NO_METRICS = "no metrics here: the process keeps none. Install distq[metrics], or give the Manager some.\n"

MOST_CONNECTIONS = 64
"""Connections at a time; a kubelet and a few scrapers need less."""

_POLL = 0.1
"""Seconds that ``close`` may wait for the server's thread."""

_logger = logging.getLogger("distq")


@dataclass(frozen=True, eq=False)
class ManagerPages:
    """The pages of one Manager.

    ``health`` and ``readiness`` return problems, a line each; none is a 200, any is a 503.
    """

    health: Problems
    readiness: Problems
    metrics: "WSGIApplication | None"


class Endpoints:
    """Serves the three pages at ADDRESS:PORT, from threads of its own."""

    def __init__(self, address: str) -> None:
        self._of: list[ManagerPages] = []
        self._server = _listen(*host_and_port(address))
        self._server.set_app(self._answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=[_POLL], name="distq-http", daemon=True
        )

    @property
    def url(self) -> str:
        """Return the address at which it listens."""
        host, port = self._server.server_name, self._server.server_port
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def join(self, pages: ManagerPages) -> None:
        """Answer for this Manager, too. Raises ConfigError if it has other metrics than those before."""
        metrics = self._metrics
        if metrics is not None and pages.metrics is not None and metrics != pages.metrics:
            raise ConfigError(
                f"cannot share {self.url}: another Manager of this process has other metrics there. "
                "Give both the same metrics, or choose another http_address."
            )
        self._of.append(pages)
        if self._thread.ident is None:
            paths = ", ".join(["/healthz", "/readyz", *(["/metrics"] if pages.metrics else [])])
            try:
                self._thread.start()
            except RuntimeError:  # too many threads; the port is free for another try
                self.close()
                raise
            _logger.info("%s  %s", self.url, paths)

    def leave(self, pages: ManagerPages) -> bool:
        """Answer for this Manager no longer; return whether it was the last one."""
        self._of.remove(pages)
        return not self._of

    def close(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._server.shutdown()
            with suppress(OSError):  # a child that was just forked may have a copy: Linux ends it, too
                self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    @property
    def _metrics(self) -> "WSGIApplication | None":
        return next((pages.metrics for pages in self._of.copy() if pages.metrics is not None), None)

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] != "GET":
            return _text(start_response, "405 Method Not Allowed", "only GET\n")
        if path == "/healthz":
            return _probe(path, [pages.health for pages in self._of.copy()], start_response)
        if path == "/readyz":
            return _probe(path, [pages.readiness for pages in self._of.copy()], start_response)
        if path != "/metrics":
            return _text(start_response, "404 Not Found", "/metrics /healthz /readyz\n")
        if (metrics := self._metrics) is None:
            return _text(start_response, "404 Not Found", NO_METRICS)
        return metrics(environ, start_response)


_shared: dict[str, Endpoints] = {}
"""The endpoints of this process by their address; those of a port that the system chooses are not shared."""
_sharing = threading.Lock()


def _after_fork_in_child() -> None:
    """Share nothing with the parent, nor its port: the threads that answer there stayed there."""
    global _sharing  # noqa: PLW0603  # a thread of the parent may have held it
    _sharing = threading.Lock()
    for endpoints in _shared.values():
        endpoints.close()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


@contextmanager
def serving(address: str, pages: ManagerPages) -> Iterator[Endpoints]:
    """Serve the pages at the address until the block ends; Managers of one process share an address."""
    with _sharing:
        endpoints = _shared.get(address) or Endpoints(address)
        endpoints.join(pages)
        if host_and_port(address)[1]:
            _shared[address] = endpoints
    try:
        yield endpoints
    finally:
        with _sharing:
            if endpoints.leave(pages):
                _shared.pop(address, None)
                endpoints.close()


def _probe(path: str, parts: Sequence[Problems], start_response: "StartResponse") -> Iterable[bytes]:
    if len(parts) == 1:
        problems = list(parts[0]())
    else:
        with ThreadPoolExecutor(len(parts) or 1) as pool:  # a silent Redis costs one timeout for all
            found = list(pool.map(lambda part: part(), parts))
        problems = list(dict.fromkeys(problem for each in found for problem in each))
    if not problems:
        return _text(start_response, "200 OK", "ok\n")
    _logger.warning("%s: %s", path, "; ".join(problems))
    return _text(start_response, "503 Service Unavailable", "".join(f"{line}\n" for line in problems))


def _text(start_response: "StartResponse", status: str, body: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [body.encode()]


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # seconds without a word of the client
    server: "_Server"

    def parse_request(self) -> bool:
        """Read the headers; from here on it is the server that has to go on."""
        asked = super().parse_request()
        self.server.has_asked(self.request)
        return asked

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there
        _logger.debug(format, *args)


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a connection. Beyond so many, the oldest one that has not yet asked makes room."""

    daemon_threads = True  # a slow client does not delay the end of the process
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._asking: dict[socket.socket, None] = {}
        self._answered: dict[socket.socket, None] = {}
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._asking) + len(self._answered) >= MOST_CONNECTIONS:
            self._make_room()
        self._asking[request] = None
        super().process_request(request, client_address)

    def has_asked(self, request: socket.socket) -> None:
        """Note that all of a request has come."""
        if request in self._asking:  # or it had to make room
            self._answered[request] = None
            self._asking.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        self._asking.pop(request, None)
        self._answered.pop(request, None)
        super().shutdown_request(request)

    def _make_room(self) -> None:
        for connections in (self._asking, self._answered):
            for oldest in connections.copy():
                connections.pop(oldest, None)
                with suppress(OSError):  # it had gone
                    oldest.shutdown(socket.SHUT_RDWR)  # which ends its thread
                return

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:  # "::" is all addresses, those of IPv4, too
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)  # not HTTPServer's, which asks DNS for this machine's name
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - its signature
        _logger.debug("a client of the HTTP endpoints went away: %s", sys.exception())


def _listen(host: str, port: int) -> _Server:
    if not host and socket.has_dualstack_ipv6():
        host = "::"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = type("_Server", (_Server,), {"address_family": family})
    try:
        return server((host, port), _Handler)  # type: ignore[no-any-return]  # made just above
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {host}:{port}: {cause}. Choose another http_address.") from None
