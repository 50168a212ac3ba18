"""Clients that never finish what they ask, a byte at a time: a broken network, or an attacker."""

import contextlib
import resource
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def slow_clients(host: str, port: int, count: int) -> Iterator[None]:
    """Keep so many connections open, each with a request that goes on for ever; a closed one comes again."""
    _allow_files(2 * count + 500)
    stop = threading.Event()
    clients: list[socket.socket | None] = [None] * count
    begun = threading.Event()

    def drip() -> None:
        while not stop.is_set():
            for place, client in enumerate(clients):
                if stop.is_set():
                    break
                clients[place] = _write(client, host, port)
            begun.set()
            stop.wait(0.2)

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        assert begun.wait(120)
        yield
    finally:
        stop.set()
        thread.join()
        for client in clients:
            if client is not None:
                client.close()


def _write(client: socket.socket | None, host: str, port: int) -> socket.socket | None:
    """Send the next byte, on a new connection where there is none; return None where it was closed."""
    try:
        if client is None:
            client = socket.create_connection((host, port), timeout=5)
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        client.sendall(b"x")
    except OSError:
        if client is not None:
            client.close()
        return None
    return client


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
