"""One queue that Redis refuses to show hides none of the others."""

import json
import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from distq.config import Settings
from distq.dashboard import create_app
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.roles import user_of
from distq.redisio.stream_store import StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.dashboard.test_pages import read
from tests.support.monitored import commands_of

DEAD = queue_key("bars", "dead")
OVERVIEWS = ["/", "/workers", "/informers"]


@pytest.fixture
def bars(connection: Connection, every_state: Queue) -> Iterator[Queue]:
    """Open a second queue, which an informer feeds, too."""
    handle = Queue("bars", connection)
    handle.add("a")
    handle.get(timeout=5)
    for queue in ("foos", "bars"):
        stream = StreamStore(connection, queue, "v1/Pod")
        stream.commit(Commit(epoch="7", after="", new="812", batch="b", about={"resource": "v1/Pod"}))
    yield handle
    connection.execute("DEL", DEAD)
    handle.close()


def test_the_others_are_shown_as_ever(
    browser: FlaskClient, bars: Queue, connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """Its row says why it cannot be read; each page takes as many commands as before."""
    before: dict[str, tuple[int, list[str]]] = {}
    for broken in (False, True):
        if broken:
            connection.execute("SET", DEAD, "x")
        for path in OVERVIEWS:
            assert browser.get(path).status_code == 200
            with commands_of(redis_server.url, connection) as asked:
                page = browser.get(path).text
            number = len([command for command in asked if "heartbeat" not in command])
            others = [name for name in read(browser, path).rows if "foos" in name]
            assert before.setdefault(path, (number, others)) == (number, others)
            assert ("cannot be read" in page) is broken
    rows = read(browser, "/").rows
    assert rows["queue-foos"][2:8] == ["1", "1", "1", "1", "1", "2"]
    name, why = rows["queue-bars"]
    assert name == "bars cannot be read"
    assert f"WRONGTYPE {DEAD} is a string, where distq keeps a zset" in why


def test_its_own_page_has_the_command_that_fixes_it(
    browser: FlaskClient, bars: Queue, connection: Connection
) -> None:
    """With the command of redis-cli, after which all goes on."""
    connection.execute("SET", DEAD, "x")
    assert browser.get("/queues/foos").status_code == 200
    for path in ("/queues/bars", "/queues/bars?state=dead", "/queues/bars/items/a"):
        answer = browser.get(path)
        assert answer.status_code == 503
        assert f"WRONGTYPE {DEAD} is a string" in answer.text
    command = re.search(r"redis-cli (RENAME \S+ [^\s,]+), and all goes on", answer.text)
    assert command, answer.text
    connection.execute(*command[1].split())
    assert "cannot be read" not in browser.get("/").text
    assert browser.get("/queues/bars").status_code == 200


def test_rqs_own_data_say_so(browser: FlaskClient, bars: Queue, connection: Connection) -> None:
    """Where scripts of rq-dashboard ask for the queues, or for one."""
    connection.execute("SET", DEAD, "x")
    data = json.loads(browser.get("/0/data/queues.json").text)
    assert [row["name"] for row in data["queues"]] == ["bars (cannot be read)", "foos"]
    assert browser.get("/0/data/jobs/bars/queued/25/asc/1.json").status_code == 503


@pytest.fixture
def limited(connection: Connection, redis_server: EmbeddedValkey, bars: Queue) -> Iterator[FlaskClient]:
    """Give the dashboard of a user of Redis with rights to one of two queues."""
    connection.execute(*user_of(["viewer"], prefix="distq", queues=["foos"]).split())
    own = Connection(
        redis_server.url, settings=Settings(redis_username="distq-viewer", redis_password="PASSWORD")
    )
    yield create_app(Inspector(own)).test_client()
    own.close()
    connection.execute("ACL", "DELUSER", "distq-viewer")


def test_a_user_with_rights_to_one_queue_sees_that_one(limited: FlaskClient) -> None:
    """The others are named, with what Redis says."""
    for path in OVERVIEWS:
        page = read(limited, path)
        assert [name for name in page.rows if "foos" in name]
        assert "denied user" in " ".join(page.texts)
    assert limited.get("/queues/foos").status_code == 200
