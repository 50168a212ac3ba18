"""Segments of the trace, acks and handlers' runs: what the checker makes of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from distq.errors import RedisUnavailable
from distq.redisio import trace
from distq.redisio.connection import Argument, Connection
from distq.redisio.queue_store import QueueStore
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.queue import Queue
from tests.proofs.history import Ack, Interval, Recorder, check, read_intervals
from tests.proofs.history.loads import BEGIN, SECOND
from tests.proofs.history.recorder import Line
from tests.proofs.history.records import Segment
from tests.workqueue.redis_state import RedisState
from tests.workqueue.test_history import Copy

one_server = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


@pytest.fixture
def queue(connection: Connection) -> Iterator[Queue]:
    """Make a handle."""
    queue = Queue("foos", connection)
    yield queue
    queue.close()


@pytest.fixture
def recorder(connection: Connection, queue: Queue) -> Recorder:
    """Record the queue, which is in use already: something is held, failing, delayed, dead and dirty."""
    queue.add("held", "fails", "dies", "again")
    queue.add("later", after=60)
    held, fails, dies, again = queue.turn([], 4).requests
    queue.settle(fails, ValueError("no"))
    queue.release(dies)
    trace.switch_on(QueueStore(connection, "foos"), seconds=60)
    QueueStore(connection, "foos").park(["dies"], "by hand")
    queue.add("again")
    assert (held.key, again.key) == ("held", "again")
    recorder = Recorder(QueueStore(connection, "foos"))
    recorder.start()
    return recorder


def process(queue: Queue, *keys: str) -> int:
    """Add, claim and settle, with all other ready items; return the fence, which is that of all."""
    queue.add(*keys)
    requests = queue.turn([], 9).requests
    queue.turn([Settlement(request, Success()) for request in requests], 0)
    return requests[0].fence


@one_server
def test_a_queue_in_use_may_be_recorded(recorder: Recorder, queue: Queue) -> None:
    """The copy of its state is where the first segment begins."""
    for number in range(5):
        process(queue, f"a{number}", "held")
        recorder.poll()
    (segment,) = segments = recorder.finish()
    assert check(segments) == []
    assert segment.final is not None
    assert [entry.script for entry in segment.entries[:2]] == ["trace", "add"]


@one_server
def test_more_entries_than_a_page_are_read(recorder: Recorder, queue: Queue) -> None:
    """All of them, once; heartbeats are among them where it takes long."""
    for _ in range(1200):
        queue.add("a")
    (segment,) = segments = recorder.finish()
    assert [entry.script for entry in segment.entries].count("add") == 1200
    assert check(segments) == []


@one_server
def test_where_redis_went_back_another_segment_begins(
    recorder: Recorder, queue: Queue, connection: Connection
) -> None:
    """It shares the calls that were kept; lost ones stay in the segment before."""
    process(queue, "a")
    copy = Copy(connection)
    process(queue, "b")
    recorder.poll()
    copy.restore()
    recorder.poll()
    process(queue, "c")
    first, second = segments = recorder.finish()
    assert 0 < second.shared < len(first.entries)
    assert first.entries[: second.shared] == second.entries[: second.shared]
    assert check(segments) == []


@one_server
def test_an_add_that_redis_lost_is_a_violation_of_its_own(
    recorder: Recorder, queue: Queue, connection: Connection
) -> None:
    """An acknowledged add without a reconcile since."""
    copy = Copy(connection)
    queue.add("lost")
    recorder.poll()
    copy.restore()
    (violation,) = check(recorder.finish(), acks=[Ack("lost", 1.0, 2.0)], intervals=[])
    assert (violation.invariant, "lost was added" in violation.text) == ("S3'", True)


@one_server
def test_a_wipe_begins_another_segment(recorder: Recorder, queue: Queue, connection: Connection) -> None:
    """The trace went with the rest: it is switched on again, and begins with the state of that moment."""
    process(queue, "a")
    recorder.poll()
    connection.execute("FLUSHALL")
    queue.add("b")
    recorder.poll()
    queue.add("c")
    _, second = segments = recorder.finish()
    assert second.shared == 0
    assert list(second.start.ready) == ["b"]
    assert check(segments) == []


@one_server
def test_a_change_that_no_script_made_is_noticed(
    recorder: Recorder, queue: Queue, connection: Connection
) -> None:
    """An item by another hand is one that the specification has not."""
    connection.execute("ZADD", "distq:{foos}:ready", 1, "by hand")
    assert {each.invariant for each in check(recorder.finish())} == {"S13"}
    recorder.start()
    queue.add("a")
    assert check(recorder.finish()[1:]) == []


@one_server
def test_items_that_are_left_are_named(recorder: Recorder) -> None:
    """Of a queue that is to be drained."""
    texts = {each.text for each in check(recorder.finish(), drained=True)}
    assert {"dirty: 1 left", "claims: 2 left", "failures of no item: 1 left"} <= texts


# Handlers


@pytest.fixture
def fence(recorder: Recorder, queue: Queue) -> int:
    """Let "a" be added, claimed and settled."""
    return process(queue, "a")


@pytest.fixture
def segments(recorder: Recorder, fence: int) -> list[Segment]:
    """Give the history of that."""
    assert fence
    return recorder.finish()


@one_server
def test_an_add_is_kept_by_a_run_that_begins_after_it_was_sent(segments: list[Segment], fence: int) -> None:
    """One that began before may not have seen why."""
    acks = [Ack("a", 5.0, 6.0)]
    assert check(segments, acks=acks, intervals=[Interval("a", fence, 5.5, 7.0)]) == []
    (violation,) = check(segments, acks=acks, intervals=[Interval("a", fence, 4.5, 7.0)])
    assert violation.invariant == "S3"


@one_server
def test_without_runs_the_claims_of_the_trace_count(segments: list[Segment]) -> None:
    """And items that wait at the end, or are dead, are not forgotten."""
    assert check(segments, acks=[Ack("a", 5.0, 6.0), Ack("later", 5.0, 6.0), Ack("dies", 5.0, 6.0)]) == []
    (violation,) = check(segments, acks=[Ack("unheard of", 5.0, 6.0)])
    assert violation.invariant == "S3"


@one_server
def test_an_end_that_failed_is_repeated(
    recorder: Recorder, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls between its copy and its read are part of the record when it is ended again."""
    copy = recorder._copy

    def slow_copy(*before: Sequence[Argument]) -> tuple[RedisState, Line]:
        copied = copy(*before)
        process(queue, "meanwhile")
        return copied

    def fail(store: QueueStore) -> None:
        raise RedisUnavailable(f"{store.name}: no answer")

    with monkeypatch.context() as failing:
        failing.setattr(recorder, "_copy", slow_copy)
        failing.setattr("tests.proofs.history.recorder.switch_off", fail)
        with pytest.raises(RedisUnavailable):
            recorder.finish()
    process(queue, "after")
    assert check(recorder.finish()) == []


