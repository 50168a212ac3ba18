"""rq-dashboard's URLs: its data are answered as its own scripts read them, its pages lead to ours."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from distq.dashboard.item_id import ItemId, encoded
from distq.dashboard.registries import REGISTRIES
from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS


def listed(
    browser: FlaskClient, registry: str, *, page: int = 1, per_page: int = 25, order: str = "asc"
) -> Any:
    """Return one page of a list of ``foos``, as the page's script gets it."""
    answer = browser.get(f"/0/data/jobs/foos/{registry}/{per_page}/{order}/{page}.json")
    assert answer.status_code == 200, answer.text
    return answer.json


def keys_of(page: Any) -> list[str]:
    """Return the keys that a list's rows name."""
    ids = [ItemId.parse(row["id"]) for row in page["jobs"]]
    return [found.key for found in ids if found]


def items_in(connection: Connection) -> dict[bytes, bytes]:
    """Return all keys of the database with their contents, but for what heartbeats write."""
    keys = [
        key
        for key in connection.execute("KEYS", "*")
        if not key.endswith((b":meta", b":sessions", b":workers", b":history"))
    ]
    return dict(zip(sorted(keys), connection.pipeline([("DUMP", key) for key in sorted(keys)]), strict=True))


def test_every_state_is_counted_under_its_registry(browser: FlaskClient, every_state: Queue) -> None:
    """Ready is queued, delayed scheduled, processing started, dead failed, dirty deferred; the rest is 0."""
    (row,) = browser.get("/0/data/queues.json").get_json()["queues"]
    assert row["name"] == every_state.name
    assert row["count"] == 1
    counts = {name: row[f"{name}_job_registry_count"] for name in REGISTRIES if name != "queued"}
    assert counts == {"deferred": 1, "scheduled": 1, "started": 1, "finished": 0, "failed": 1, "canceled": 0}
    assert all(
        browser.get(row[f"{name}_url"], follow_redirects=True).status_code == 200 for name in REGISTRIES
    )


@pytest.mark.parametrize(
    ("registry", "keys"),
    [
        ("queued", ["ns/ready"]),
        ("deferred", ["ns/processing"]),
        ("scheduled", ["ns/delayed"]),
        ("started", ["ns/processing"]),
        ("failed", ["ns/dead"]),
        ("finished", []),
        ("canceled", []),
    ],
)
def test_every_registry_lists_its_items(
    browser: FlaskClient, every_state: Queue, registry: str, keys: list[str]
) -> None:
    """Each list holds the items of its state, each with a time to show."""
    page = listed(browser, registry)
    assert keys_of(page) == keys
    assert all(row["created_at"].endswith("+00:00") for row in page["jobs"])


def test_what_operators_did_shows(browser: FlaskClient, every_state: Queue, connection: Connection) -> None:
    """A paused queue is called so, its links still lead to it; an item parked by hand shows why."""
    inspector = Inspector(connection)
    inspector.pause("foos")
    inspector.park("foos", "ns/ready", reason="waits for INC-7")
    (row,) = browser.get("/0/data/queues.json").get_json()["queues"]
    assert row["name"] == "foos (paused)"
    assert browser.get(row["failed_url"]).location == "/queues/foos?state=dead&page=1"
    assert keys_of(listed(browser, "failed")) == ["ns/dead", "ns/ready"]
    parked = listed(browser, "failed")["jobs"][1]
    assert parked["exc_info"] == "waits for INC-7"
    assert parked["description"] == "ns/ready · parked by hand"
    inspector.resume("foos")
    assert browser.get("/0/data/queues.json").get_json()["queues"][0]["name"] == "foos"


