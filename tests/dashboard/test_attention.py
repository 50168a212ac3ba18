"""The first page begins with the queues that need attention, and a queue's page with its errors."""

import re

import pytest
from flask.testing import FlaskClient

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.dashboard.test_pages import read


def listed(browser: FlaskClient) -> dict[str, str]:
    """Return what the section says of each queue, and check that it is above the table."""
    html = browser.get("/").text
    head, _, rest = html.partition('id="attention"')
    section = rest.partition("</section>")[0]
    assert not rest or ("<table" not in head and "<table" in rest)
    items = re.findall(r'<li id="attention-(\S+)".*?</a>(.*?)</li>', section, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", " ", text).split()) for name, text in items}


@pytest.fixture
def foos(connection: Connection, queue: Queue) -> Queue:
    """Give a queue that has worked, and has nothing left."""
    queue.add("a")
    queue.settle(queue.get(timeout=5))
    return queue


def test_a_queue_without_trouble_is_not_listed(browser: FlaskClient, foos: Queue) -> None:
    """An item that waits while a worker lives is no trouble."""
    foos.add("b")
    assert listed(browser) == {}


def test_items_that_no_worker_can_claim_are_marked(browser: FlaskClient, foos: Queue) -> None:
    """At the top, and beside the number of workers, on the first page and the queue's own."""
    foos.add("a", "b")
    foos.close()
    assert listed(browser) == {"foos": "2 items waiting, no worker"}
    assert read(browser, "/").rows["queue-foos"][-1] == "0 no worker"
    assert "no worker" in read(browser, "/queues/foos").texts


def test_failing_and_dead_items_and_a_pause_are_listed(
    browser: FlaskClient, foos: Queue, connection: Connection
) -> None:
    """Each with a link to the items or errors in question."""
    for key, error in (("a", TerminalError("no such image")), ("b", RetryAfter(600, "slow down"))):
        foos.add(key)
        foos.settle(foos.get(timeout=5), error)
    Inspector(connection).pause("foos")
    assert re.fullmatch(r"1 dead item 1 item failing paused for [\d.]+s", listed(browser)["foos"])
    links = read(browser, "/").links
    assert "1 dead item" in links["/queues/foos?state=dead#items"]
    assert links["/queues/foos#errors"].startswith("1 item failing")


@pytest.mark.parametrize(
    ("reported", "text"),
    [
        ({"error": "forbidden", "failing_since": 120}, r"v1/Pod: failing for 2m\ds"),
        ({"seen": 90, "lease": 15}, r"no leader for 1m[1-3]\ds"),
        ({}, None),
    ],
    ids=["failing", "gone", "fine"],
)
def test_an_informers_trouble_is_listed(
    browser: FlaskClient,
    foos: Queue,
    connection: Connection,
    reported: dict[str, float | str],
    text: str | None,
) -> None:
    """A stream that fails, or a queue all of whose leaders are gone."""
    now = connection.now()
    about: dict[str, object] = {"resource": "v1/Pod", "leader": "ada", "synced": True, **reported}
    about |= {name: now - float(reported[name]) for name in ("failing_since", "seen") if name in reported}
    StreamStore(connection, "foos", "pods").commit(
        Commit(epoch="7", after="", new="1", batch="b", about=about)
    )
    found = listed(browser)
    assert re.fullmatch(text, found["foos"]) if text else not found


def test_a_broken_queue_is_listed(browser: FlaskClient, foos: Queue, connection: Connection) -> None:
    """With what Redis says."""
    connection.execute("DEL", "distq:{foos}:dead")
    connection.execute("SET", "distq:{foos}:dead", "x")
    assert listed(browser)["foos"].startswith("cannot be read: ")


def test_a_queues_page_has_errors_then_items_then_pictures(browser: FlaskClient, every_state: Queue) -> None:
    """Errors are read without scrolling past charts."""
    html = browser.get("/queues/foos").text
    places = [html.index(f'id="{name}"') for name in ("errors", "items", "pictures-head")]
    assert places == sorted(places)
