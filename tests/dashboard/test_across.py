"""Failing items as a list of a queue and across queues, and a key in all queues."""

import re
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from distq.errors import RetryAfter
from distq.inspector import Inspector, QueueNames
from distq.inspector.across import QUEUES_LOOKED_AT, QUEUES_SHOWN
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS
from tests.dashboard.test_pages import Read, keys_of, read
from tests.support.monitored import commands_of


def fail(queue: Queue, key: str, error: Exception) -> None:
    """Let an item of an otherwise empty queue fail."""
    queue.add(key, priority=9)
    queue.settle(queue.get(timeout=5), error)


def rows(page: Read, start: str = "item-") -> list[list[str]]:
    """Return the cells of each row of items."""
    return [cells for name, cells in page.rows.items() if name.startswith(start)]


def text(page: Read) -> str:
    """Return all that a page says."""
    return " ".join(" ".join(page.texts).split())


def test_failing_items_are_a_list_of_their_queue(browser: FlaskClient, every_state: Queue) -> None:
    """In any state, the newest failure first, under the number that the first page has."""
    page = read(browser, "/queues/foos?state=failing")
    assert [cells[:2] for cells in rows(page)] == [["ns/delayed", "delayed"], ["ns/dead", "dead"]]
    assert re.fullmatch(r"in [\d.ms]+", rows(page)[0][5])
    assert "slow down" in rows(page)[0][6]
    tallies = [text for url, text in page.links.items() if url.startswith("/queues/foos?state=failing")]
    assert tallies[0].split() == ["failing", "2"]
    assert keys_of(read(browser, "/queues/foos?state=failing&match=*dead")) == ["ns/dead"]
    assert keys_of(read(browser, "/queues/foos?state=failing&match=ns/ready")) == []


def test_a_queue_without_failures_has_an_empty_list(browser: FlaskClient, queue: Queue) -> None:
    """It says so, without words about a search."""
    queue.add("a")
    page = text(read(browser, "/queues/foos?state=failing"))
    assert "No item is failing." in page
    assert "searched" not in page


@pytest.mark.parametrize("match", ["", "ns/", "*1*"])
def test_all_failing_items_are_come_to(
    browser: FlaskClient, queue: Queue, connection: Connection, match: str
) -> None:
    """Also many of them, by *Search on*: each at least once."""
    keys = [f"ns/{number:04}" for number in range(1_200)]
    queue.add(*keys[:600])
    queue.add(*keys[600:])
    Inspector(connection).park("foos", *keys)
    found: set[str] = set()
    url = f"/queues/foos?state=failing&match={match}"
    while url:
        page = read(browser, url)
        found |= set(keys_of(page))
        url = next((link for link, words in page.links.items() if words == "Search on"), "")
    assert found == {key for key in keys if "1" in key or match != "*1*"}


@pytest.fixture
def bars(connection: Connection) -> Queue:
    """Give another queue, with an item that fails and one that does not."""
    queue = Queue("bars", connection)
    fail(queue, "ns/web", RetryAfter(60, "<b>quota</b>"))
    queue.add("ns/fine")
    queue.close()
    return queue


def test_failing_and_dead_items_of_all_queues_are_on_a_page(
    browser: FlaskClient, every_state: Queue, bars: Queue
) -> None:
    """By queue, the dead first, with the error as text and links to the item and to its queue."""
    page = read(browser, "/failing")
    assert [cells[:4] for cells in rows(page)] == [
        ["ns/web", "bars", "delayed", "1"],
        ["ns/dead", "foos", "dead", "1"],
        ["ns/delayed", "foos", "delayed", "1"],
    ]
    assert rows(page)[0][6].endswith("<b>quota</b>")
    assert page.links["/queues/foos/items/ns~2Fdead"] == "ns/dead"
    assert page.links["/failing"] == "Failing"
    assert [cells[1] for cells in rows(read(browser, "/failing?match=b"))] == ["bars"]


def test_without_failures_the_page_says_so(browser: FlaskClient, queue: Queue) -> None:
    """Also without any queue, and where no queue matches."""
    assert "No item is failing or dead." in text(read(browser, "/failing"))
    queue.add("a")
    assert "No item is failing or dead." in text(read(browser, "/failing"))
    assert "No queue matches." in text(read(browser, "/failing?match=nothing"))


def test_many_failing_items_are_shown_in_part(
    browser: FlaskClient, queue: Queue, connection: Connection
) -> None:
    """A link below them has the number of all, and leads to the list of the queue."""
    keys = [f"ns/{number:04}" for number in range(900)]
    queue.add(*keys)
    Inspector(connection).park("foos", *keys)
    fail(queue, "ns/fails", RetryAfter(60, "slow down"))
    page = read(browser, "/failing")
    assert 300 <= len(rows(page)) <= 600
    assert page.links["/queues/foos?state=failing#items"] == "All 901 of foos"


