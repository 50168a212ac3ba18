"""A Redis that goes back to an older copy of a queue: holders are compared at once; on every server."""

from collections.abc import Callable
from typing import Any

import pytest

from distq.redisio.connection import Connection
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.workqueue.conftest import beat

Make = Callable[..., Queue]


_RESTORE = """
redis.call('FLUSHALL')
for i = 1, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end
"""


class Copy:
    """All of a server, as a replica may have it that is behind."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dumps: dict[bytes, Any] = {
            key: connection.execute("DUMP", key) for key in connection.execute("KEYS", "*")
        }

    def restore(self) -> None:
        """Let the server go back, in one step: a heartbeat in between would write to an empty server."""
        words = [word for dumped in self._dumps.items() for word in dumped]
        self._connection.execute("EVAL", _RESTORE, 0, *words)


def _swapped(queue: Queue, connection: Connection) -> tuple[Copy, Request]:
    """Let a handle hold x, and later y in its place; return the copy from before, and its claim on y."""
    queue.add("x", "y")
    first = queue.get(0)
    copy = Copy(connection)
    (second,) = queue.turn([Settlement(first, Success())], 1).requests
    assert (first.key, second.key) == ("x", "y")
    return copy, second


def test_a_claim_that_redis_forgot_is_cancelled_by_the_next_heartbeat(
    make_queue: Make, connection: Connection
) -> None:
    """As many claims as before, yet others: another worker has one of ours by then."""
    queue, other = make_queue(), make_queue()
    copy, forgotten = _swapped(queue, connection)
    copy.restore()
    taken = other.get(0)
    assert taken.key == "y"
    beat(queue)
    assert forgotten.cancelled.is_set()
    assert not queue.held()
    assert other.get(0).key == "x", "it was settled, and Redis does not know"
    assert other.settle(taken)


def test_a_busy_session_compares_its_claims_with_its_next_turn(
    make_queue: Make, connection: Connection
) -> None:
    """Its heartbeats find a turn under way each time; an item settled before, and held again, goes back."""
    queue, other = make_queue(), make_queue()
    settled = [f"settled {number:03}" for number in range(138)]
    queue.add(*settled, "kept")
    queue.add("more", priority=-1)
    *requests, kept = queue.turn([], 139).requests
    copy = Copy(connection)
    queue.turn([Settlement(request, Success()) for request in requests], 0)
    copy.restore()
    turn = queue.turn([Settlement(kept, Success())], 0)
    assert [disposition.kind for disposition in turn.dispositions] == ["ended"]
    assert not kept.cancelled.is_set()
    assert not queue.held()
    assert [request.key for request in other.turn([], 140).requests] == [*settled, "more"]


def test_a_claim_that_a_redis_that_went_back_still_knows_is_kept(
    make_queue: Make, connection: Connection
) -> None:
    """Its handler runs on, and no other worker gets the item."""
    queue, other = make_queue(), make_queue()
    queue.add("long", "x")
    long, first = queue.turn([], 2).requests
    copy = Copy(connection)
    queue.settle(first)
    copy.restore()
    beat(queue)
    assert not long.cancelled.is_set()
    assert [request.key for request in other.turn([], 5).requests] == ["x"]
    assert queue.settle(long)


@pytest.mark.parametrize("busy", [False, True])
def test_a_redis_that_went_back_costs_its_sessions_nothing_more(
    make_queue: Make, connection: Connection, busy: bool
) -> None:
    """Once compared, heartbeats and turns go on as ever, in the same session."""
    queue = make_queue()
    copy, _ = _swapped(queue, connection)
    session = queue._session
    before = session.id
    copy.restore()
    if busy:
        queue.turn([], 0)
    beat(queue)
    turns = session.client.op
    beat(queue)
    assert session.client.op == turns
    assert session.id == before
    assert queue.get(0).key == "x"


def test_a_failure_that_redis_forgot_is_counted_once_more(make_queue: Make, connection: Connection) -> None:
    """It needs no claim, and the turn that carries another one finds out that Redis went back."""
    queue = make_queue()
    queue.turn([], 0)
    copy = Copy(connection)
    queue.add_rate_limited("a")
    copy.restore()
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 1
