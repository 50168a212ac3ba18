"""rq-dashboard's URLs: its JSON has a queue's data, its pages redirect to ours, its actions are refused."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from distq.dashboard import AccessPolicy, create_app
from distq.dashboard.item_id import ItemId, encoded
from distq.dashboard.rq_rows import REGISTRIES
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS, NOWHERE
from tests.dashboard.visitor import Visitor


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


REGISTERED = {
    "queued": ["ns/ready"],
    "deferred": ["ns/processing"],
    "scheduled": ["ns/delayed"],
    "started": ["ns/processing"],
    "failed": ["ns/dead"],
    "finished": [],
    "canceled": [],
}


def test_every_registry_counts_and_lists_the_items_of_its_state(
    browser: FlaskClient, every_state: Queue
) -> None:
    """Each item has a time to show, and each registry a page of ours."""
    (row,) = browser.get("/0/data/queues.json").get_json()["queues"]
    assert row["name"] == every_state.name
    for registry, keys in REGISTERED.items():
        assert row["count" if registry == "queued" else f"{registry}_job_registry_count"] == len(keys)
        assert browser.get(row[f"{registry}_url"], follow_redirects=True).status_code == 200
        page = listed(browser, registry)
        assert keys_of(page) == keys
        assert all(job["created_at"].endswith("+00:00") for job in page["jobs"])


def test_the_actions_of_operators_are_shown(
    browser: FlaskClient, every_state: Queue, connection: Connection
) -> None:
    """A paused queue is called so, its links still lead to it; an item that is dead by hand shows why."""
    inspector = Inspector(connection)
    inspector.pause("foos")
    inspector.park("foos", "ns/ready", reason="waits for INC-7")
    (row,) = browser.get("/0/data/queues.json").get_json()["queues"]
    assert row["name"] == "foos (paused)"
    assert browser.get(row["failed_url"]).location == "/queues/foos?state=dead&page=1"
    assert keys_of(listed(browser, "failed")) == ["ns/dead", "ns/ready"]
    parked = listed(browser, "failed")["jobs"][1]
    assert parked["exc_info"] == "waits for INC-7"
    assert parked["description"] == "ns/ready · dead: parked by hand"
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


@pytest.mark.parametrize("registry", ["queued", "scheduled", "started", "failed"])
def test_an_item_has_a_page(browser: FlaskClient, every_state: Queue, registry: str) -> None:
    """Its data have its state of now, also by an id from when it was in another; its page is ours."""
    (key,) = REGISTERED[registry]
    item_id = ItemId("foos", "ready", key)
    assert browser.get(f"/0/view/job/{item_id}").location == f"/queues/foos/items/{encoded(key)}"
    item = browser.get(f"/0/data/job/{item_id}.json").get_json()
    assert [item[name] for name in ("id", "description", "origin", "status")] == [
        str(item_id),
        key,
        "foos",
        registry,
    ]
    assert item["created_at"]
    assert {"enqueued_at", "started_at", "ended_at"} <= item.keys()


def test_a_dead_item_has_its_reason_and_traceback(browser: FlaskClient, every_state: Queue) -> None:
    """The reason is among its facts, the traceback where RQ has it."""
    item = browser.get(f"/0/data/job/{ItemId('foos', 'dead', 'ns/dead')}.json").get_json()
    assert "dead: terminal" in item["metadata"]
    assert item["exc_info"].rstrip().endswith("TerminalError: no such image")


def test_workers_link_to_their_items(browser: FlaskClient, every_state: Queue) -> None:
    """A busy worker's row has how many items it holds and leads to the list of them."""
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
    """A key may have any characters: its row links to its own page."""
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


def test_page_links_stay_in_range(browser: FlaskClient, queue: Queue) -> None:
    """A page has 200 rows at most; the window of numbers, next and previous never lead past the ends."""
    queue.add(*(str(number) for number in range(300)))
    capped = listed(browser, "queued", per_page=100_000)
    assert len(capped["jobs"]) == 200
    assert capped["pagination"]["next_page"]["url"] == "/0/view/jobs/foos/queued/200/asc/2"
    middle, last, beyond = (
        listed(browser, "queued", page=number, per_page=10)["pagination"] for number in (15, 30, 999)
    )
    assert [page["number"] for page in middle["pages_in_window"]] == list(range(10, 20))
    assert [page["number"] for page in last["pages_in_window"]] == list(range(21, 31))
    assert "next_page" not in last
    assert last["prev_page"]["url"].endswith("/10/asc/29")
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
def test_an_unknown_name_is_not_found(browser: FlaskClient, queue: Queue, path: str) -> None:
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


def test_a_redis_that_is_down_is_reported(offline: FlaskClient) -> None:
    """While Redis does not answer, the data answer 503 with the error's one line."""
    answer = offline.get("/0/data/queues.json")
    assert answer.status_code == 503
    assert "127.0.0.1:1" in answer.text
    assert answer.text.count("\n") == 1
    assert offline.get("/").text == answer.text


ACTIONS = [
    "/job/foos:dead:default~2Fweb/delete",
    "/job/foos:dead:default~2Fweb/requeue",
    "/requeue/foos",
    "/queue/foos/queued/empty",
    "/queue/foos/compact",
]


@pytest.mark.parametrize("path", ACTIONS)
def test_actions_of_rq_dashboard_are_refused(path: str, offline: FlaskClient) -> None:
    """Operators get 403, without a look at Redis; no link or image can act (405), as one could there."""
    answer = Visitor(create_app(Inspector(NOWHERE), AccessPolicy(actions=True))).post(path)
    assert answer.status_code == 403
    assert "Repair on the page of the queue" in answer.text
    linked = offline.get(path)
    assert linked.status_code == 405
    assert "POST" in linked.headers["Allow"]
