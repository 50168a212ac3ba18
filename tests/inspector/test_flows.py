"""Which flows have most items, and which wait: as it is while that is cheap, and estimated beyond."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distq.config import Settings
from distq.inspector import FlowInfo, Inspector
from distq.metrics import FLOW_OLDEST_READY, FLOW_READY, FLOW_WAITING
from distq.redisio.connection import Connection
from distq.redisio.durations import Durations
from distq.redisio.flow_reads import _waits
from distq.redisio.limits import FLOW_ITEMS, FLOW_LABELS, FLOW_LETTERS, FLOWS_REPORTED, FLOWS_SHOWN
from distq.redisio.roles import user_of
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.flow_waits import WINDOW, FlowWaits
from distq.workqueue.gauges import EXCEEDED, QueueGauges
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.counting_connection import CountingConnection
from tests.support.monitored import commands_of


@pytest.fixture
def queue(connection: Connection) -> Iterator[Queue]:
    """Open the queue ``foos``, at a time that the test moves."""
    connection.server_time = 1_795_000_000_000_000
    handle = Queue("foos", connection)
    yield handle
    handle.close()


def by_flow(connection: Connection) -> dict[str | None, FlowInfo]:
    """Return the flows by their names, in their order."""
    return {flow.flow: flow for flow in Inspector(connection).flows("foos").flows}


def test_a_flow_is_the_part_of_keys_before_their_first_slash(connection: Connection, queue: Queue) -> None:
    """With how many items are ready and held, and since when the oldest waits; most items first."""
    queue.add("prod/held")
    queue.get(timeout=5)
    began = connection.server_time / 1e6
    queue.add("prod/a", "prod/b/c", "prod/d", "plain", "other")
    connection.server_time += 60_000_000
    queue.add("dev/a", "/nothing", priority=5)
    found = by_flow(connection)
    assert [(name, flow.ready, flow.processing) for name, flow in found.items()] == [
        ("prod", 3, 1),
        (None, 3, 0),
        ("dev", 1, 0),
    ]
    assert found["prod"].oldest_ready == pytest.approx(began, abs=0.001)
    assert found["dev"].oldest_ready == pytest.approx(began + 60, abs=0.001)
    assert not any(flow.sample for flow in found.values())


def test_an_item_of_a_fair_queue_waits_since_it_arrived(connection: Connection, queue: Queue) -> None:
    """Its flow may have given it any place."""
    queue.add("prod/a", "prod/b")
    began = connection.server_time / 1e6
    (order,) = connection.execute("ZMSCORE", "distq:{foos}:ready", "prod/a")
    connection.execute("HSET", "distq:{foos}:arrivals", "prod/a", order)
    for key in ("prod/a", "prod/b"):
        connection.execute("ZADD", "distq:{foos}:ready", float(order) + 60_000_000, key)
    connection.execute("HSET", "distq:{foos}:arrivals", "prod/b", "no order")
    assert by_flow(connection)["prod"].oldest_ready == pytest.approx(began, abs=0.001)


def test_a_queue_without_items_has_no_flows(connection: Connection, queue: Queue) -> None:
    """Nor has one that was never used."""
    look = Inspector(connection).flows("foos")
    assert (look.flows, look.left_out, look.ready, look.is_sample) == ([], 0, 0, False)


@pytest.mark.bound("FLOW_ITEMS")
def test_a_large_queue_is_a_sample(
    connection: Connection, queue: Queue, redis_server: EmbeddedValkey
) -> None:
    """It takes as many items from any queue, says that it is a sample, and its estimate is near."""
    for start in range(0, 30_000, 1000):
        queue.add(*(f"big/{start + number}" for number in range(1000)))
    queue.add(*(f"small/{number}" for number in range(3000)))
    counting = CountingConnection(redis_server.url)
    look = Inspector(counting).flows("foos")
    assert counting.round_trips == 1
    assert look.is_sample
    assert look.ready == 33_000
    assert look.looked_at < 1.2 * FLOW_ITEMS
    big, small = look.flows
    assert (big.flow, small.flow) == ("big", "small")
    assert big.sample
    assert 28_000 <= big.ready <= 32_000
    assert 2_000 <= small.ready <= 4_200
    assert big.oldest_ready is not None
    assert small.oldest_ready is not None
    assert big.oldest_ready < small.oldest_ready


def test_a_look_takes_as_many_commands_for_any_queue(
    connection: Connection, queue: Queue, redis_server: EmbeddedValkey
) -> None:
    """For one item as for thousands of flows."""
    inspector = Inspector(connection)
    queue.add("a/a")
    with commands_of(redis_server.url, connection) as few:
        inspector.flows("foos")
    for start in range(0, 3000, 1000):
        queue.add(*(f"{start + number}/a" for number in range(1000)))
    with commands_of(redis_server.url, connection) as many:
        inspector.flows("foos")
    assert len(few) == len(many) <= 11


@pytest.mark.bound("FLOWS_SHOWN")
def test_the_largest_flows_and_those_that_wait_longest_are_shown(
    connection: Connection, queue: Queue
) -> None:
    """One with a single old item beside many with more; the others are counted."""
    queue.add("patient/a")
    connection.server_time += 60_000_000
    for number in range(3 * FLOWS_SHOWN):
        queue.add(*(f"ns-{number:02}/{item}" for item in range(2 + number)))
    look = Inspector(connection).flows("foos")
    names = [flow.flow for flow in look.flows]
    assert len(names) == FLOWS_SHOWN
    assert look.left_out == 2 * FLOWS_SHOWN + 1
    assert names[0] == f"ns-{3 * FLOWS_SHOWN - 1}"
    assert names[-1] == "patient"


def test_waiting_times_are_those_of_the_last_minutes(connection: Connection, queue: Queue) -> None:
    """Of what any open handle claimed, as it reports with its heartbeats."""
    other = Queue("foos", connection)
    for handle in (queue, other):
        handle.add("slow/a", "slow/b")
        connection.server_time += 4_000_000
        handle.add("quick/a")
        for _ in range(3):
            handle.settle(handle.get(timeout=5))
        handle._session._heartbeat.beat(handle._session)  # type: ignore[union-attr]
    found = by_flow(connection)
    other.close()
    assert {name: (flow.claimed, flow.ready) for name, flow in found.items()} == {
        "slow": (4, 0),
        "quick": (2, 0),
    }
    slow, quick = found["slow"].waiting_p50, found["quick"].waiting_p99
    assert slow is not None
    assert quick is not None
    assert 2 <= slow <= 8
    assert quick < 0.01


@pytest.mark.parametrize(
    "reported", ["x", 5, None, {}, [5, None, {}], ["no word a"], ["b1 \x00"], ["\ud800 \ud800"]]
)
def test_a_wrong_report_of_a_process_breaks_no_look(
    connection: Connection, queue: Queue, reported: object
) -> None:
    """For example from another version, or from a foreign program."""
    queue.add("ns/a")
    connection.execute("HSET", "distq:{foos}:workers", "7", json.dumps({"flows": reported}))
    assert by_flow(connection)["ns"].ready == 1


def _claims(flows: dict[str, int], waited_ms: float = 1.5) -> list[Request]:
    return [
        Request(f"{flow}/{number}", fence=2_000_000, enqueued_at=2 - waited_ms / 1000)
        for flow, count in flows.items()
        for number in range(count)
    ]


def test_a_process_forgets_claims_after_some_minutes() -> None:
    """A half of the window at a time, and all after a long pause."""
    waits = FlowWaits()
    waits.claimed.extend(_claims({"a": 2}))
    assert waits.describe(100.0) == ["b2 a"]
    waits.claimed.extend(_claims({"b": 1}))
    assert sorted(waits.describe(100 + WINDOW / 2 + 1)) == ["b1 b", "b2 a"]
    assert waits.describe(100 + WINDOW + 2) == ["b1 b"]
    waits.claimed.extend(_claims({"c": 1}))
    assert waits.describe(100 + 9 * WINDOW) == ["b1 c"]


@pytest.mark.bound("FLOWS_REPORTED", "FLOW_LETTERS")
def test_a_process_reports_a_bounded_number_of_flows() -> None:
    """Those with most claims and those that waited longest; none with a name that is too long."""
    waits = FlowWaits()
    waits.claimed.extend(_claims({"late": 1}, waited_ms=1500))
    waits.claimed.extend(_claims({f"ns-{number}": 1 for number in range(3 * FLOWS_REPORTED)} | {"busy": 9}))
    waits.claimed.extend(_claims({"x" * (FLOW_LETTERS + 1): 30}))
    reported = waits.describe(0.0)
    assert len(reported) <= FLOWS_REPORTED
    assert {"b9 busy", "l1 late"} <= {*reported}
    assert not any("xx" in text for text in reported)


def test_a_new_session_may_be_described_beside_a_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it adds meanwhile ends neither of them."""
    waits, add = FlowWaits(), Durations.__add__
    waits.claimed.extend(_claims({"a": 1}))
    waits.describe(0.0)

    def add_beside_another_thread(one: Durations, other: Durations) -> Durations:
        waits._now["of another thread"].note([1])
        return add(one, other)

    monkeypatch.setattr(Durations, "__add__", add_beside_another_thread)
    waits.claimed.extend(_claims({"a": 1, "b": 1}))
    assert sorted(waits.describe(WINDOW / 2 + 1)) == ["b1 b", "b2 a"]


