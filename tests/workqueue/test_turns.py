"""Turns that settle much: they go in parts, so that no script keeps the server for long."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from distq.errors import RedisUnavailable
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.limits import COSTLY_LIMIT
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Outcome, Release, Retry, Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from distq.workqueue.turns import parts
from tests.support.redis_servers import anywhere


class Turns(Connection):
    """A connection that counts turns, and loses the reply of one when asked to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.turns = 0
        self.lost = 0
        """Say which of the next turns loses its reply; 1 is the next."""

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Let the server do it, and perhaps lose the reply."""
        reply = super().evaluate(source, sha, arguments, *meanwhile)
        if sha == scripts.load("turn").sha:
            self.turns += 1
            self.lost -= 1
            if self.lost == 0:
                raise RedisUnavailable("the reply was lost")
        return reply


@pytest.fixture
def turns(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Turns]:
    """Give a connection that counts turns, to the emptied database."""
    turns = Turns(redis_server.url)
    turns.server_time = connection.server_time
    yield turns
    turns.close()


def _holding(connection: Connection, items: int) -> tuple[Queue, Sequence[Request]]:
    """Return a queue that holds some items, and has one more."""
    queue = Queue("foos", connection)
    queue.add(*[f"item-{number:03}" for number in range(items + 1)])
    return queue, queue.turn([], items).requests


def _settlements(requests: Sequence[Request]) -> list[Settlement]:
    """Settle every fifth with success, the others with failures and releases by turns."""
    outcomes: list[Outcome] = [
        Success(),
        Retry("boom", delay=60),
        Release(),
        Retry("boom", delay=60),
        Release(),
    ]
    return [Settlement(request, outcomes[place % 5]) for place, request in enumerate(requests)]


def test_much_is_settled_in_parts(turns: Turns) -> None:
    """Each disposition is that of its settlement, and the last part claims."""
    queue, requests = _holding(turns, 250)
    turns.turns = 0
    turn = queue.turn(_settlements(requests), 1)
    assert [disposition.kind for disposition in turn.dispositions] == 50 * [
        "ended",
        "delayed",
        "pending",
        "delayed",
        "pending",
    ]
    assert len(turn.requests) == 1
    assert turns.turns == 200 / COSTLY_LIMIT
    assert len(queue.turn([], 250).requests) == 100  # the released, and the one more
    queue.close()


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_reply_that_is_lost_between_the_parts_is_asked_for_again(turns: Turns, lost: int) -> None:
    """Called again with the same settlements, each gets its disposition exactly once."""
    queue, requests = _holding(turns, 250)
    settlements = _settlements(requests)
    turns.lost = lost
    with pytest.raises(RedisUnavailable):
        queue.turn(settlements, 0)
    turn = queue.turn(settlements, 0)
    assert [disposition.kind for disposition in turn.dispositions] == 50 * [
        "ended",
        "delayed",
        "pending",
        "delayed",
        "pending",
    ]
    assert {disposition.kind for disposition in queue.turn(settlements, 0).dispositions} == {"refused"}
    queue.close()


@pytest.mark.bound("COSTLY_LIMIT")
def test_successes_need_no_parts() -> None:
    """They are many and cheap."""
    requests = [Request(f"item-{number}") for number in range(250)]
    quick = [Settlement(request, Success()) for request in requests]
    assert parts(quick) == [quick]
    assert parts([]) == [[]]
    slow = [Settlement(request, Release()) for request in requests]
    assert [len(part) for part in parts(slow)] == 250 // COSTLY_LIMIT * [COSTLY_LIMIT]


@anywhere
def test_of_two_settlements_of_one_claim_in_a_turn_the_first_counts(make_queue: Callable[..., Queue]) -> None:
    """And the other is refused, so that two threads that settle it at once learn who did."""
    queue = make_queue()
    queue.add("a")
    request = queue.get(0)
    failed, succeeded = queue.turn(
        [Settlement(request, Retry("no", delay=60)), Settlement(request, Success())], 0
    ).dispositions
    assert (failed.kind, succeeded.kind) == ("delayed", "refused")
    assert queue.num_requeues("a") == 1
