"""The rules of a queue's structures at any moment, after any calls."""

import random
from collections.abc import Callable

import pytest

from distq.errors import TerminalError
from distq.inspector.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.workqueue.conftest import ServerTime

Make = Callable[..., Queue]

OUTCOMES = (None, Result(requeue_after=1), ValueError("no"), TerminalError("never"), KeyboardInterrupt())


class Walk:
    """Random calls of two handles, the Inspector and the clock, over few items."""

    def __init__(self, make_queue: Make, connection: Connection, time: ServerTime, seed: int) -> None:
        self._choose = random.Random(seed)
        self._handles = [make_queue(max_retries=2), make_queue(max_retries=2)]
        self._held: list[list[Request]] = [[], []]
        self._keys = [f"key {number}" for number in range(8)]
        self._inspector = Inspector(connection)
        self._time = time
        self._handles[0].add(self._keys[0])  # so that the queue exists

    def step(self) -> str:
        """Make one call, and return its name."""
        calls = [self._add, self._add, self._claim, self._claim, self._settle, self._settle, self._wait]
        calls += [self._fail, self._forget, self._repair, self._close]
        call = self._choose.choices(calls, [4] * 7 + [2, 1, 1, 1])[0]
        call()
        return call.__name__

    def _add(self) -> None:
        after = self._choose.choice([None, None, 0.5, 2])
        keys = self._choose.sample(self._keys, 2)
        self._choose.choice(self._handles).add(*keys, priority=self._choose.randrange(-2, 3), after=after)

    def _claim(self) -> None:
        number = self._choose.randrange(2)
        self._held[number] += self._handles[number].turn([], 2).requests

    def _settle(self) -> None:
        number = self._choose.randrange(2)
        if self._held[number]:
            request = self._held[number].pop(self._choose.randrange(len(self._held[number])))
            assert self._handles[number].settle(request, self._choose.choice(OUTCOMES))

    def _fail(self) -> None:
        self._handles[0].add_rate_limited(self._choose.choice(self._keys))

    def _forget(self) -> None:
        self._handles[0].forget(self._choose.choice(self._keys))

    def _repair(self) -> None:
        repairs: list[Callable[..., int]]
        repairs = [self._inspector.requeue, self._inspector.delete, self._inspector.park]
        self._choose.choice(repairs)("foos", *self._choose.sample(self._keys, 2))

    def _wait(self) -> None:
        self._time.advance(self._choose.random())

    def _close(self) -> None:
        number = self._choose.randrange(2)
        self._handles[number].close()
        self._held[number].clear()


def members(connection: Connection, name: str) -> set[bytes]:
    """Return the items of one structure."""
    hashes = {"claims", "failures"}
    key = f"distq:{{foos}}:{name}"
    return set(
        connection.execute("HKEYS", key) if name in hashes else connection.execute("ZRANGE", key, 0, -1)
    )


@pytest.mark.conformance("WQ-13", "RD-15")
@pytest.mark.parametrize("seed", range(5))
def test_every_item_is_in_one_place_after_every_call(
    make_queue: Make, connection: Connection, server_time: ServerTime, seed: int
) -> None:
    """One pending entry, one claim; a held item is never ready, and only a held item is dirty."""
    walk = Walk(make_queue, connection, server_time, seed)
    for _ in range(200):
        call = walk.step()
        names = ("ready", "suspects", "dirty", "processing", "claims", "delayed", "failures", "dead")
        state = {name: members(connection, name) for name in names}
        assert not state["ready"] & state["suspects"], call
        state["ready"] |= state.pop("suspects")
        assert not state["ready"] & state["processing"], call
        assert state["dirty"] <= state["processing"], call
        assert state["claims"] == state["processing"], call
        assert not state["delayed"] & (state["ready"] | state["dirty"]), call
        live = state["ready"] | state["delayed"] | state["processing"]
        assert not state["dead"] & live, call
        assert state["failures"] <= live | state["dead"], call
