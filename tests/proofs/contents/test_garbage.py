"""Foreign bytes may be in any structure of a live queue: the other items are processed, and none vanishes."""

from collections.abc import Iterator
from typing import Any

import pytest

from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key, shown
from distq.redisio.queue_store import QueueStore
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.queue import Queue
from tests.proofs.contents.garbage import MEMBERS, SCORES, TEXTS
from tests.proofs.contents.live_queue import NAME, STATES, LiveQueue, names
from tests.support.eventually import eventually

ALL = {key for state in STATES for key in names(state) if state != "dead"}


@pytest.fixture
def live(connection: Connection) -> Iterator[LiveQueue]:
    """Make a live queue."""
    queue = LiveQueue(connection)
    yield queue
    queue.stop()


@pytest.fixture
def limited(connection: Connection) -> Iterator[LiveQueue]:
    """Make one whose workers process one item of a namespace at a time."""
    queue = LiveQueue(connection, limit=1)
    yield queue
    queue.stop()


def _work_off(live: LiveQueue) -> None:
    live.look()
    assert QueueGauges(live.holder)()[-1][2] == 1.0
    live.start()
    live.settle_held()
    live.expect_all(ALL)
    live.look()


@pytest.mark.parametrize(
    ("structure", "states"),
    [
        ("ready", ["ready"]),
        ("dirty", ["dirty"]),
        ("processing", ["held", "orphaned"]),
        ("delayed", ["delayed", "failing"]),
        ("dead", ["dead"]),
    ],
)
def test_garbage_scores_keep_no_item_from_being_processed(
    live: LiveQueue, structure: str, states: list[str]
) -> None:
    """Infinite, negative, fractional, far too great and far too small ones."""
    for state in states:
        live.plant_scores(structure, names(state), SCORES)
    _work_off(live)


@pytest.mark.parametrize("structure", ["suspects", "failures"])
def test_garbage_keeps_no_suspect_from_being_processed(live: LiveQueue, structure: str) -> None:
    """By its score, or by its record: an item that is no suspect by that is processed beside others."""
    keys = live.add_suspects()
    if structure == "suspects":
        live.plant_scores(structure, keys, SCORES)
    else:
        live.plant_texts(structure, keys, TEXTS)
    live.start()
    live.settle_held()
    live.expect_all({*ALL, *keys})


@pytest.mark.parametrize(
    ("structure", "states"),
    [
        ("claims", ["held", "dirty", "orphaned"]),
        ("failures", ["ready", "delayed", "failing", "held", "orphaned"]),
    ],
)
def test_garbage_records_of_items_keep_nothing_from_being_processed(
    live: LiveQueue, structure: str, states: list[str]
) -> None:
    """An item is processed, or set aside with the record that could not be read."""
    for state in states:
        live.plant_texts(structure, names(state), TEXTS)
    _work_off(live)


@pytest.mark.parametrize(
    "structure", ["ready", "suspects", "dirty", "processing", "delayed", "dead", "sessions"]
)
def test_members_that_are_no_keys_are_dead(live: LiveQueue, structure: str) -> None:
    """They end no worker, and nothing else suffers."""
    live.plant_scores(structure, MEMBERS, ["1"] * len(MEMBERS))
    _work_off(live)
    if structure in {"ready", "suspects", "processing", "delayed"}:  # elsewhere nothing waits to be claimed
        live.expect_all({shown(member) for member in MEMBERS})
        assert not {shown(member) for member in MEMBERS} & {*live.processed}


@pytest.mark.parametrize("structure", ["claims", "failures", "workers", "streams", "known:v1/Pod"])
def test_fields_that_are_no_keys_change_nothing(live: LiveQueue, structure: str) -> None:
    """With any values."""
    live.plant_texts(structure, MEMBERS, TEXTS)
    _work_off(live)


def test_garbage_in_sessions_stops_no_worker(live: LiveQueue) -> None:
    """Deadlines that are none, of the living and of the dead."""
    live.start()
    for place, score in enumerate(SCORES):
        for session in live.command("ZRANGE", "sessions", 0, -1):
            live.command("ZADD", "sessions", score, session)
        live.holder.add(f"after/{place}")
        live.expect_all({f"after/{place}"})
    live.settle_held()
    live.expect_all({key for key in ALL if key.startswith("orphaned")})


