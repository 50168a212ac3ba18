"""What our pages show of real queues, and how they answer any request."""

import json
import re
from html.parser import HTMLParser

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from distq.dashboard.item_id import encoded
from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS
from tests.dashboard.test_rq_urls import items_in

MARKUP = "</pre><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }} ' \" & \x1b[31m"
NONE = "\N{EN DASH}"


class Read(HTMLParser):
    """A page as a reader gets it: its tags, the cells of its rows by the rows' ids, its links and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[str]] = {}
        self.links: dict[str, str] = {}
        self.texts: list[str] = []
        self._row: list[str] | None = None
        self._link = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        named = dict(attrs)
        self.tags.append((tag, named))
        if tag == "tr":
            self._row = self.rows.setdefault(named.get("id") or "", [])
        elif tag in {"td", "th"} and self._row is not None:
            self._row.append("")
        elif tag == "a":
            self._link = named.get("href") or ""

    def handle_endtag(self, tag: str) -> None:
        """Note that a link, or a row, ended."""
        if tag == "tr":
            self._row = None
        elif tag == "a":
            self._link = ""

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)
        if self._row:
            self._row[-1] = f"{self._row[-1]} {data.strip()}".strip()
        if self._link:
            self.links[self._link] = self.links.get(self._link, "") + data


def read(browser: FlaskClient, path: str) -> Read:
    """Return a page that is there."""
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.content_type == "text/html; charset=utf-8"
    return Read(answer.text)


def keys_of(page: Read) -> list[str]:
    """Return the keys in the list of items."""
    return [cells[0] for name, cells in page.rows.items() if name.startswith("item-")]


def every_page(queue: str, key: str) -> list[str]:
    """Return the URLs of all pages."""
    of_queue = [
        f"/queues/{queue}?state={state}"
        for state in ("ready", "delayed", "processing", "dirty", "dead", "failing")
    ]
    across = ["/", "/failing", "/find", f"/find?key={key}", "/workers", "/informers", "/audit"]
    return [*across, *of_queue, f"/queues/{queue}/items/{encoded(key)}"]


def test_the_queues_are_shown_in_numbers(browser: FlaskClient, every_state: Queue) -> None:
    """A row a queue with its ready, delayed, processing, dirty, dead and failing items, and links to them."""
    page = read(browser, "/")
    assert page.rows["queue-foos"][2:8] == ["1", "1", "1", "1", "1", "2"]
    for state in ("ready", "delayed", "processing", "dirty", "dead"):
        assert page.links[f"/queues/foos?state={state}"] == "1"
        assert len(keys_of(read(browser, f"/queues/foos?state={state}"))) == 1


def test_the_actions_of_people_on_a_queue_are_seen(
    browser: FlaskClient, every_state: Queue, connection: Connection
) -> None:
    """A pause and a trace are beside the queue's name, with the pause's start and the trace's end."""
    inspector = Inspector(connection)
    inspector.pause("foos")
    inspector.trace_on("foos", seconds=600)
    name = read(browser, "/").rows["queue-foos"][0]
    assert re.fullmatch(r"foos paused 0?[\d.]+s traced, (9m5\ds|10m0s) left", name)
    assert "paused" in "".join(read(browser, "/queues/foos").texts)
    inspector.park("foos", "ns/ready", reason="waits for INC-7")
    dead = read(browser, "/queues/foos?state=dead").rows["item-ns~2Fready"]
    assert dead[-1] == "parked waits for INC-7"


def test_hostile_keys_are_text_everywhere(browser: FlaskClient, queue: Queue) -> None:
    """A key may have any characters: lists show it as text and link to its page, whose heading it is."""
    keys = [*HOSTILE_KEYS, ".", "a" * 1024, "%2e%2e", "~2F", "javascript:alert(1)"]
    queue.add(*keys)
    page = read(browser, "/queues/foos")
    assert keys_of(page) == keys
    for key in keys:
        (link,) = [url for url, text in page.links.items() if text == key]
        assert re.fullmatch(r"/queues/foos/items/[A-Za-z0-9._~-]+", link)
        assert link.rpartition("/")[2] not in {".", ".."}
        item = read(browser, link)
        assert key in item.texts
        assert _scripts(item) == _scripts(page), "no script or element comes from a key"