def test_a_key_is_found_in_all_queues(browser: FlaskClient, every_state: Queue, bars: Queue) -> None:
    """A row for each queue that has it, with its state, and a link to the item there."""
    every_state.add("ns/web")
    page = read(browser, "/find?key=ns/web")
    assert [cells[:4] for cells in rows(page)] == [["bars", "delayed", "9", "1"], ["foos", "ready", "0", "0"]]
    assert page.links["/queues/bars/items/ns~2Fweb"] == "bars"
    for key, state in (("dead", "dead"), ("delayed", "delayed"), ("processing", "processing dirty")):
        (found,) = rows(read(browser, f"/find?key=ns/{key}"))
        assert found[1] == state
    assert "No queue has it: it is done, or was never added." in text(read(browser, "/find?key=ns/gone"))


@pytest.mark.parametrize("key", [*HOSTILE_KEYS, "a" * 1024, " ", "ns/*", "caf\\xe9"])
def test_any_key_can_be_searched(browser: FlaskClient, queue: Queue, key: str) -> None:
    """It is found, and is text on the page, with any characters."""
    queue.add(key)
    page = read(browser, f"/find?key={quote(key)}")
    assert [cells[0] for cells in rows(page)] == ["foos"]
    assert key in page.texts
    assert {attributes.get("src") for tag, attributes in page.tags if tag == "script"} == {"/distq/distq.js"}


@pytest.mark.parametrize("key", ["a" * 1025, "%00", "a%0Ab", "é" * 513])
def test_a_text_that_can_be_no_key_is_refused(browser: FlaskClient, queue: Queue, key: str) -> None:
    """In one line; and a form without a key is only a form."""
    assert browser.get(f"/find?key={key}").status_code == 404
    assert "bad key" in browser.get(f"/find?key={key}").text
    assert rows(read(browser, "/find")) == rows(read(browser, "/find?key=")) == []


@pytest.mark.parametrize("path", ["/failing", "/find?key=ns/web"])
def test_a_queue_that_cannot_be_read_hides_no_other(
    browser: FlaskClient, every_state: Queue, bars: Queue, connection: Connection, path: str
) -> None:
    """It is named with the reason, above the items of the others."""
    every_state.add("ns/web")
    connection.execute("DEL", "distq:{bars}:dead")
    connection.execute("SET", "distq:{bars}:dead", "x")
    page = read(browser, path)
    assert "bars cannot be read" in text(page)
    assert rows(page)
    assert all("foos" in cells for cells in rows(page))


MANY = QUEUES_LOOKED_AT + 30


@pytest.fixture
def many(connection: Connection) -> None:
    """Make more queues than one look is at, of which some have the same failing item."""
    for number in range(MANY):
        connection.execute("HSET", "distq:queues", f"queue-{number:04}", "1")
    for number in (*range(QUEUES_SHOWN + 20), MANY - 1):
        name = f"distq:{{queue-{number:04}}}"
        connection.execute("ZADD", f"{name}:dead", 1_795_000_000_000_000, "ns/web")
        connection.execute("HSET", f"{name}:failures", "ns/web", "1 0 1795000000000000 terminal boom")


@pytest.mark.parametrize("path", ["/failing?", "/find?key=ns/web&"])
def test_a_page_looks_at_some_hundred_queues(
    browser: FlaskClient,
    many: None,
    connection: Connection,
    redis_server: EmbeddedValkey,
    path: str,
) -> None:
    """With a hundred in it; it says how many have more, and the next page has the rest, in six commands."""
    browser.get(path)
    with commands_of(redis_server.url, connection) as asked:
        page = read(browser, path)
    assert len(asked) <= 6
    assert len(rows(page)) == QUEUES_SHOWN
    assert re.search("queues 1.500 of 530", text(page))
    assert re.search("20 more of these queues have", text(page))
    beyond = read(browser, f"{path}page=2")
    assert len(rows(beyond)) == 1
    assert "queue-0529" in rows(beyond)[0]
    assert browser.get(f"{path}page=3").location.endswith("page=2")
    assert len(rows(read(browser, f"{path}match=*0529"))) == 1


def test_an_inspector_returns_the_same(connection: Connection, every_state: Queue, bars: Queue) -> None:
    """For programs: failing items by queue, and the queues of a key."""
    inspector = Inspector(connection)
    failing = inspector.failing()
    assert [(found.queue, found.failing, found.dead) for found in failing.queues] == [
        ("bars", 1, 0),
        ("foos", 2, 1),
    ]
    assert (failing.looked_at, failing.matching, failing.left_out) == (2, 2, 0)
    found = inspector.find("ns/web", QueueNames(match="b"))
    assert [item.state for each in found.queues for item in each.items] == ["delayed"]
