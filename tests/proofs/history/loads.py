"""Short loads on a real server whose histories are checked: in one process, by a clock that is moved by hand.

So a load makes the same calls each time, on every machine.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import LAYOUT
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.leading import Scene
from tests.proofs.history.checker import check
from tests.proofs.history.recorder import Recorder
from tests.proofs.history.records import Interval, Violation
from tests.support.api_servers import EmulatedServer
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.workqueue.conftest import SteppedClock, beat
from tests.workqueue.test_history import Copy

BEGIN = 1_795_000_000_000_000
SECOND = 1_000_000
_OUTCOMES = ("success", "success", "success", "done", "after", "keep", "release", "retry")


class Clients:
    """Three sessions of one queue that add, claim and settle at random."""

    def __init__(self, connection: Connection, seed: int, *, limit: int | None = None) -> None:
        self._connection = connection
        connection.execute("FLUSHALL")
        connection.server_time = BEGIN
        self.store = QueueStore(connection, "foos")
        self._limit = limit
        if limit is not None:
            self.store.share("namespace")
        self._choose = random.Random(seed)
        self._sessions = [self._open(number) for number in range(3)]
        self._turns = 0
        self._held: list[dict[bytes, bytes]] = [{}, {}, {}]

    def _open(self, number: int) -> bytes:
        times = {"claim_duration": 3600 * SECOND, "max_clock_step": SECOND}
        opened = self.store.run("open", layout=LAYOUT, nonce=f"n{number}", worker="{}", **times)
        assert isinstance(opened, bytes)
        return opened

    def step(self, *, may_fail: bool) -> None:
        """Let some time pass and make a few calls; without failures the busy path is taken."""
        self._connection.server_time += self._choose.choice([300, 900, 50_000])
        items = [
            f"{'' if self._limit is None else f'flow-{number % 4}/'}item-{number}"
            for number in self._choose.sample(range(30), 3)
        ]
        inputs: dict[str, Any] = {"items": items, "priority": self._choose.randrange(-1, 2), "max_length": ""}
        if self._choose.random() < 0.3:
            self.store.run("add_after", **inputs, delay=self._choose.choice([1000, 2500, 40_000]))
        else:
            self.store.run("add", **inputs)
        who = self._choose.randrange(3)
        self.turn(who, self._settlements(who, may_fail=may_fail), want=3)

    def drain(self) -> None:
        """Settle and claim until nothing is left."""
        for _ in range(60):
            self._connection.server_time += SECOND
            for who in range(3):
                self.turn(who, [(item, fence, "success") for item, fence in self._held[who].items()], want=50)

    def _settlements(self, who: int, *, may_fail: bool) -> list[tuple[bytes, bytes, str]]:
        """Choose how what is held ends."""
        held = list(self._held[who].items())[:4]
        outcomes = _OUTCOMES if may_fail else [how for how in _OUTCOMES if how != "retry"]
        return [(item, fence, self._choose.choice(outcomes)) for item, fence in held]

    def turn(self, who: int, endings: Sequence[tuple[bytes, bytes, str]], want: int) -> bytes:
        """Settle, each item by its fence and as it is to end, and claim; return the fence."""
        self._turns += 1
        successes = [word for item, fence, how in endings if how == "success" for word in (item, fence)]
        limiters = {"after": "fixed 30000", "keep": "fixed 30000", "retry": "fixed 20000"}
        others = [
            word
            for item, fence, how in endings
            if how != "success"
            for word in (item, fence, how, limiters.get(how, ""), "", "boom" if how == "retry" else "")
        ]
        policy = {
            "max_retries": "",
            "revive_after": "",
            "limiter": "fixed 20000",
            "fleet_concurrency": "",
            "fleet_concurrency_per_flow": self._limit or "",
        }
        reply: Any = self.store.run(
            "turn",
            session=self._sessions[who],
            op=self._turns,
            after="",
            want=want,
            max_clock_step=SECOND,
            n_ok=len(successes) // 2,
            settlements=[*successes, *others],
            **policy,
        )
        for item, fence, _ in endings:
            if self._held[who].get(item) == fence:
                del self._held[who][item]
        self._held[who].update(dict.fromkeys(reply[5][::2], reply[0]))
        return bytes(reply[0])


def claims_and_delays(connection: Connection) -> list[Violation]:
    """Add, claim, settle, delay and fail at random; then all is worked off."""
    violations: list[Violation] = []
    for seed, may_fail in ((1, False), (2, True)):
        clients = Clients(connection, seed)
        recorder = Recorder(clients.store)
        recorder.start()
        for _ in range(250):
            clients.step(may_fail=may_fail)
        clients.drain()
        violations += check(recorder.finish(), drained=True)
    return violations


def limited_flows(connection: Connection) -> list[Violation]:
    """Do the same with one claim of each flow at a time."""
    clients = Clients(connection, 3, limit=1)
    recorder = Recorder(clients.store)
    recorder.start()
    for _ in range(150):
        clients.step(may_fail=True)
    clients.drain()
    return check(recorder.finish(), drained=True)


def zombie(connection: Connection) -> list[Violation]:
    """Settle a claim that was released, after the same session claimed the item once more."""
    clients = Clients(connection, 0)
    recorder = Recorder(clients.store)
    recorder.start()
    clients.store.run("add", items=["x"], priority=0, max_length="")
    former = clients.turn(0, [], want=1)
    clients.turn(0, [(b"x", former, "release")], want=0)
    clients.turn(0, [], want=1)
    clients.turn(0, [(b"x", former, "success")], want=0)
    return check(recorder.finish())


def two_leaders(connection: Connection) -> list[Violation]:
    """Let a leader go on from where it was before another led."""
    connection.execute("FLUSHALL")
    connection.server_time = BEGIN
    recorder = Recorder(QueueStore(connection, "foos"))
    recorder.start()
    stream = StreamStore(connection, "foos", "pods")
    stream.commit(Commit(epoch="1", after="", new="10", batch="a1", keys=["a"], known={"a": "10"}))
    stream.commit(Commit(epoch="1", after="a1", new="12", batch="b1", keys=["b"], known={"b": "12"}))
    stream.commit(Commit(epoch="1", after="a1", new="11", batch="a2", keys=["c"], known={"c": "11"}))
    return check(recorder.finish())


def relist(connection: Connection) -> list[Violation]:
    """Let a second leader list anew what has not changed since the first one led."""
    connection.execute("FLUSHALL")
    connection.server_time = 0
    with EmulatedServer() as server:
        client = server.client()
        scene = Scene(server.kubeconfig, connection, "default", server)
        recorder = Recorder(QueueStore(connection, "foos"))
        recorder.start()
        client.create(config_map("default", "a"))
        client.create(config_map("default", "b"))
        with scene.leading():
            eventually(lambda: scene.has("a", "b"))
        scene.take()
        client.create(config_map("default", "c"))
        scene.expire()
        with scene.leading(epoch="2") as leader:
            eventually(lambda: leader.stream.lists == 1)
        return check(recorder.finish())


# Handlers: their moments are steps of the scene


class Handler:
    """A run of an item, which ends when its request is cancelled, and else with the scene."""

    def __init__(self, request: Request, began: float, who: str) -> None:
        self._run = Interval(request.key, request.fence, began, None, who)
        self._request = request

    def look(self, now: float) -> None:
        """End where the request was cancelled by now."""
        if self._run.ended is None and self._request.cancelled.is_set():
            self._run = self._run._replace(ended=now)

    def ended(self, now: float) -> Interval:
        """Return the run, over by now."""
        return self._run if self._run.ended is not None else self._run._replace(ended=now)


@contextmanager
def handles(connection: Connection, *clocks: SteppedClock) -> Iterator[list[Queue]]:
    """Give a handle for each clock, on an empty server whose clock the load moves."""
    connection.execute("FLUSHALL")
    connection.server_time = BEGIN
    made = [Queue("foos", connection, clock=clock) for clock in clocks]
    try:
        yield made
    finally:
        for handle in made:
            with suppress(Exception):
                handle.close()


def rollback(connection: Connection) -> list[Violation]:
    """Redis goes back to where a worker held another item, and another worker gets the one it holds now."""
    with handles(connection, SteppedClock(), SteppedClock()) as (one, other):
        recorder = Recorder(QueueStore(connection, "foos"))
        recorder.start()
        one.add("x", "y")
        first = one.get(0)
        recorder.poll()
        copy = Copy(connection)
        (second,) = one.turn([Settlement(first, Success())], 1).requests
        recorder.poll()
        mine = Handler(second, 1.0, "one")
        copy.restore()
        recorder.poll()
        theirs = Handler(other.get(0), 2.0, "other")
        beat(one)  # within a heartbeat after Redis went back
        mine.look(3.0)
        return check(recorder.finish(), intervals=[mine.ended(30.0), theirs.ended(30.0)], overlap=1.0)


def cut_off(connection: Connection) -> list[Violation]:
    """No heartbeat of a worker reaches Redis, and another worker takes over when its session lapses."""
    clock = SteppedClock()
    with handles(connection, clock, SteppedClock()) as (one, other):
        recorder = Recorder(QueueStore(connection, "foos"))
        recorder.start()
        other.turn([], 0)
        one.add("x")
        mine, taken = Handler(one.get(0), 0.0, "one"), None
        heartbeat = one._session._heartbeat
        assert heartbeat is not None
        heartbeat.stop()
        for now in range(1, 61):
            clock.ahead += 1.0
            connection.server_time += SECOND
            mine.look(now)
            beat(other)
            turn = other.turn([], 1)
            if turn.requests and taken is None:
                taken = Handler(turn.requests[0], now, "other")
        assert taken is not None, "no handle took over"
        return check(recorder.finish(), intervals=[mine.ended(60.0), taken.ended(60.0)])


Load = Callable[[Connection], list[Violation]]
LOADS: Sequence[Load] = (claims_and_delays, zombie, two_leaders, relist, rollback, cut_off)