def test_a_process_counts_a_bounded_number_of_claims() -> None:
    """So that a heartbeat does not take longer after many claims."""
    waits = FlowWaits()
    for _ in range(100):
        waits.claimed.extend(_claims({"a": 250}))
    (text,) = waits.describe(0.0)
    assert text == "b1000 a"


def test_a_process_follows_a_bounded_number_of_flows() -> None:
    """So that a heartbeat takes as long with many flows; the reported ones are among them."""
    waits = FlowWaits()
    waits.claimed.extend(_claims({"busy": 9}) + _claims({"late": 1}, waited_ms=1500))
    for beat in range(5):
        waits.claimed.extend(_claims({f"{beat}-{number}": 1 for number in range(900)}))
        reported = waits.describe(0.0)
    assert len(waits._now) <= 1000
    assert {"b9 busy", "l1 late"} <= {*reported}


@given(st.lists(st.text(min_size=1, max_size=FLOW_LETTERS).filter(lambda text: "/" not in text), max_size=5))
def test_any_name_of_a_flow_is_read_as_it_was_reported(names: list[str]) -> None:
    """With spaces and quotes in it, too."""
    waits = FlowWaits()
    waits.claimed.extend(_claims(dict.fromkeys(names, 1)))
    read = dict(_waits([{"flows": waits.describe(0.0)}]))
    assert {name: waiting.total() for name, waiting in read.items()} == dict.fromkeys(names, 1)


