"""A queue's page shows which flows fill it, and which wait."""

import html
import re

import pytest
from flask.testing import FlaskClient

from distq.dashboard.item_id import encoded
from distq.redisio.connection import Connection
from distq.redisio.limits import FLOWS_SHOWN
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS
from tests.dashboard.test_pages import read


def test_flows_are_listed_with_their_items(
    browser: FlaskClient, queue: Queue, connection: Connection
) -> None:
    """Most items first, each a link to its items; below them how many more there are."""
    connection.server_time = round(connection.now() * 1e6)  # a time that does not move: nothing waits
    queue.add("prod/a", "prod/b", "dev/a")
    queue.add(*(f"ns-{number}/a" for number in range(FLOWS_SHOWN)), priority=-1)
    for _ in range(3):
        queue.settle(queue.get(timeout=5))
    queue.add("prod/a", "prod/b", "dev/a", "plain")
    queue._session._heartbeat.beat(queue._session)  # type: ignore[union-attr]
    page = read(browser, "/queues/foos")
    rows = {name: row for name, row in page.rows.items() if name.startswith("flow")}
    assert len(rows) == FLOWS_SHOWN
    name, ready, held_back, _, processing, claimed, *waits = next(iter(rows.values()))
    assert held_back == "0"
    assert (name, ready, processing, claimed) == ("prod", "2", "0", "2")
    assert all(wait.endswith("ms") for wait in waits)
    assert page.links["/queues/foos?match=prod/#items"] == "prod"
    assert f"and {FLOWS_SHOWN + 3 - FLOWS_SHOWN} more flows." in page.texts


def test_a_queue_with_one_flow_does_not_have_them(browser: FlaskClient, queue: Queue) -> None:
    """Its numbers are those of the queue."""
    queue.add("prod/a", "prod/b")
    assert 'id="flows"' not in browser.get("/queues/foos").text


def test_a_sample_is_called_one(browser: FlaskClient, queue: Queue) -> None:
    """With how many items were looked at."""
    for start in range(0, 6000, 1000):
        queue.add(*(f"{'prod' if number % 3 else 'dev'}/{start + number}" for number in range(1000)))
    page = read(browser, "/queues/foos")
    assert re.fullmatch("≈ [34],[0-9]00", page.rows["flow-prod"][1])
    (line,) = [text for text in page.texts if "Estimated:" in text]
    assert line.endswith("of 6,000 ready items were looked at.")


def test_any_name_of_a_flow_is_text(browser: FlaskClient, queue: Queue) -> None:
    """From any key, as the link of an item is."""
    keys = [key if "/" in key else f"{key}/x" for key in HOSTILE_KEYS[:-1]]
    queue.add(*keys)
    page = browser.get("/queues/foos").text
    for key in keys:
        flow = key.partition("/")[0]
        assert f'id="flow-{encoded(flow)}"' in page
        assert html.escape(flow).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page


@pytest.mark.parametrize("flow", ["a*b", "a[b]", "a?", "a\\b"])
def test_a_flow_is_a_link_to_its_items_whatever_its_name(
    browser: FlaskClient, queue: Queue, flow: str
) -> None:
    """Also where the name has what a search takes for a glob; and so is the namespace of an item."""
    queue.add(f"{flow}/x", f"{flow}/y", "axb/x")
    item = f"/queues/foos/items/{encoded(f'{flow}/x')}"
    links = read(browser, "/queues/foos").links | read(browser, item).links
    for text in (flow, f"Search for {flow}/"):
        (found,) = [link for link, shown in links.items() if shown == text]
        assert {row for row in read(browser, found).links.values() if row.endswith(("/x", "/y"))} == {
            f"{flow}/x",
            f"{flow}/y",
        }
