"""Suspects, items that two lapsed sessions held: they run alone and stop no other item; on every server."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from distq.errors import QueueFull, RedisUnavailable, TerminalError
from distq.inspector import Inspector
from distq.inspector.view import Rows, Wanted
from distq.redisio.connection import Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.queue_store import QueueStore
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.workqueue.conftest import ServerTime, beat, end_heartbeat

Make = Callable[..., Queue]

FAILURES, WAKE = "distq:{foos}:failures", "distq:{foos}:wake"
READY, SUSPECTS = "distq:{foos}:ready", "distq:{foos}:suspects"


class Worker:
    """A handle of eight slots, and what it holds."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.held: list[Request] = []

    def turn(self, settled: int) -> list[str]:
        """Settle some of what is held, and fill the free slots; return the keys that were claimed."""
        done, self.held = self.held[:settled], self.held[settled:]
        settlements = [Settlement(request, Success()) for request in done]
        claimed = list(self.queue.turn(settlements, 8 - len(self.held)).requests)
        self.held += claimed
        return [request.key for request in claimed]


@pytest.fixture
def workers(make_queue: Make, server_time: ServerTime) -> list[Worker]:
    """Make three workers whose slots are all taken."""
    workers = [Worker(make_queue()) for _ in range(3)]
    for number, worker in enumerate(workers):
        worker.queue.add(*(f"long {number} {slot}" for slot in range(8)))
        assert len(worker.turn(0)) == 8
    return workers


def suspect(connection: Connection, *keys: str) -> None:
    """Write down that two sessions died of keys."""
    for key in keys:
        connection.execute("HSET", FAILURES, key, "0 2 0 - ")


def waiting(queue: Queue, size: int) -> None:
    """Add items that wait."""
    queue.add(*(f"item {number:04}" for number in range(size)))


@pytest.mark.parametrize("died", range(3))
def test_a_suspect_at_the_head_does_not_stop_busy_sessions(
    workers: Sequence[Worker], connection: Connection, server_time: ServerTime, died: int
) -> None:
    """One of them empties itself and runs it alone; the others claim what is behind, in its order."""
    emptying, *others = [*workers[died:], *workers[:died]]
    emptying.queue.add("suspect")
    suspect(connection, "suspect")
    waiting(emptying.queue, 3000)
    assert emptying.turn(1) == []
    claimed: list[str] = []
    for settled in (1, 3, 8, 2):
        for worker in others:
            keys = worker.turn(settled)
            assert len(keys) == settled
            claimed += keys
        assert emptying.turn(1) == []
    assert claimed == [f"item {number:04}" for number in range(len(claimed))]
    assert emptying.turn(3) == ["suspect"]
    assert emptying.turn(0) == []
    assert others[0].turn(1) == [f"item {len(claimed):04}"]
    end_heartbeat(emptying.queue)
    server_time.lapse(*(worker.queue for worker in others))
    others[0].turn(0)
    (item,) = Inspector(connection).items("foos", state="dead")
    assert (item.key, item.reason) == ("suspect", "crashes")


def test_a_hundred_suspects_stop_no_worker(workers: Sequence[Worker], connection: Connection) -> None:
    """The session that emptied itself takes them one after the other; the others go on all the time."""
    emptying, *others = workers
    suspects = [f"suspect {number:03}" for number in range(100)]
    emptying.queue.add(*suspects)
    suspect(connection, *suspects)
    waiting(emptying.queue, 1000)
    assert emptying.turn(4) == []
    for number in range(3):
        for worker in others:
            assert len(worker.turn(8)) == 8
        assert emptying.turn(8) == [suspects[number]]