@pytest.mark.first_contact(9)
def test_failures_show_their_error(browser: FlaskClient, every_state: Queue) -> None:
    """A failed item's row has the error and its time, which is also what brings up Requeue."""
    (dead,), (delayed,) = listed(browser, "failed")["jobs"], listed(browser, "scheduled")["jobs"]
    assert "no such image" in dead["exc_info"]
    assert "slow down" in delayed["exc_info"]
    assert dead["ended_at"]
    assert delayed["ended_at"] < delayed["created_at"], "a delayed item shows when it is due"
    assert "1 failure" in delayed["description"]


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("ns/ready", "queued"),
        ("ns/delayed", "scheduled"),
        ("ns/processing", "started"),
        ("ns/dead", "failed"),
    ],
)
def test_an_item_has_a_page(browser: FlaskClient, every_state: Queue, key: str, status: str) -> None:
    """An item's data tell its state of now, also by an id from when it was in another; its page is ours."""
    item_id = ItemId("foos", "ready", key)
    assert browser.get(f"/0/view/job/{item_id}").location == f"/queues/foos/items/{encoded(key)}"
    item = browser.get(f"/0/data/job/{item_id}.json").get_json()
    assert (item["id"], item["description"], item["origin"], item["status"]) == (
        str(item_id),
        key,
        "foos",
        status,
    )
    assert item["created_at"]
    assert {"enqueued_at", "started_at", "ended_at"} <= item.keys(), (
        "the page's script takes absent for a time"
    )


def test_a_dead_item_says_why(browser: FlaskClient, queue: Queue) -> None:
    """A dead item's page has the reason for its parking and the traceback."""
    queue.add("ns/dead")
    try:
        raise TerminalError("no such image")
    except TerminalError as error:
        queue.settle(queue.get(timeout=5), error)
    item = browser.get(f"/0/data/job/{ItemId('foos', 'dead', 'ns/dead')}.json").get_json()
    assert "terminal" in item["metadata"]
    assert "Traceback" in item["exc_info"]
    assert "test_a_dead_item_says_why" in item["exc_info"]
    assert item["exc_info"].rstrip().endswith("TerminalError: no such image")


def test_workers_lead_to_what_they_hold(browser: FlaskClient, every_state: Queue) -> None:
    """A busy worker's row says how many items it holds and leads to the list of held items."""
    (row,) = browser.get("/0/data/workers.json").get_json()["workers"]
    assert row["queues"] == ["foos"]
    assert row["state"] == "busy"
    assert row["current_job"]["call_string"] == "1 item"
    assert row["last_heartbeat"].endswith("+00:00")
    answer = browser.get(f"/0/view/job/{row['current_job']['job_id']}")
    assert answer.status_code == 302
    assert answer.location == "/queues/foos?state=processing"


def test_an_idle_worker_is_idle(browser: FlaskClient, queue: Queue) -> None:
    """A worker that holds nothing has no current job."""
    queue.add("a")
    queue.settle(queue.get(timeout=5))
    (row,) = browser.get("/0/data/workers.json").get_json()["workers"]
    assert (row["state"], row["current_job"]) == ("idle", "idle")


def test_hostile_keys_round_trip(browser: FlaskClient, queue: Queue) -> None:
    """Whatever a key is made of, its row links to its own page."""
    queue.add(*HOSTILE_KEYS)
    rows = listed(browser, "queued")["jobs"]
    assert [row["description"] for row in rows] == HOSTILE_KEYS
    for row in rows:
        assert browser.get(f"/0/view/job/{row['id']}", follow_redirects=True).status_code == 200
        assert browser.get(f"/0/data/job/{row['id']}.json").get_json()["description"] == row["description"]


def test_one_key_in_two_queues_is_two_items(
    browser: FlaskClient, connection: Connection, every_state: Queue
) -> None:
    """Ids carry the queue, so that the same key elsewhere is another item."""
    other = Queue("bars", connection)
    other.add("ns/dead")
    statuses = {
        name: browser.get(f"/0/data/job/{ItemId(name, 'dead', 'ns/dead')}.json").get_json()["status"]
        for name in ("foos", "bars")
    }
    other.close()
    assert statuses == {"foos": "failed", "bars": "queued"}


def test_pages_hold_every_item_once(browser: FlaskClient, queue: Queue) -> None:
    """Paging through more than a thousand items, either way, shows each once, in the queue's order."""
    keys = [f"ns/{number:04}" for number in range(1_050)]
    for start in range(0, len(keys), 1_000):
        queue.add(*keys[start : start + 1_000])
    for order, expected in (("asc", keys), ("dsc", keys[::-1])):
        first = listed(browser, "queued", per_page=200, order=order)
        assert first["pagination"]["num_pages"] == 6
        seen = keys_of(first)
        for number in range(2, 7):
            seen += keys_of(listed(browser, "queued", page=number, per_page=200, order=order))
        assert seen == expected
    assert keys_of(listed(browser, "queued", page=7, per_page=200)) == []