@one_server
def test_two_runs_of_an_item_do_not_overlap(segments: list[Segment], fence: int) -> None:
    """Of any handle."""
    runs = [Interval("a", fence, 1.0, 3.0, "one"), Interval("a", fence, 2.5, 4.0, "other")]
    (violation,) = check(segments, intervals=runs, overlap=9.0, overlap_of_lapsed=9.0)
    assert (violation.invariant, "for 0.500 s" in violation.text) == ("S1'", True)


@one_server
def test_a_run_that_goes_on_after_a_freeze_may_overlap_for_a_moment(connection: Connection) -> None:
    """It began before the freeze, so its part after it begins later than the run that took over."""
    one, other = Queue("foos", connection, claim_duration=5.0), Queue("foos", connection)
    connection.server_time = BEGIN
    recorder = Recorder(QueueStore(connection, "foos"))
    recorder.start()
    one.add("a")
    (mine,) = one.turn([], 1).requests
    connection.server_time += 60 * SECOND
    for _ in range(60):  # a step of the clock is no time that has passed
        connection.server_time += SECOND // 2
        other.turn([], 0)
    (theirs,) = other.turn([], 1).requests
    frozen = [Interval("a", mine.fence, 1.0, 2.0, "one"), Interval("a", mine.fence, 8.0, 8.5, "one")]
    runs = [*frozen, Interval("a", theirs.fence, 7.0, 9.0, "other")]
    segments = recorder.finish()
    assert check(segments, intervals=runs, overlap_of_lapsed=0.6) == []
    (violation,) = check(segments, intervals=runs, overlap_of_lapsed=0.4)
    assert violation.invariant == "S1'"
    connection.server_time = 0
    for queue in (one, other):
        queue.close()


@one_server
def test_a_run_needs_a_claim(segments: list[Segment], fence: int) -> None:
    """Of that item, with that fence."""
    (violation,) = check(segments, intervals=[Interval("a", fence + 1, 1.0, 2.0)])
    assert violation.invariant == "S2"


def test_the_journals_of_handlers_are_read(tmp_path: Path) -> None:
    """A run that was killed ends then; a line that was cut off is none."""
    journal = tmp_path / "handlers"
    journal.write_text(
        '{"event": "began", "key": "a", "fence": 7, "at": 1.5, "who": "1"}\n'
        '{"event": "began", "key": "b", "fence": 8, "at": 2.0, "who": "2"}\n'
        '{"event": "ended", "key": "a", "fence": 7, "at": 2.5, "who": "1"}\n'
        '{"event": "ended", "key": "b", "fen'
    )
    assert read_intervals([journal], killed={"2": 3.0}) == [
        Interval("a", 7, 1.5, 2.5, "1"),
        Interval("b", 8, 2.0, 3.0, "2"),
    ]
