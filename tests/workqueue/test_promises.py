"""The promises of the package, by their names, on every server."""

import itertools
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from distq.errors import Empty, RetryAfter, TerminalError
from distq.redisio.connection import Connection
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import BucketRateLimiter
from distq.workqueue.request import Request
from tests.workqueue.conftest import ServerTime

Make = Callable[..., Queue]

_WORK = ("ready", "suspects", "dirty", "processing", "claims", "delayed", "failures")


def _sizes(connection: Connection, *names: str) -> dict[str, int]:
    keys = {name: f"distq:{{foos}}:{name}" for name in names}
    hashes = {"claims", "failures", "workers"}
    return {
        name: connection.execute("HLEN" if name in hashes else "ZCARD", key) for name, key in keys.items()
    }


def _nothing_to_claim(queue: Queue) -> bool:
    try:
        queue.get(timeout=0)
    except Empty:
        return True
    return False


@pytest.mark.conformance("WQ-04")
def test_stingy_an_item_added_many_times_is_processed_once(queue: Queue) -> None:
    """Adds before the claim collapse into one."""
    assert queue.add("a") == 1
    assert queue.add("a", "a", "b") == 1
    assert queue.depth() == 2
    assert [queue.get(0).key, queue.get(0).key] == ["a", "b"]
    assert _nothing_to_claim(queue)


@pytest.mark.conformance("WQ-05", "WQ-12")
def test_exclusive_an_item_has_one_live_claim(make_queue: Make) -> None:
    """An item added while claimed is handed to no worker until the claim ends."""
    one, other = make_queue(), make_queue()
    one.add("a")
    request = one.get(0)
    other.add("a")
    assert other.is_dirty("a")
    assert _nothing_to_claim(other)
    assert one.settle(request)
    assert other.get(0).key == "a"


@pytest.mark.conformance("WQ-05", "WQ-11")
@pytest.mark.parametrize("outcome", [None, ValueError("no"), Result(requeue_after=60)])
def test_not_forgotten_an_item_added_while_claimed_is_processed_again(
    queue: Queue, outcome: Result | BaseException | None
) -> None:
    """However the claim ends, the newer event is served at once."""
    queue.add("a")
    request = queue.get(0)
    queue.add("a")
    assert queue.settle(request, outcome)
    assert queue.get(0).key == "a"


@pytest.mark.conformance("WQ-15", "PQ-02")
def test_fair_higher_priority_first_then_in_order_of_becoming_pending(queue: Queue) -> None:
    """Priorities order items; within one, the first to wait is the first served."""
    queue.add("a", "b")
    queue.add("low", priority=-100)
    queue.add("high", priority=900)
    queue.add("b", priority=5)
    assert [queue.get(0).key for _ in range(4)] == ["high", "b", "a", "low"]


def test_fair_an_item_keeps_its_place_through_release(queue: Queue) -> None:
    """A released item goes back to where it was."""
    queue.add("a", "b")
    request = queue.get(0)
    assert queue.release(request)
    assert [queue.get(0).key, queue.get(0).key] == ["a", "b"]


@pytest.mark.conformance("DQ-02", "DQ-03", "RD-07")
def test_never_early_a_delayed_item_waits_for_the_servers_clock(
    queue: Queue, server_time: ServerTime
) -> None:
    """Not a ms before its time, and of several delays the earliest counts."""
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 7)
    server_time.advance(4.999)
    assert queue.depth() == 0
    assert _nothing_to_claim(queue)
    server_time.advance(0.001)
    assert queue.depth() == 1
    assert queue.get(0).key == "a"
    server_time.advance(10)
    assert _nothing_to_claim(queue)