def test_rows_a_page_are_capped(browser: FlaskClient, queue: Queue) -> None:
    """However many rows are asked for, a page has at most 200, and its links say so."""
    queue.add(*(str(number) for number in range(300)))
    page = listed(browser, "queued", per_page=100_000)
    assert len(page["jobs"]) == 200
    assert page["pagination"]["next_page"]["url"] == "/0/view/jobs/foos/queued/200/asc/2"


def test_page_links_stay_in_range(browser: FlaskClient, queue: Queue) -> None:
    """The window of page numbers, next and previous never lead past the ends."""
    queue.add(*(str(number) for number in range(300)))
    middle = listed(browser, "queued", page=15, per_page=10)["pagination"]
    assert [page["number"] for page in middle["pages_in_window"]] == list(range(10, 20))
    last = listed(browser, "queued", page=30, per_page=10)["pagination"]
    assert [page["number"] for page in last["pages_in_window"]] == list(range(21, 31))
    assert "next_page" not in last
    assert last["prev_page"]["url"].endswith("/10/asc/29")
    beyond = listed(browser, "queued", page=999, per_page=10)["pagination"]
    assert beyond["prev_page"]["url"].endswith("/10/asc/30")
    empty = listed(browser, "failed")["pagination"]
    assert (empty["num_pages"], [page["number"] for page in empty["pages_in_window"]]) == (0, [1])


@pytest.mark.parametrize(
    "path",
    [
        "/0/view/jobs/nope/queued/25/asc/1",
        "/0/view/jobs/foos/nope/25/asc/1",
        "/0/view/jobs/foos/queued/25/sideways/1",
        "/0/view/jobs/foos/queued/0/asc/1",
        "/0/view/jobs/foos/queued/25/asc/0",
        "/0/data/jobs/nope/queued/25/asc/1.json",
        "/0/data/jobs/foos/nope/25/asc/1.json",
        "/0/data/jobs/foos/queued/25/asc/x.json",
        "/0/data/jobs/foos/queued/25/asc/-1.json",
        f"/0/data/jobs/foos/queued/25/asc/{'9' * 5000}.json",
        f"/0/view/jobs/foos/queued/25/asc/{'9' * 5000}",
        "/0/view/job/nope",
        "/0/view/job/foos:ready:gone",
        "/0/view/job/nope:ready:a",
        "/0/view/job/-bad-:ready:a",
        "/0/data/job/foos:ready:.json",
        "/0/data/job/foos:ready:~00.json",
        f"/0/data/job/foos:ready:{'a' * 1025}.json",
        "/1/view/queues",
        "/1/data/queues.json",
        "/nowhere",
    ],
)
def test_what_does_not_exist_is_not_found(browser: FlaskClient, queue: Queue, path: str) -> None:
    """Unknown queues, registries, pages, instances and items answer 404 in a line of text."""
    queue.add("a")
    answer = browser.get(path)
    assert answer.status_code == 404
    assert answer.text.count("\n") == 1
    assert answer.content_type == "text/plain; charset=utf-8"


def test_the_jobs_tab_leads_to_the_first_queue(browser: FlaskClient, queue: Queue) -> None:
    """The tab without a queue shows the first one, or all queues where there is none."""
    assert browser.get("/0/view/jobs").location == "/"
    queue.add("a")
    assert browser.get("/0/view/jobs").location == "/queues/foos"


def test_looking_changes_nothing(browser: FlaskClient, connection: Connection, every_state: Queue) -> None:
    """Reading every page leaves every key of the queue as it was."""
    before = items_in(connection)
    for path in (
        "/",
        "/0/data/queues.json",
        "/0/view/workers",
        "/0/data/workers.json",
        *(f"/0/data/jobs/foos/{registry}/25/asc/1.json" for registry in REGISTRIES),
        *(f"/0/view/jobs/foos/{registry}/25/asc/1" for registry in REGISTRIES),
        f"/0/data/job/{ItemId('foos', 'dead', 'ns/dead')}.json",
    ):
        assert browser.get(path, follow_redirects=True).status_code == 200, path
    assert items_in(connection) == before


def test_a_dead_redis_is_said(offline: FlaskClient) -> None:
    """While Redis does not answer, the data answer 503 with the error's one line."""
    answer = offline.get("/0/data/queues.json")
    assert answer.status_code == 503
    assert "127.0.0.1:1" in answer.text
    assert answer.text.count("\n") == 1
    assert offline.get("/").text == answer.text
