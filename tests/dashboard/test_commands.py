"""What a page costs Redis."""

import pytest
from flask.testing import FlaskClient

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.monitored import commands_of

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
    "/queues/foos?state=failing",
    "/queues/foos?state=failing&match=*0*",
    "/failing",
    "/audit",
    "/find?key=ns/processing",
    "/workers",
    "/informers",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_takes_six_commands_at_most(
    browser: FlaskClient,
    every_state: Queue,
    connection: Connection,
    redis_server: EmbeddedValkey,
    path: str,
) -> None:
    """Every page, with many items, priorities and failures."""
    every_state.add(*(f"ns/{number}" for number in range(1_000)))
    for priority in range(-800, 800, 100):
        every_state.add(f"p/{priority}", priority=priority)
    every_state.add(*(f"later/{number}" for number in range(1_000)), after=600)
    assert browser.get(path).status_code == 200  # loads the script
    with commands_of(redis_server.url, connection) as asked:
        assert browser.get(path).status_code == 200
    asked = [command for command in asked if "heartbeat" not in command]
    assert 1 <= len(asked) <= MOST, asked
