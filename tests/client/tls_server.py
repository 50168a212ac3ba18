"""A server with TLS, the certificates for it, and a proxy: all between a client and its cluster."""

import http.server
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.support.parts import program


def make_certificate(folder: Path, name: str, *, hosts: str = "IP:127.0.0.1") -> None:
    """Write NAME.crt, which signs itself, and NAME.key."""
    subprocess.run(
        [
            *(program("openssl", package="openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={hosts}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers each request with an object that has its target, headers and body in ``data``."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        headers = {name.lower(): text for name, text in self.headers.items()}
        data = {"path": self.path, "body": body, **headers}
        answer = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_PATCH(self) -> None:
        """Answer."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Be silent."""


class Proxy(Echo):
    """A proxy: what is forwarded is answered here, a tunnel leads to where it is asked for."""

    tunnels: ClassVar[list[str]] = []
    """Where tunnels led."""

    def do_CONNECT(self) -> None:
        """Move bytes between the client and its target until either has ended."""
        self.tunnels.append(self.path)
        self.send_response(200)
        self.end_headers()
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as target:
            back = threading.Thread(target=_move, args=(target, self.connection))
            back.start()
            _move(self.connection, target)
            back.join()
        self.close_connection = True


def _move(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
    except OSError:
        source.close()


@contextmanager
def serving(handler: type[Echo], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on a free port; yield the URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that trust us not leave
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def port_of(url: str) -> str:
    """Return HOST:PORT of a URL."""
    return urlsplit(url).netloc


def tls_of(folder: Path, name: str, *, clients: str = "") -> ssl.SSLContext:
    """Return a TLS context with a certificate, which admits only clients of the authority ``clients``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / f"{clients}.crt")
    return context


def data_of(answer: bytes) -> dict[str, Any]:
    """Return what the server saw."""
    data: dict[str, Any] = json.loads(answer)["data"]
    return data
