"""The dashboard on a socket, served by waitress."""

import logging
import signal
import socket
from typing import Any

import waitress
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer

from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.app import create_app
from distq.dashboard.security import LARGEST_BODY
from distq.errors import ConfigError
from distq.inspector import Inspector
from distq.signals import LONGEST_WAIT

logger = logging.getLogger("distq.dashboard")


MOST_CONNECTIONS = 500
"""Connections at a time; a browser has six. A connection that is closed to make room is reset."""


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection. Beyond so many, the oldest one that waits for its client makes room."""

    def __init__(self, server: BaseWSGIServer, *args: Any, **named: Any) -> None:
        waiting = [channel for channel in server.active_channels.values() if not channel.requests]
        if len(server.active_channels) >= MOST_CONNECTIONS and waiting:
            min(waiting, key=lambda channel: channel.creation_time).handle_close()
        super().__init__(server, *args, **named)


def create_server(
    inspector: Inspector, policy: AccessPolicy | None = None, *, host: str = "127.0.0.1", port: int = 9181
) -> BaseWSGIServer:
    """Listen on an address; port 0 takes a free one. Call its ``run()`` to serve.

    Raises ConfigError for an address other than loopback where there is no login.
    """
    policy = policy or AccessPolicy()
    policy.require_bindable(host)
    server = waitress.create_server(
        create_app(inspector, policy),
        sockets=[_listen(host, port)],
        threads=8,
        ident=None,
        url_prefix=policy.url_prefix,
        clear_untrusted_proxy_headers=False,  # the application does, by network and not by one address
        max_request_header_size=32768,  # an id of the longest key takes 3 KiB
        max_request_body_size=LARGEST_BODY,
        connection_limit=2 * MOST_CONNECTIONS,  # above ours: at its own limit waitress accepts none
        asyncore_use_poll=True,  # select() knows no file above 1,023
        channel_timeout=30,
    )
    server.channel_class = _Channel
    return server


def serve(
    inspector: Inspector, policy: AccessPolicy | None = None, *, host: str = "127.0.0.1", port: int = 9181
) -> None:
    """Serve the dashboard from the main thread and log its URL; return at SIGTERM.

    Raises KeyboardInterrupt at Ctrl-C.
    """
    policy = policy or AccessPolicy()
    server = create_server(inspector, policy, host=host, port=port)
    connections = server._map  # noqa: SLF001 - as its run() does
    shown = f"[{host}]" if ":" in host else host
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:  # an exception could get lost in a callback of the loop
        received.append(number)
        server.pull_trigger()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        logger.info("http://%s:%s%s/  (%s)", shown, server.effective_port, policy.url_prefix, policy)
        while not received:
            server.asyncore.loop(LONGEST_WAIT, use_poll=True, map=connections, count=1)
        server.task_dispatcher.shutdown()
    finally:
        for channel in list(server.active_channels.values()):  # which waitress leaves open
            channel.handle_close()
        server.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in received:
        raise KeyboardInterrupt


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot bind the dashboard to {host}:{port}: {cause}. Choose another.") from None
