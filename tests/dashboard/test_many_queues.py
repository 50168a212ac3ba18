"""Pages of many queues: a hundred at a time, by name, or those that match."""

import re

import pytest
from flask.testing import FlaskClient

from distq.dashboard.pages import QUEUES_PER_PAGE
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.dashboard.test_pages import Read, read
from tests.support.monitored import commands_of

MANY = 2 * QUEUES_PER_PAGE + 30
OVERVIEWS = ["/", "/workers", "/informers"]


@pytest.fixture
def many(connection: Connection) -> list[str]:
    """Make so many queues; return their names in order."""
    names = [f"queue-{number:03}" for number in range(MANY)]
    for name in names:
        connection.execute("HSET", "distq:queues", name, "1")
    Queue("queue-229", connection).add("a")
    return names


def _shown(page: Read) -> list[str]:
    return [row.removeprefix("queue-") for row in page.rows if row.startswith("queue-")]


def _links(page: Read) -> dict[str, str]:
    """Return where the pager leads to, and by which words."""
    return {
        url: text for url, text in page.links.items() if re.fullmatch("(First|Previous|Next|Last)+", text)
    }


def test_all_queues_are_come_to_page_by_page(browser: FlaskClient, many: list[str]) -> None:
    """Each once, by name; a page beyond the last one leads to it."""
    seen, url = [], "/"
    while url:
        page = read(browser, url)
        seen += _shown(page)
        url = next((link for link, words in _links(page).items() if words.startswith("Next")), "")
    assert seen == many
    assert _links(page) == {"/?page=1": "First", "/?page=2": "Previous"}
    assert re.search("queues 201.230 of 230", " ".join(page.texts))
    assert browser.get("/?page=9").location == "/?page=3"
    for odd in ("0", "-1", "x", "1e3", "9" * 30):
        assert browser.get(f"/?page={odd}").status_code == 404


def test_queues_are_found_by_their_names(browser: FlaskClient, many: list[str]) -> None:
    """By the beginning of the name, or a glob; any search without a result reports this."""
    assert _shown(read(browser, "/?match=queue-22")) == many[220:]
    assert _shown(read(browser, "/?match=*-1*7")) == [name for name in many if re.fullmatch(".*-1.*7", name)]
    page = read(browser, "/?match=queue-2&page=1")
    assert re.search("queues 1.30 of 30 that match", " ".join(page.texts))
    for nothing in ("nobody", "[", "\\", "<script>", "*a*a*a*a*a*a*a*a*a*a*b", "é" * 500):
        page = read(browser, f"/?match={nothing}")
        assert _shown(page) == []
        assert "No queue matches." in page.texts
    assert browser.get("/", query_string={"match": "x" * 1025}).status_code == 404


@pytest.mark.parametrize("path", OVERVIEWS)
def test_a_page_asks_for_its_own_queues_alone(
    browser: FlaskClient,
    many: list[str],
    connection: Connection,
    redis_server: EmbeddedValkey,
    path: str,
) -> None:
    """So it costs as much as with a hundred queues, although there are many."""
    browser.get(path)
    with commands_of(redis_server.url, connection) as asked:
        assert browser.get(path).status_code == 200
    assert "queue-099" in " ".join(asked)
    assert "queue-100" not in " ".join(asked)
    assert len(asked) <= 6


@pytest.mark.parametrize("path", OVERVIEWS)
def test_few_queues_have_no_pager(browser: FlaskClient, every_state: Queue, path: str) -> None:
    """Queues that fit a page are shown as ever."""
    page = read(browser, path)
    assert _links(page) == {}
    assert 'id="match"' not in browser.get(path).text