def test_thirteen_hundred_suspects_delay_no_item(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Three workers of eight slots run fifty quick items before a suspect has run for its two seconds."""
    workers = [Worker(make_queue()) for _ in range(3)]
    suspects = [f"suspect {number:04}" for number in range(1300)]
    quick = [f"quick {number:02}" for number in range(50)]
    for keys in (suspects[:650], suspects[650:], quick):
        workers[0].queue.add(*keys)
    suspect(connection, *suspects)
    done: list[str] = []
    for _ in range(20):  # of 50 ms: no suspect is through
        for worker in workers:
            runs_alone = any(request.key in suspects for request in worker.held)
            claimed = worker.turn(0 if runs_alone else 8)
            assert not (runs_alone and claimed), "a suspect runs alone"
            done += [key for key in claimed if key in quick]
        server_time.advance(0.05)
        for worker in workers:
            beat(worker.queue)
    assert done == quick
    assert [len(worker.held) for worker in workers] == [1, 1, 1]
    assert workers[0].queue.depth() == 1297


def test_suspects_among_the_others_are_met_once(make_queue: Make, connection: Connection) -> None:
    """A turn sets a hundred apart; a session that finds too few is woken to go on, and then none is."""
    handles = [make_queue() for _ in range(4)]
    for number, handle in enumerate(handles):
        handle.add(f"long {number}")
        assert len(handle.turn([], 1).requests) == 1
    suspects = [f"suspect {number:04}" for number in range(2500)]
    for start in range(0, 2500, 500):
        handles[0].add(*suspects[start : start + 500])
    handles[0].add("behind")
    suspect(connection, *suspects)
    claimed, met = list[str](), 0
    for turns in range(1, 60):
        requests = handles[turns % 4].turn([], 1).requests
        claimed += [request.key for request in requests]
        met = connection.execute("ZCARD", SUSPECTS) if turns == 1 else met
        if connection.execute("LLEN", WAKE) == 0:
            break
    assert claimed == ["behind"]
    assert met == 100
    assert turns <= 40
    assert connection.execute("ZCARD", READY) == 0


def test_suspects_keep_their_order_and_can_be_raised(make_queue: Make, connection: Connection) -> None:
    """Priority first, then who waits longest; every way to raise an item raises them as well."""
    queue, other = make_queue(), Worker(make_queue())
    queue.add("a", "b", "c", "d", "e")
    suspect(connection, "a", "b", "c", "d", "e")
    assert other.turn(0) == ["a"]
    queue.add("e", priority=3)
    queue.add("d", priority=2, after=10)
    queue.add("c", priority=1)
    queue.add("b")
    priorities = {"b": 0, "c": 1, "d": 2, "e": 3}
    listed = Inspector(connection).items("foos", state="ready")
    assert {item.key: item.priority for item in listed} == priorities
    order = []
    while other.held:
        order += other.turn(1)
    assert order == ["e", "d", "c", "b"]


def test_an_item_that_is_no_suspect_any_more_is_claimed_beside_others(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Also behind a suspect that no worker can run: within a tick for up to a hundred of them."""
    busy, other = Worker(make_queue()), Worker(make_queue())
    for number, worker in enumerate((busy, other)):
        worker.queue.add(f"long {number}")
        assert worker.turn(0) == [f"long {number}"]
    fences = ",".join(str(connection.server_time - number) for number in range(2))
    busy.queue.add("suspect", "expires")
    suspect(connection, "suspect")
    connection.execute("HSET", FAILURES, "expires", f"0 2 0 -@{fences} ")
    assert busy.turn(0) == []
    server_time.advance(3 * DAY)
    assert beat(other.queue)
    assert connection.execute("ZRANGE", SUSPECTS, 0, -1) == [b"suspect"]
    assert busy.turn(0) == []
    assert other.turn(0) == ["expires"]


def test_suspects_that_wait_apart_count_as_items_that_wait(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """In depth, length, listings, metrics, history and since when the oldest waits."""
    queue, inspector = make_queue(max_length=6), Inspector(connection)
    workers = [Worker(make_queue()) for _ in range(2)]
    for number, worker in enumerate(workers):
        worker.queue.add(f"ns/long {number}")
        assert worker.turn(0) == [f"ns/long {number}"]
    server_time.advance(1)
    since = connection.server_time / 1e6
    queue.add("ns/a", priority=7)
    server_time.advance(15)
    queue.add("ns/b", "ns/c", "ns/d")
    suspect(connection, "ns/a", "ns/b", "ns/c")
    assert workers[0].turn(0) == []
    assert workers[1].turn(0) == ["ns/d"]
    queue.add("ns/e", priority=-1)
    assert connection.execute("ZCARD", SUSPECTS) == 3
    (info,) = inspector.queues()
    assert (info.ready, info.depth, info.processing) == (4, 4, 3)
    assert info.oldest_ready == since
    assert queue.depth() == 4
    assert beat(workers[0].queue)
    _counted_everywhere(queue, inspector, since)
    with pytest.raises(QueueFull, match="2 more"):
        queue.add("ns/f", "ns/a", "ns/g", "ns/h")


def _counted_everywhere(queue: Queue, inspector: Inspector, since: float) -> None:
    ready = ["ns/e", "ns/a", "ns/b", "ns/c"]
    assert [item.key for item in inspector.items("foos", state="ready")] == ready
    assert [item.key for item in inspector.items("foos", state="ready", offset=1, limit=2)] == ready[1:3]
    assert sorted(item.key for item in inspector.items("foos", state="ready", match="ns/*")) == sorted(ready)
    assert inspector.count("foos", state="ready") == inspector.count("foos", state="ready", match="*s/*") == 4
    rows = Rows("ready", offset=1, limit=3, last_first=True)
    (found,) = inspector.view("foos", Wanted(rows=rows, key="ns/a")).queues
    assert [item.key for item in found.items] == ["ns/b", "ns/a", "ns/e"]
    assert found.item is not None
    assert (found.item.state, found.item.priority, found.item.since) == ("ready", 7, since)
    assert set(ready) - {"ns/a"} <= set(found.siblings)
    (found,) = inspector.view("foos", Wanted(rows=Rows("ready", match="ns/"))).queues
    assert [item.key for item in found.items] == sorted(ready)
    metrics = {(metric.name, labels): value for metric, labels, value in QueueGauges(queue)()}
    assert metrics["workqueue_depth", ("foos", "foos", "7")] == 1
    assert metrics["workqueue_depth", ("foos", "foos", "0")] == 2
    sample = inspector.history("foos")[-1]
    assert (sample.ready, round(sample.waited or 0)) == (4, 15)


def test_repairs_find_suspects_that_wait_apart(make_queue: Make, connection: Connection) -> None:
    """By key, by state, by match, and step by step; as any item that is ready."""
    holder, inspector = Worker(make_queue()), Inspector(connection)
    holder.queue.add("long")
    assert holder.turn(0) == ["long"]
    keys = [f"suspect {number}" for number in range(7)]
    holder.queue.add(*keys)
    suspect(connection, *keys)
    assert holder.turn(0) == []
    assert connection.execute("ZCARD", READY) == 0
    assert inspector.delete("foos", keys[0]) == 1
    assert inspector.delete("foos", state="ready", match="*1") == 1
    assert inspector.park("foos", keys[2], reason="why") == 1
    step = inspector.repair_some("park", "foos", state="ready", match="*3", reason="why")
    assert step.cursor is not None, "what waits apart comes in a step of its own"
    step = inspector.repair_some("park", "foos", state="ready", match="*3", reason="why", cursor=step.cursor)
    assert step.changed == 1
    assert inspector.requeue("foos", keys[4]) == 1
    assert inspector.requeue("foos", state="ready", match="*5") == 1
    assert connection.execute("ZRANGE", SUSPECTS, 0, -1) == [b"suspect 6"]
    assert connection.execute("ZRANGE", READY, 0, -1) == [b"suspect 4", b"suspect 5"]


def test_a_session_that_holds_nothing_and_finds_nothing_else_takes_a_suspect_too(
    workers: Sequence[Worker], make_queue: Make, connection: Connection
) -> None:
    """Idle sessions help; a session with other work leaves suspects to the session that empties itself."""
    emptying = workers[0]
    emptying.queue.add("one", "two", "item")
    suspect(connection, "one", "two")
    assert emptying.turn(1) == []
    idle = [Worker(make_queue()), Worker(make_queue())]
    assert idle[0].turn(0) == ["item"]
    assert idle[1].turn(0) == ["one"]
    assert emptying.turn(8) == ["two"]


@pytest.mark.parametrize("end", ["close", "lapse", "empty"])
def test_another_empties_itself_where_the_first_is_gone(
    workers: Sequence[Worker], connection: Connection, server_time: ServerTime, end: str
) -> None:
    """Closed, lapsed, or empty and no longer asking: the suspect does not wait for a session that is gone."""
    first, second, third = workers
    first.queue.add("suspect", priority=1)
    suspect(connection, "suspect")
    waiting(first.queue, 30)
    assert first.turn(1) == []
    assert len(second.turn(1)) == 1
    if end == "close":
        first.queue.close()
    elif end == "lapse":
        server_time.lapse(second.queue, third.queue)
        third.turn(0)
    else:
        first.queue.turn([Settlement(request, Success()) for request in first.held], 0)
    assert second.turn(1) == []
    assert len(third.turn(1)) == 1
    assert second.turn(7) == ["suspect"]


@pytest.mark.parametrize("how", ["delete", "park", "forget", "taken"])
def test_a_session_that_empties_itself_goes_on_once_there_is_no_suspect(
    workers: Sequence[Worker], make_queue: Make, connection: Connection, how: str
) -> None:
    """Deleted, dead, forgiven or taken by an idle session: the next turn claims."""
    first, inspector = workers[0], Inspector(connection)
    first.queue.add("suspect")
    suspect(connection, "suspect")
    assert first.turn(1) == []
    if how == "taken":
        assert Worker(make_queue()).turn(0) == ["suspect"]
    elif how == "forget":
        first.queue.forget("suspect")
        first.queue.add("item")
        assert first.turn(0) == ["suspect"]
        return
    else:
        getattr(inspector, how)("foos", "suspect")
    first.queue.add("item")
    assert first.turn(1) == ["item"]


def test_a_handler_that_hangs_keeps_no_suspect_waiting_for_ever(
    workers: Sequence[Worker], connection: Connection, server_time: ServerTime
) -> None:
    """After ten minutes another empties itself, and the first goes on claiming; in turns, if need be."""
    first, second, _ = workers
    first.queue.add("suspect")
    suspect(connection, "suspect")
    waiting(first.queue, 30)

    def pass_time(seconds: float) -> None:
        server_time.advance(seconds)
        for each in workers:
            assert beat(each.queue)

    for worker, other in ((first, second), (second, first), (first, second)):
        assert worker.turn(1) == []
        assert len(other.turn(1)) > 0
        pass_time(599)
        assert worker.turn(0) == []
        pass_time(2)
        assert len(worker.turn(0)) > 0


def test_only_one_worker_empties_itself_in_turns(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Where no other worker is there, it works on after ten minutes, and tries again after ten more."""
    only = Worker(make_queue())
    only.queue.add(*(f"long {slot}" for slot in range(8)))
    only.turn(0)
    only.queue.add("suspect")
    suspect(connection, "suspect")
    waiting(only.queue, 30)
    assert only.turn(2) == []
    server_time.advance(601)
    assert len(only.turn(0)) == 2
    assert len(only.turn(1)) == 1
    server_time.advance(600)
    assert only.turn(1) == []
    assert only.turn(7) == ["suspect"]


def test_a_suspect_that_only_waits_wakes_no_handle(workers: Sequence[Worker], connection: Connection) -> None:
    """The handle that passed it sleeps; a later item wakes a handle, but not the one that empties itself."""
    first, second, _ = workers
    first.queue.add("suspect")
    suspect(connection, "suspect")
    assert first.turn(1) == []
    assert second.turn(1) == []
    assert connection.execute("LLEN", WAKE) == 0
    first.queue.add("item")
    assert connection.execute("LLEN", WAKE) == 1
    first.queue.wait(0.05)
    assert connection.execute("LLEN", WAKE) == 1
    assert first.turn(0) == []
    assert second.turn(0) == ["item"]


def test_a_kill_after_a_request_to_stop_is_no_crash(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Its items come back without blame: Kubernetes killed it since the grace period was over."""
    stopping, dying, other = make_queue(), make_queue(), make_queue()
    stopping.add("slow", "poison")
    slow, poison = stopping.get(0), dying.get(0)
    assert (slow.key, poison.key) == ("slow", "poison")
    stopping.announce_stop()
    beat(stopping)
    other.turn([], 0)
    server_time.lapse(other)
    assert [request.key for request in other.turn([], 5).requests] == ["slow", "poison"]
    assert connection.execute("HGET", FAILURES, "poison") == f"0 1 0 -@{poison.fence} ".encode()
    assert connection.execute("HGET", FAILURES, "slow") is None


def test_a_stop_is_announced_with_the_next_heartbeat(queue: Queue) -> None:
    """Within two seconds, and once."""
    queue.turn([], 0)
    worker = queue._session.client.worker
    assert not worker.has_news()
    queue.announce_stop()
    assert worker.has_news()
    beat(queue)
    assert not worker.has_news()


DAY = 24 * 3600


def crash(make_queue: Make, server_time: ServerTime, living: Queue) -> int:
    """Let a process die of the first item; return the fence of its claim."""
    (request,) = make_queue().turn([], 1).requests
    server_time.lapse(living)
    living.turn([], 0)
    return request.fence


def test_crashes_count_for_three_days(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """An item that loses its worker now and then, as nodes die, is not dead for it."""
    living = make_queue()
    living.turn([], 0)
    living.add("a")
    first = crash(make_queue, server_time, living)
    server_time.advance(2 * DAY)
    beat(living)
    second = crash(make_queue, server_time, living)
    assert connection.execute("HGET", FAILURES, "a") == f"0 2 0 -@{first},{second} ".encode()
    server_time.advance(2 * DAY)
    beat(living)
    third = crash(make_queue, server_time, living)
    assert connection.execute("HGET", FAILURES, "a") == f"0 2 0 -@{second},{third} ".encode()
    assert [item.state for item in Inspector(connection).items("foos")] == ["ready"]
    fourth = crash(make_queue, server_time, living)
    (item,) = Inspector(connection).items("foos", state="dead")
    assert (item.reason, item.last_error) == ("crashes", "its workers died 3 times")
    record = connection.execute("HGET", FAILURES, "a")
    assert f" crashes@{second},{third},{fourth} ".encode() in record


def test_a_suspect_is_none_three_days_later(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """It is claimed beside others again."""
    living = make_queue()
    living.turn([], 0)
    living.add("a", "b")
    for _ in range(2):
        crash(make_queue, server_time, living)
    assert [request.key for request in make_queue().turn([], 2).requests] == ["a"]
    server_time.lapse(living)
    Inspector(connection).requeue("foos", "a")
    for _ in range(2):
        crash(make_queue, server_time, living)
    server_time.advance(3 * DAY)
    beat(living)
    assert sorted(request.key for request in living.turn([], 2).requests) == ["a", "b"]


def test_crashes_that_0_1_0_counted_have_no_time_and_count(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Until the item succeeds, or a person requeues it, as there."""
    living = make_queue()
    living.turn([], 0)
    living.add("a")
    suspect(connection, "a")
    crash(make_queue, server_time, living)
    assert [item.reason for item in Inspector(connection).items("foos", state="dead")] == ["crashes"]


@pytest.mark.parametrize("end", ["fails", "is parked", "is parked by hand"])
def test_a_failure_keeps_when_crashes_were(
    make_queue: Make, connection: Connection, server_time: ServerTime, end: str
) -> None:
    """An item that then fails, or is dead, is no suspect for ever, and its crashes are not forgotten."""
    living = make_queue()
    living.turn([], 0)
    living.add("a")
    fence = crash(make_queue, server_time, living)
    if end == "is parked by hand":
        Inspector(connection).park("foos", "a", reason="why")
    else:
        living.settle(living.get(0), TerminalError("no") if end == "is parked" else ValueError("no"))
    reason = {"fails": "-", "is parked": "terminal", "is parked by hand": "parked"}[end]
    assert f" {reason}@{fence} ".encode() in connection.execute("HGET", FAILURES, "a")


def test_an_item_that_a_lost_session_still_held_is_no_crash_either(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """A hundred items are taken back at a time; a session that comes back in the middle clears all."""
    frozen, living = make_queue(), make_queue()
    frozen.add(*(f"item {number:03}" for number in range(250)))
    assert len(frozen.turn([], 250).requests) == 250
    living.turn([], 0)
    server_time.lapse(living)
    assert connection.execute("HLEN", FAILURES) == 200
    assert not beat(frozen)
    assert connection.execute("HLEN", FAILURES) == 0
    server_time.advance(1)
    beat(living)
    assert connection.execute("ZCARD", READY) == 250
    assert connection.execute("HLEN", FAILURES) == 0


def test_a_handle_that_is_closed_after_its_session_lapsed_reports_that_it_lives(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Asked to stop as the first thing after a freeze."""
    frozen, living = make_queue(), make_queue()
    frozen.add("a")
    frozen.get(0)
    living.turn([], 0)
    server_time.lapse(living)
    assert connection.execute("HLEN", FAILURES) == 1
    frozen.close()
    assert connection.execute("HLEN", FAILURES) == 0


def test_where_redis_fails_just_then_it_is_said_with_the_next_session(
    make_queue: Make, connection: Connection, server_time: ServerTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that its process survived stays a crash for want of an answer."""
    frozen, living = make_queue(), make_queue()
    frozen.add("a")
    frozen.get(0)
    living.turn([], 0)
    server_time.lapse(living)
    run = QueueStore.run

    def fail(store: QueueStore, script: str, *meanwhile: Meanwhile, **inputs: Any) -> Any:
        if script == "forgive":
            raise RedisUnavailable("no answer")
        return run(store, script, *meanwhile, **inputs)

    with monkeypatch.context() as patch:
        patch.setattr(QueueStore, "run", fail)
        assert not beat(frozen)
    assert connection.execute("HLEN", FAILURES) == 1
    frozen.turn([], 1)
    assert connection.execute("HLEN", FAILURES) == 0


def test_nothing_is_forgiven_for_others(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """A process that lives on clears its own claims: a crash of another process stays."""
    living = make_queue()
    living.turn([], 0)
    living.add("a")
    fence = crash(make_queue, server_time, living)
    frozen = make_queue()
    assert frozen.get(0).key == "a"
    server_time.lapse(living)
    living.turn([], 0)
    assert not beat(frozen)
    assert connection.execute("HGET", FAILURES, "a") == f"0 1 0 -@{fence} ".encode()