def test_errors_and_tracebacks_are_text(browser: FlaskClient, queue: Queue) -> None:
    """An error's text and traceback with markup is shown as it is, in the list, the groups and the item."""
    queue.add("ns/dead")
    try:
        raise TerminalError(MARKUP)
    except TerminalError as error:
        queue.settle(queue.get(timeout=5), error)
    plain = _scripts(read(browser, "/workers"))
    for path in ("/queues/foos?state=dead", "/queues/foos/items/ns~2Fdead"):
        page = read(browser, path)
        assert "</pre><script>alert(1)</script><img src=x" in "".join(page.texts)
        assert not [tag for tag, attributes in page.tags if "onerror" in attributes]
        assert _scripts(page) == plain
    (traceback,) = [text for text in page.texts if "Traceback (most recent call last)" in text]
    assert "test_errors_and_tracebacks_are_text" in traceback


def _scripts(page: Read) -> list[str]:
    """Return what a page runs or embeds: scripts and frames by their source, forms by where they lead."""
    kinds = {"script", "iframe", "object", "embed", "img", "base"}
    return [f"{tag} {attributes.get('src')}" for tag, attributes in page.tags if tag in kinds]


def test_nothing_is_inline(browser: FlaskClient, every_state: Queue) -> None:
    """No page has a style, or a handler of events, in an attribute: the policy would refuse it."""
    for path in every_page("foos", "ns/dead"):
        for tag, attributes in read(browser, path).tags:
            assert not [name for name in attributes if name == "style" or name.startswith("on")], (path, tag)


def test_pages_hold_every_item_once(browser: FlaskClient, queue: Queue) -> None:
    """Paging through more than a thousand items, either way, shows each once, in the queue's order."""
    keys = [f"ns/{number:04}" for number in range(1_020)]
    for start in range(0, len(keys), 1_000):
        queue.add(*keys[start : start + 1_000])
    for sort, expected in (("first", keys), ("last", keys[::-1])):
        seen = []
        for number in range(1, 22):
            seen += keys_of(read(browser, f"/queues/foos?sort={sort}&page={number}"))
        assert seen == expected
    assert browser.get("/queues/foos?page=22").location == "/queues/foos?state=ready&page=21"
    assert (
        browser.get("/queues/foos?page=22&sort=last").location == "/queues/foos?state=ready&sort=last&page=21"
    )


def test_a_search_finds_every_match_once(browser: FlaskClient, queue: Queue) -> None:
    """A search by what keys begin with, or by a glob, goes on from page to page, and leaves nothing out."""
    keys = [f"{'prod' if number % 3 else 'dev'}/web-{number:05}" for number in range(21_000)]
    for start in range(0, len(keys), 1_000):
        queue.add(*keys[start : start + 1_000])
    for match, expected in (
        ("prod/web-00", {key for key in keys if key.startswith("prod/web-00")}),
        ("*-0100?", {key for key in keys if key.split("-")[1].startswith("0100")}),
        ("nothing", set()),
    ):
        assert _found(browser, match) == sorted(expected)


def _found(browser: FlaskClient, match: str) -> list[str]:
    found, path = [], f"/queues/foos?match={match}"
    for _ in range(1_000):
        page = read(browser, path)
        assert "be more precise" not in "".join(page.texts)
        found += keys_of(page)
        path = next((url for url, text in page.links.items() if text == "Search on"), "")
        if not path:
            return sorted(found)
    raise AssertionError("the search comes to no end")


@pytest.mark.parametrize("key", ["ns/[x]*", "ns/ready", "a\\b"])
def test_a_search_finds_the_key_that_is_named(browser: FlaskClient, queue: Queue, key: str) -> None:
    """A key is found by its whole name, also where that would be a glob for something else."""
    queue.add(key, "ns/other")
    assert key in keys_of(
        browser_page := read(browser, f"/queues/foos?match={encoded(key).replace('~', '%')}")
    )
    assert "ns/other" not in keys_of(browser_page)


def test_errors_are_grouped_by_their_text(browser: FlaskClient, queue: Queue) -> None:
    """The most common error comes first, with the number of its items and one of them."""
    for number in range(5):
        queue.add(f"ns/{number}")
        queue.settle(queue.get(timeout=5), TerminalError("common" if number < 3 else f"rare {number}"))
    texts = " ".join(" ".join(read(browser, "/queues/foos").texts).split())
    assert re.search(r"One of them 3 TerminalError: common [\d.]+s ns/[012] 1 TerminalError: rare ", texts)