def test_garbage_in_meta_stops_no_worker(live: LiveQueue) -> None:
    """Layout, clocks, covers and each session's record."""
    live.start()
    live.settle_held()
    more = [b"cover", b"coverer", b"emptying", b"bucket 10 100"]
    for place, text in enumerate(TEXTS):
        for field in {*live.command("HKEYS", "meta"), *more} - {b"paused"}:
            live.command("HSET", "meta", field, text)
        live.look()
        live.holder.add(f"after/{place}", f"again/{place}5")
        live.expect_all({f"after/{place}", f"again/{place}5"})
    live.expect_all(ALL)


@pytest.mark.parametrize("structure", ["held_back", "flow_items"])
@pytest.mark.parametrize("of", ["what scripts wrote", "what they did not"])
def test_garbage_scores_of_limits_keep_no_item_from_being_processed(
    limited: LiveQueue, structure: str, of: str
) -> None:
    """Wherever they put a member."""
    ours = limited.command("ZRANGE", structure, 0, -1)
    limited.plant_scores(structure, ours if of == "what scripts wrote" else MEMBERS, SCORES[::-1])
    _work_off(limited)
    eventually(lambda: limited.command("ZCARD", structure) == 0, f"{structure} is not empty")


def test_garbage_in_meta_about_limits_stops_no_worker(limited: LiveQueue) -> None:
    """Where the next look begins, how far items have entered, and whether the queue is fair."""
    limited.start()
    limited.settle_held()
    for place, text in enumerate(TEXTS):
        for field in ("bounded", "entered", "fair_by"):
            limited.command("HSET", "meta", field, text)
            keys = {f"after/{field}{place}", f"again/{field}{place}5"}
            limited.holder.add(*keys)
            limited.expect_all(keys)
        limited.command("HSET", "meta", "fair_by", "to namespace")
    limited.expect_all(ALL)


def test_garbage_about_workers_and_streams_is_shown_as_unknown(live: LiveQueue) -> None:
    """No reader gets a traceback."""
    for text in TEXTS:
        for session in live.command("HKEYS", "workers"):
            live.command("HSET", "workers", session, text)
        live.command("HSET", "streams", "v1/Pod", text)
        live.look()
    _work_off(live)


def test_other_names_than_those_of_queues_are_no_queues(live: LiveQueue, connection: Connection) -> None:
    """Any bytes may be among the names."""
    for name in MEMBERS:
        connection.execute("HSET", "distq:queues", name, "x")
    assert [queue.name for queue in live.inspector.queues()] == [NAME]


@pytest.mark.parametrize(
    "structure", ["ready", "suspects", "dirty", "processing", "claims", "delayed", "failures", "dead"]
)
def test_a_structure_of_a_wrong_type_is_named_and_the_rest_is_whole(live: LiveQueue, structure: str) -> None:
    """Workers wait and say which key it is; once it is moved away, as they advise, they go on."""
    if structure == "suspects":
        live.add_suspects()
    live.command("RENAME", structure, "kept")
    live.command("SET", structure, "by hand")
    live.start()
    eventually(lambda: len(live.errors) > 3, "no error was noticed")
    assert all(f"WRONGTYPE {queue_key(NAME, structure)} is a string" in str(error) for error in live.errors)
    live.command("RENAME", structure, "moved-away")
    live.command("RENAME", "kept", structure)
    live.settle_held()
    live.expect_all(ALL, but_errors=True)


def test_only_unreadable_items_are_called_dead(
    connection: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the session is lost before that, or Redis went back, nothing is, and no call reports it."""
    counted: list[int] = []
    run_script = QueueStore.run

    def wiped_after_a_claim(store: QueueStore, script: str, *meanwhile: Any, **inputs: Any) -> Any:
        reply = run_script(store, script, *meanwhile, **inputs)
        if script == "turn":
            connection.execute("FLUSHALL")
        return reply

    queue = Queue(NAME, connection)
    queue._settings.on_unreadable = counted.append
    queue.add("a")
    connection.execute("ZADD", queue_key(NAME, "ready"), 1, b"\xff")
    with monkeypatch.context() as patch:
        patch.setattr(QueueStore, "run", wiped_after_a_claim)
        queue.turn([], 2)
    assert (counted, "is dead" in caplog.text) == ([], False)
    connection.execute("ZADD", queue_key(NAME, "ready"), 1, b"\xff")
    queue.turn([], 2)
    assert (counted, "is dead" in caplog.text) == ([1], True)
    queue.close()
