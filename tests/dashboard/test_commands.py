"""What a page costs Redis."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from flask.testing import FlaskClient

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue

MOST = 6
PAGES = [
    "/",
    "/queues/foos",
    "/queues/foos?state=dead&sort=last",
    "/queues/foos?match=ns/",
    "/queues/foos?match=*0*&state=delayed",
    "/queues/foos?past=week",
    "/queues/foos/items/ns~2Fprocessing",
    "/queues/foos/items/nobody",
    "/workers",
    "/informers",
]


@contextmanager
def commands_of(server: EmbeddedValkey, connection: Connection) -> Iterator[list[str]]:
    """Give a list that has, at the end, what clients asked of the server meanwhile; not what scripts did."""
    seen: list[str] = []
    watching = redis.Redis.from_url(server.url)
    with watching.monitor() as monitor:
        listener = threading.Thread(target=_listen, args=(monitor, seen))
        listener.start()
        asked: list[str] = []
        yield asked
        connection.execute("ECHO", "the end")
        listener.join(timeout=30)
    asked += seen
    watching.close()


def _listen(monitor: "redis.client.Monitor", seen: list[str]) -> None:
    for command in monitor.listen():
        if command["command"] == "ECHO the end":
            return
        if command["client_type"] != "lua":
            seen.append(command["command"])


@pytest.mark.parametrize("path", PAGES)
def test_a_page_takes_six_commands_at_most(
    browser: FlaskClient,
    every_state: Queue,
    connection: Connection,
    redis_server: EmbeddedValkey,
    path: str,
) -> None:
    """Whatever it shows, and however many items, priorities and failures there are."""
    every_state.add(*(f"ns/{number}" for number in range(1_000)))
    for priority in range(-800, 800, 100):
        every_state.add(f"p/{priority}", priority=priority)
    every_state.add(*(f"later/{number}" for number in range(1_000)), after=600)
    assert browser.get(path).status_code == 200  # loads the script
    with commands_of(redis_server, connection) as asked:
        assert browser.get(path).status_code == 200
    asked = [command for command in asked if "heartbeat" not in command]
    assert 1 <= len(asked) <= MOST, asked