def test_an_item_shows_all_of_its_data(browser: FlaskClient, every_state: Queue) -> None:
    """State, attempt, failures, due time, holder and siblings; of one that is gone, that it is."""
    delayed = " ".join(" ".join(read(browser, "/queues/foos/items/ns~2Fdelayed").texts).split())
    assert "Attempt 2 Failures 1 , last" in delayed
    assert "Next retry in 2m5" in delayed or "Next retry in 3m0s" in delayed
    held = read(browser, "/queues/foos/items/ns~2Fprocessing")
    assert {"dirty", "Held by", "Claim lapses"} <= set(held.texts)
    assert [text for url, text in held.links.items() if "/items/" in url] == [
        "ns/dead",
        "ns/delayed",
        "ns/ready",
    ]
    assert "not in the queue" in read(browser, "/queues/foos/items/nobody").texts


def test_an_item_has_its_timeline_while_it_is_traced(
    browser: FlaskClient, queue: Queue, connection: Connection
) -> None:
    """Before, the page says how to switch the trace on; then what happened, and a lane for each worker."""
    queue.add("ns/other")
    assert "distq trace on foos --for 10m" in read(browser, "/queues/foos/items/ns~2Fweb").texts
    Inspector(connection).trace_on("foos")
    assert (
        "Nothing happened to it since the trace began." in read(browser, "/queues/foos/items/ns~2Fweb").texts
    )
    queue.add("ns/web", priority=5)
    queue.settle(queue.get(timeout=5), TerminalError("no such image"))
    queue.get(timeout=5)
    page = read(browser, "/queues/foos/items/ns~2Fweb")
    events = [text for text in page.texts if text.startswith(("added", "claimed", "failed for good"))]
    assert [event.split()[0].strip(":;,") for event in events] == ["added", "claimed", "failed"]
    bars = [attributes["class"] for tag, attributes in page.tags if tag == "rect" and "class" in attributes]
    assert bars == ["bar bar-this", "bar bar-other"]


def test_workers_show_their_items(browser: FlaskClient, every_state: Queue) -> None:
    """A worker's row has its host, process and counts, and leads to the item that it holds."""
    page = read(browser, "/workers")
    (row,) = [cells for name, cells in page.rows.items() if name.startswith("worker-foos")]
    assert row[1] == "foos"
    assert row[10].startswith("ns/processing")
    assert page.links["/queues/foos/items/ns~2Fprocessing"] == "ns/processing"


def test_informers_show_the_leader(browser: FlaskClient, connection: Connection, queue: Queue) -> None:
    """A resource's row has its leader, position and lag; one whose leader is gone says since when."""
    queue.add("a")
    about = {"leader": "ada", "synced": True, "lag": 0.25, "lists": 2}
    seen = {"seen": connection.now() - 90, "lease": 15}
    for name, said in (("foos.example.com", about), ("pods", about | seen)):
        stream = StreamStore(connection, "foos", name)
        stream.commit(Commit(epoch="7", after="", new="812", batch="b", about={"resource": name, **said}))
    page = read(browser, "/informers")
    assert page.rows["stream-foos-1"] == [
        "foos.example.com",
        "foos",
        "synced",
        "ada",
        NONE,
        "7",
        "812",
        "0.2s",
        "2",
        NONE,
    ]
    assert page.rows["stream-foos-2"][2] == "gone 1m30s"


def test_informers_show_their_term_and_their_last_error(
    browser: FlaskClient, connection: Connection, queue: Queue
) -> None:
    """A lasting error has the time since when it lasts, a past one the time of the failure."""
    queue.add("a")
    now = connection.now()
    about = {"leader": "ada", "led_since": now - 3700, "error": "<b>forbidden</b>", "error_at": now - 7300}
    for name, said in (("fails", about | {"failing_since": now - 3700}), ("healed", about)):
        stream = StreamStore(connection, "foos", name)
        stream.commit(Commit(epoch="7", after="", new="812", batch="b", about={"resource": name, **said}))
    page = read(browser, "/informers")
    fails, healed = (page.rows[f"stream-foos-{number}"] for number in (1, 2))
    assert fails[4] == healed[4] == "1h1m"
    assert fails[9] == "for 1h1m : <b>forbidden</b>"
    assert healed[9] == "2h1m ago: <b>forbidden</b>"