@pytest.mark.bound("FLOW_LABELS")
def test_metrics_have_a_bounded_number_of_flows(connection: Connection, queue: Queue) -> None:
    """The largest by themselves, all others as one."""
    queue.add("plain")
    for number in range(2 * FLOW_LABELS):
        queue.add(*(f"ns-{number:02}/{item}" for item in range(2 + number)))
    connection.server_time += 30_000_000
    for _ in range(3):
        queue.settle(queue.get(timeout=5))
    queue._session._heartbeat.beat(queue._session)  # type: ignore[union-attr]
    gauges = QueueGauges(queue)
    samples = gauges()
    gauges.close()
    ready = {labels[1]: value for metric, labels, value in samples if metric is FLOW_READY}
    assert len(ready) == FLOW_LABELS + 1
    assert ready[f"ns-{2 * FLOW_LABELS - 1}"] == 2 * FLOW_LABELS + 1
    assert sum(ready.values()) == Inspector(connection).queues("foos")[0].ready
    ages = [value for metric, labels, value in samples if metric is FLOW_OLDEST_READY]
    assert len(ages) == FLOW_LABELS + 1
    waits = {labels[1:]: value for metric, labels, value in samples if metric is FLOW_WAITING}
    assert {*waits} == {(EXCEEDED, "0.5"), (EXCEEDED, "0.99")}
    assert 16 <= waits[EXCEEDED, "0.5"] <= 64


def test_a_user_without_rights_to_look_has_the_other_metrics(
    connection: Connection, redis_server: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was made for an older distq; the log says it once."""
    connection.execute(*user_of(["informer"], prefix="distq").replace(" +zscan", "").split())
    settings = Settings(redis_username="distq-informer", redis_password="PASSWORD")
    redis = Connection(redis_server.url, settings=settings)
    queue = Queue("foos", connection)
    queue.add("ns/a")
    gauges = QueueGauges(Queue("foos", redis))
    try:
        for _ in range(2):
            names = {metric.name for metric, _, _ in gauges()}
            assert "distq_ready" in names
            assert "distq_flow_ready" not in names
    finally:
        gauges.close()
        redis.close()
        connection.execute("ACL", "DELUSER", "distq-informer")
    lines = [record.getMessage() for record in caplog.records if "no metrics by flow" in record.getMessage()]
    assert len(lines) == 1
