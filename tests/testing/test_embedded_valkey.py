"""A server of one's own, beside others on the same machine."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from distq.errors import DistqError
from distq.redisio.connection import Connection
from distq.testing import EmbeddedValkey, embedded_valkey


def test_two_servers_that_choose_one_port_are_two() -> None:
    """Each answers for itself, so that no test empties the Redis of another one."""
    with EmbeddedValkey() as first:
        ports = iter([first.port, embedded_valkey._free_port()])
        with patch.object(embedded_valkey, "_free_port", lambda: next(ports)), EmbeddedValkey() as second:
            assert first.port != second.port
            connection = Connection(second.url)
            connection.execute("FLUSHALL")
            connection.close()


def test_a_port_that_was_asked_for_and_is_taken_is_an_error() -> None:
    """The server does not move to another port without a word."""
    with EmbeddedValkey() as first, pytest.raises(DistqError, match="Address already in use"):
        EmbeddedValkey(port=first.port).start()


def test_a_start_that_is_interrupted_leaves_no_server_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is for the process that starts it; nor are files left."""
    server = EmbeddedValkey()
    begun: list[tuple[int, Path]] = []

    def interrupt() -> bool:
        begun.append((server.pid, Path(server._folder or "")))
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "_answers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.start()
    ((pid, folder),) = begun
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