@pytest.mark.parametrize("path", ["/", "/queues/foos", "/workers", "/informers"])
def test_a_report_of_no_valid_text_breaks_no_page(
    browser: FlaskClient, connection: Connection, every_state: Queue, path: str
) -> None:
    """Half a pair of UTF-16 is JSON, and no text that an answer can hold."""
    odd = "half a pair \udcff"
    texts = dict.fromkeys(("id", "host", "version", "resource", "namespace", "leader", "error"), odd)
    report = json.dumps({**texts, "flows": [odd], "purpose": {"resource": odd}})
    (session,) = connection.execute("HKEYS", "distq:{foos}:workers")
    connection.execute("HSET", "distq:{foos}:workers", session, report)
    connection.execute("HSET", "distq:{foos}:streams", "odd", f"0 5 - {report}")
    assert browser.get(path).status_code == 200


def test_nothing_is_said_about_nothing(browser: FlaskClient) -> None:
    """Without a queue, a worker or an informer, pages say what brings one."""
    for path, words in (("/", "distq add"), ("/workers", "distq worker"), ("/informers", "distq informer")):
        assert any(words in text for text in read(browser, path).texts), path


@pytest.mark.parametrize(
    "path",
    [
        "/queues/nope",
        "/queues/-bad-",
        "/queues/foos?state=finished",
        "/queues/foos?sort=sideways",
        "/queues/foos?page=0",
        "/queues/foos?page=-1",
        f"/queues/foos?page={'9' * 5000}",
        "/queues/foos?match=a&cursor=x",
        f"/queues/foos?match=a&cursor={'9' * 20}",
        f"/queues/foos?match={'a' * 1025}",
        "/queues/foos?match=%00",
        "/queues/foos?past=century",
        "/queues/nope/items/a",
        "/queues/foos/items/~zz",
        "/queues/foos/items/~00",
        "/queues/foos/items/a%20b",
        f"/queues/foos/items/{'a' * 1025}",
        "/queues/foos/items/",
        "/queues",
    ],
)
def test_an_unknown_name_is_not_found(browser: FlaskClient, queue: Queue, path: str) -> None:
    """Unknown queues, states, pages and keys answer 404: a page to a browser, a line of text to others."""
    queue.add("a")
    assert browser.get(path).status_code == 404
    assert browser.get(path).text.count("\n") == 1
    answer = browser.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert answer.status_code == 404
    assert Read(answer.text).links["/"].strip()


def test_an_answer_to_the_script_is_a_line_of_text(offline: FlaskClient) -> None:
    """The script shows the error above its table; a user who opens the page gets the error as a page."""
    wants_page = {"Accept": "text/html"}
    answers: list[TestResponse] = [
        offline.get("/", headers={**wants_page, "X-Live": "1"}),
        offline.get("/", headers=wants_page),
    ]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].content_type == "text/plain; charset=utf-8"
    assert answers[0].text.count("\n") == 1
    assert "127.0.0.1:1" in answers[0].text
    assert answers[0].text.strip() in "".join(Read(answers[1].text).texts)


def test_looking_changes_nothing(browser: FlaskClient, connection: Connection, every_state: Queue) -> None:
    """Reading every page leaves every key of the queue as it was."""
    before = items_in(connection)
    for path in (*every_page("foos", "ns/dead"), "/queues/foos?match=*", "/queues/foos?past=week"):
        assert browser.get(path).status_code == 200, path
    assert items_in(connection) == before


def test_a_park_is_no_failure(browser: FlaskClient, queue: Queue, connection: Connection) -> None:
    """An item that never failed has no last failure; of one that did, only the time of the park is known."""
    queue.add("ns/failed")
    queue.settle(queue.get(timeout=5), ValueError("broken"))
    assert ", last" in browser.get("/queues/foos/items/ns~2Ffailed").text
    queue.add("ns/new")
    assert Inspector(connection).park("foos", "ns/failed", "ns/new", reason="waits for INC-7") == 2
    for path in ("/failing", "/queues/foos?state=failing"):
        rows = [row for row in read(browser, path).rows.values() if row and row[0].startswith("ns/")]
        assert [row[4] for row in rows] == [NONE, NONE]
    assert ", last" not in browser.get("/queues/foos/items/ns~2Ffailed").text
