"""What ``distq check`` says of contents that make no sense, and what commands and pages show of them."""

import json
import re
from typing import Any

import pytest

from distq.dashboard import create_app
from distq.dashboard.item_id import ItemId
from distq.inspector import Inspector
from distq.redisio import contents
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.limits import CACHED_BYTES, CACHED_LIMIT
from distq.redisio.object_cache import CachedObject
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine, distq, imported_program, redis, valkey
from tests.proofs.contents.garbage import MEMBERS, TEXTS
from tests.proofs.contents.live_queue import NAME, LiveQueue

__all__ = ["distq", "imported_program", "redis", "valkey"]


@pytest.fixture
def live(connection: Connection) -> LiveQueue:
    """Make a queue whose handles have ended: they would repair the planted faults."""
    queue = LiveQueue(connection)
    assert list(contents.findings(connection)) == []
    queue.stop()
    return queue


def test_a_queue_in_order_has_no_findings(live: LiveQueue) -> None:
    """Nothing that the scripts write is taken for garbage, with sessions and without."""
    assert list(contents.findings(live.connection)) == []


HASHES = ("claims", "failures", "streams")


@pytest.mark.parametrize(
    "structure",
    ["ready", "suspects", "held_back", "dirty", "delayed", "processing", "dead", "sessions", *HASHES],
)
def test_each_structure_is_looked_at(live: LiveQueue, structure: str) -> None:
    """The finding names the key, and one example."""
    if structure in HASHES:
        live.plant_texts(structure, ["odd"], TEXTS)
    else:
        live.plant_scores(structure, MEMBERS[:1], ["1"])
    (finding,) = contents.findings(live.connection)
    example = "odd" if structure in HASHES else r"\xff\xfe"
    key = queue_key(NAME, structure)
    assert finding.startswith(f'WARN  1 value of {key} cannot be read, say "{example}".')


def test_wrong_types_clocks_and_names_are_found(live: LiveQueue) -> None:
    """A wrong type is a failure, since nothing goes on."""
    live.command("RENAME", "dead", "kept")
    live.command("SET", "dead", "by hand")
    live.command("HSET", "meta", "clock", "noon", "layout", "x")
    live.connection.execute("HSET", "distq:queues", b"\xff", "1")
    key, meta = queue_key(NAME, "dead"), queue_key(NAME, "meta")
    assert list(contents.findings(live.connection)) == [
        r"WARN  1 field of distq:queues name no queue, say '\\xff'.",
        f"FAIL  {key} is a string, where distq keeps a zset: nothing goes on. RENAME it.",
        f"WARN  layout of {meta} is no number. The next turn of a worker fixes it.",
        f"WARN  clock of {meta} is no number. The next turn of a worker fixes it.",
    ]
    (info,) = live.inspector.queues()
    assert f"WRONGTYPE {key} is a string" in str(info.broken)


@pytest.mark.parametrize("structure", ["flows", "arrivals", "held_back", "flow_items"])
def test_wrong_types_of_the_keys_of_flows_are_found(live: LiveQueue, structure: str) -> None:
    """A turn of a fair queue with a limit stops at them."""
    live.command("SET", structure, "by hand")
    (finding,) = contents.findings(live.connection)
    assert finding.startswith(f"FAIL  {queue_key(NAME, structure)} is a string, where distq keeps a ")


@pytest.mark.bound("LOOK_LIMIT")
@pytest.mark.parametrize("redis_server", ["redis7"], indirect=True)
@pytest.mark.parametrize("held", ["many members", "large objects"])
def test_a_look_reads_little_of_any_queue(connection: Connection, held: str) -> None:
    """Of 20,000 members a page, and of a cache of 10 MB about as much as one page of it has."""
    if held == "many members":
        queue = Queue("foos", connection)
        queue.add(*(f"item-{number}" for number in range(20_000)), after=100)
        most = 150_000
    else:
        stream = StreamStore(connection, "foos", "v1/Pod")
        for number in range(40):
            large = CachedObject(f"ns/pod-{number}", "1", b"x" * CACHED_LIMIT)
            stream.commit(
                Commit(epoch="1", after=str(number or ""), new="1", batch=str(number + 1), objects=[large])
            )
        most = 3 * CACHED_BYTES
    before = _bytes_sent(connection)
    assert list(contents.findings(connection)) == []
    assert _bytes_sent(connection) - before < most


def _bytes_sent(connection: Connection) -> int:
    """Return how many bytes Redis has answered so far."""
    return int(re.findall(r"total_net_output_bytes:(\d+)", str(connection.execute("INFO", "stats")))[0])


def test_the_command_line_shows_and_repairs_names_that_are_no_keys(
    distq: CommandLine, redis: Connection
) -> None:
    """By the name that it shows; ``check`` reports it until it is gone."""
    Queue("foos", redis).add("ns/good")
    redis.execute("ZADD", queue_key("foos", "ready"), "inf", b"ns/caf\xe9")
    assert r"ns/caf\xe9" in distq("items", "foos").stdout
    assert r"ns/caf\xe9" in distq("check").stdout
    (item,) = map(json.loads, distq("items", "foos", r"ns/caf\xe9", "--json").stdout.splitlines())
    assert item["key"] == r"ns/caf\xe9"
    assert distq("delete", "foos", r"ns/caf\xe9", "--yes").stdout == "deleted 1\n"
    assert "cannot be read" not in distq("check").stdout
    assert Inspector(redis).queues()[0].ready == 1


def test_the_dashboard_shows_a_name_that_is_no_key(connection: Connection) -> None:
    """In its list, and on the item's own page."""
    Queue("foos", connection).add("ns/good")
    connection.execute("ZADD", queue_key("foos", "ready"), 1, b"ns/caf\xe9\n", 1, b"")
    app = create_app(Inspector(connection))
    browser = app.test_client()
    name = r"ns/caf\xe9\x0a"
    page: Any = browser.get("/0/data/jobs/foos/queued/25/asc/1.json").json
    item_id = str(ItemId("foos", "ready", name))
    assert item_id in {row["id"] for row in page["jobs"]}
    item: Any = browser.get(f"/0/data/job/{item_id}.json").json
    assert item["description"] == name
