"""Ports for servers of tests."""

import secrets
import socket


def free_port() -> int:
    """Return a port that systems do not give away, free like the one 10,000 above, a cluster's bus.

    So no other program gets it while its server is away.
    """
    while True:
        port = 11000 + secrets.randbelow(11000)
        if _is_free(port) and _is_free(port + 10000):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