@pytest.mark.conformance("RD-01", "RD-02")
def test_crash_safe_the_items_of_a_dead_worker_come_back_and_its_zombie_is_refused(
    make_queue: Make, server_time: ServerTime
) -> None:
    """A silent session lapses after the claim duration; its later calls change nothing."""
    dead, living = make_queue(), make_queue()
    dead.add("a", "b")
    request = dead.get(0)
    assert living.get(0).key == "b"
    server_time.lapse(living)
    back = living.get(0)
    assert back.key == "a"
    assert not dead.settle(request, ValueError("zombie"))
    assert request.cancelled.is_set()
    assert living.num_requeues("a") == 0
    assert living.settle(back)


@pytest.mark.conformance("WQ-D2", "RD-03")
def test_crash_safe_a_settled_claim_cannot_be_settled_again(queue: Queue) -> None:
    """The second settlement answers False and changes nothing, also once the item is claimed anew."""
    queue.add("a")
    first = queue.get(0)
    assert queue.settle(first)
    assert not queue.settle(first)
    queue.add("a")
    second = queue.get(0)
    assert not queue.done(first)
    assert queue.settle(second)


@pytest.mark.conformance("WQ-22")
def test_bounded_state_nothing_is_left_of_work_that_is_done(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """After successes, failures and delays all structures are empty, and sessions end with their handles."""
    one, other = make_queue(), make_queue()
    one.add(*(f"k{number}" for number in range(50)))
    for number, queue in zip(range(50), itertools.cycle([one, other]), strict=False):
        request = queue.get(0)
        queue.settle(request, ValueError("later") if number % 3 == 0 else None)
    server_time.advance(1)
    while not _nothing_to_claim_and_settle(one):
        pass
    assert _sizes(connection, *_WORK, "dead") == dict.fromkeys((*_WORK, "dead"), 0)
    assert connection.execute("LLEN", "distq:{foos}:wake") <= 1
    assert _sizes(connection, "sessions", "workers") == {"sessions": 2, "workers": 2}
    one.close()
    other.close()
    assert _sizes(connection, "sessions", "workers") == {"sessions": 0, "workers": 0}


def _nothing_to_claim_and_settle(queue: Queue) -> bool:
    try:
        queue.settle(queue.get(timeout=0))
    except Empty:
        return True
    return False


@pytest.mark.conformance("RL-01")
def test_back_off_is_shared_failures_count_across_handles(make_queue: Make, server_time: ServerTime) -> None:
    """Each handle's failure continues the item's back-off: 5, 10, 20 ms; success forgets it."""
    handles = [make_queue(), make_queue()]
    handles[0].add("a")
    for attempt, queue in zip(range(1, 4), itertools.cycle(handles), strict=False):
        request = queue.get(0)
        assert request.attempt == attempt
        queue.settle(request, ValueError("again"))
        server_time.advance(0.005 * 2 ** (attempt - 1) - 0.001)
        assert _nothing_to_claim(queue)
        server_time.advance(0.001)
    assert handles[0].settle(handles[0].get(0))
    assert handles[1].num_requeues("a") == 0


@pytest.mark.conformance("RD-12")
def test_back_off_is_shared_a_bucket_belongs_to_the_queue(make_queue: Make, server_time: ServerTime) -> None:
    """Two handles with the same bucket take from the same tokens."""
    limiter = BucketRateLimiter(qps=1, burst=2)
    handles = [make_queue(rate_limiter=limiter), make_queue(rate_limiter=limiter)]
    for number in range(4):
        handles[number % 2].add_rate_limited(f"k{number}")
    assert [handles[0].get(0).key, handles[1].get(0).key] == ["k0", "k1"]
    server_time.advance(1)
    assert handles[0].get(0).key == "k2"
    assert _nothing_to_claim(handles[1])
    server_time.advance(1)
    assert handles[0].get(0).key == "k3"


def test_poison_is_dead_after_max_retries_and_revived_by_a_new_event(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """After failures beyond max_retries the item is dead with its error; an add gives it another try."""
    queue = make_queue(max_retries=1)
    queue.add("a")
    queue.settle(queue.get(0), _raised(ValueError("first")))
    server_time.advance(1)
    queue.settle(queue.get(0), _raised(ValueError("second")))
    server_time.advance(3600)
    assert _nothing_to_claim(queue)
    assert _sizes(connection, "dead", "failures") == {"dead": 1, "failures": 1}
    record = connection.execute("HGET", "distq:{foos}:failures", "a").decode()
    assert " retries ValueError: second\nTraceback" in record
    queue.add("a")
    request = queue.get(0)
    assert (request.key, request.attempt) == ("a", 3)
    assert queue.settle(request)
    assert _sizes(connection, *_WORK, "dead") == dict.fromkeys((*_WORK, "dead"), 0)


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error):
        return error


@pytest.mark.conformance("RD-19")
def test_poison_is_dead_at_once_after_a_terminal_error(queue: Queue, connection: Connection) -> None:
    """A TerminalError is not retried, and a newer event that is pending keeps the item alive."""
    queue.add("a", "b")
    queue.settle(queue.get(0), TerminalError("never"))
    request = queue.get(0)
    queue.add("b")
    queue.settle(request, TerminalError("never, but it changed"))
    assert _sizes(connection, "dead", "ready") == {"dead": 1, "ready": 1}
    assert queue.get(0).key == "b"


def test_poison_that_kills_its_workers_is_dead_and_kills_no_siblings(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """From the second lapse an item is handed out alone; at the third it becomes dead."""
    living = make_queue()
    living.turn([], 0)
    living.add("poison")
    for crash in range(3):
        living.add("sibling")
        dying = make_queue()
        taken = list(dying.turn([], 5).requests)
        assert [request.key for request in taken][:1] == ["poison"]
        if crash == 2:
            assert len(taken) == 1
            assert not dying.turn([], 5).requests
        server_time.lapse(living)
        for request in list(living.turn([], 5).requests):
            if request.key != "poison":
                living.settle(request)
            else:
                living.release(request)
    assert _sizes(connection, "dead", "ready", "processing") == {"dead": 1, "ready": 0, "processing": 0}
    record = connection.execute("HGET", "distq:{foos}:failures", "poison")
    assert b" crashes@" in record
    assert record.endswith(b" its workers died 3 times")


def test_an_outage_of_all_workers_is_no_crash(
    make_queue: Make, connection: Connection, server_time: ServerTime
) -> None:
    """Sessions that lapse while no session lives point to Redis or the network, not to their items."""
    make_queue().add("a")
    for _ in range(4):
        assert make_queue().get(0).key == "a"
        for _ in range(4):
            server_time.advance(10)
            looking = make_queue()
            looking.turn([], 0)
            looking.close()
    assert _sizes(connection, "ready", "failures") == {"ready": 1, "failures": 0}


def test_a_requested_retry_counts_a_failure_and_waits_as_requested(
    queue: Queue, server_time: ServerTime
) -> None:
    """RetryAfter replaces the limiter's delay and nothing else."""
    queue.add("a")
    queue.settle(queue.get(0), RetryAfter(60, "slow down"))
    assert queue.num_requeues("a") == 1
    server_time.advance(59.9)
    assert _nothing_to_claim(queue)
    server_time.advance(0.1)
    assert queue.get(0).attempt == 2


def test_after_a_fork_the_parents_claims_are_the_parents(queue: Queue) -> None:
    """A child's settlement of a parent's request answers False and changes nothing."""
    queue.add("a", "b")
    request = queue.get(0)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = not queue.settle(request) and queue.get(0).key == "b"
            queue.close()
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert queue.settle(request)


@pytest.mark.conformance("WQ-D2", "RD-02")
def test_two_requests_of_one_key_differ_by_their_fence(queue: Queue) -> None:
    """A forged or stale fence settles nothing."""
    queue.add("a")
    request = queue.get(0)
    assert not queue.settle(replace(request, fence=request.fence + 1))
    assert not queue.settle(Request("b", fence=request.fence))
    assert queue.settle(request)
