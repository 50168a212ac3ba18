"""The dashboard on a socket, served by waitress."""

import logging

import waitress
from waitress.server import BaseWSGIServer, MultiSocketServer

from distq.dashboard.app import create_app
from distq.dashboard.security import is_loopback
from distq.errors import ConfigError
from distq.inspector import Inspector

logger = logging.getLogger("distq.dashboard")


def create_server(
    inspector: Inspector, *, host: str = "127.0.0.1", port: int = 9181
) -> BaseWSGIServer | MultiSocketServer:
    """Listen on a loopback address; port 0 takes a free one. Call its ``run()`` to serve.

    Raises ConfigError for any other address: the dashboard asks for no login yet.
    """
    if not is_loopback(host):
        raise ConfigError(
            f'cannot bind the dashboard to "{host}": it has no login, loopback only. '
            "Bind 127.0.0.1 and use kubectl port-forward, or a proxy with a login."
        )
    try:
        return waitress.create_server(
            create_app(inspector),
            listen=f"{f'[{host}]' if ':' in host else host}:{port}",
            threads=8,
            ident=None,
            max_request_header_size=32768,  # an id of the longest key takes 3 KiB
            max_request_body_size=65536,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot bind the dashboard to {host}:{port}: {reason}. Choose another port."
        ) from error


def serve(inspector: Inspector, *, host: str = "127.0.0.1", port: int = 9181) -> None:
    """Serve the dashboard until SystemExit or KeyboardInterrupt; log its URL once it listens."""
    server = create_server(inspector, host=host, port=port)
    listening = getattr(server, "effective_port", port)
    shown = f"[{host}]" if ":" in host else host
    logger.info("http://%s:%s/  (read-only, no login: loopback only)", shown, listening)
    server.run()
