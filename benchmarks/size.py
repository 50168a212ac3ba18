"""Much at once, in short calls: ``python -m benchmarks.size [--quick] [--json]``.

A million items that fall due together, a hundred thousand claims of processes that died together, thousands
of sessions, a million objects of one watch, and many watches of one leader, on a server of its own. Redis
does nothing else while a script runs, so what counts is the longest call. What an item among a million costs
is in ``benchmarks.floor``. Exit code 1 where a bar is missed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import click

from benchmarks import many_watches, servers
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from benchmarks.subjects import MAX_CLOCK_STEP, Consumer, Distq, new_keys
from distq.redisio.commit import Commit
from distq.redisio.limits import BATCH_LIMIT, TURN_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore

LONGEST = 2.0
"""ms"""

DELAY = 60
CLAIM = 30
BETWEEN = 0.1
"""Seconds between heartbeats, so that each looks for what lapsed."""


@dataclass(frozen=True)
class Size:
    """How much there is at once."""

    due: int
    lapsed: int
    sessions: int
    known: int
    watches: int
    objects: int
    """Of all these watches."""


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of all.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", type=click.Choice([*servers.KINDS, "all"]), default="redis7", show_default=True)
def main(quick: bool, as_json: bool, server: str) -> None:
    """Measure what happens where much happens at once."""
    size = Size(1_000_000, 100_000, 2_000, 1_000_000, 50, 5_000)
    if quick:
        size = Size(100_000, 10_000, 500, 100_000, 50, 500)
    rows, versions = servers.measure(server, lambda running: _rows(running, size))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions}))


def _rows(server: Server, size: Size) -> Iterator[Row]:
    server.connection.execute("CONFIG", "SET", "slowlog-log-slower-than", 0)
    for measure in (_plain, _due, _lapsed, _sessions, _known):
        server.connection.execute("FLUSHALL")
        try:
            yield from measure(server, size)
        finally:
            server.connection.server_time = 0
    yield from many_watches.rows(server, size.watches, size.objects)


class _Clocked:
    """A queue whose scripts see a clock of ours, and the CPU time that Redis needs for each call."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._now = server.connection.now()
        self.queue = Distq(server.connection)
        self.took: list[float] = []
        self.wait(0)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._server.connection.server_time = int(self._now * 1e6)

    def timed(self, call: Callable[[], Any]) -> Any:
        """Make a call, and note the milliseconds that its script took: as ``benchmarks.longest`` does."""
        connection = self._server.connection
        connection.execute("SLOWLOG", "RESET")
        begin = self._server.cpu()
        answer = call()
        cpu = self._server.cpu() - begin
        wall = max(entry[2] for entry in connection.execute("SLOWLOG", "GET", 128))
        self.took.append(min(cpu, wall) / 1e3)
        return answer

    def rows(self, what: str, items: int, *, bar: float | None = LONGEST) -> Iterator[Row]:
        """Yield how long the calls were."""
        kind = self._server.kind
        yield Row(f"{kind}: {what}: longest call", max(self.took), "ms", bar)
        yield Row(f"{kind}: {what}: median call", median(self.took), "ms")
        yield Row(f"{kind}: {what}: an item", 1e3 * sum(self.took) / items, "µs")


def _plain(server: Server, size: Size) -> Iterator[Row]:
    """Let Redis write as many members without a script: how long that takes at most is up to the machine."""
    clocked, keys = _Clocked(server), new_keys()
    for number in range(0, size.due, BATCH_LIMIT):
        members = [word for key in islice(keys, BATCH_LIMIT) for word in (number, key)]
        clocked.timed(partial(server.connection.execute, "ZADD", "plain", *members))
    what = f"{size.due:,} members of a sorted set, {BATCH_LIMIT} in each plain ZADD"
    yield from clocked.rows(what, size.due, bar=None)


def _due(server: Server, size: Size) -> Iterator[Row]:
    """Let all delays end in one moment, and work on what was delayed."""
    clocked = _Clocked(server)
    keys = new_keys()
    inputs: dict[str, Any] = {"priority": 0, "max_length": "", "delay": DELAY * 1_000_000}
    for _ in range(0, size.due, BATCH_LIMIT):
        clocked.queue.store.run("add_after", items=list(islice(keys, BATCH_LIMIT)), **inputs)
    clocked.wait(DELAY + 1)
    claimed = 0
    while now := clocked.timed(lambda: clocked.queue.turn(TURN_LIMIT)):
        claimed += now
    assert claimed == size.due, f"claimed {claimed} of {size.due}"
    yield from clocked.rows(f"{size.due:,} items due at once, in turns of {TURN_LIMIT}", claimed)


def _lapsed(server: Server, size: Size) -> Iterator[Row]:
    """Let processes die together that hold claims, and one that lives take all of these back."""
    clocked = _Clocked(server)
    keys, store = new_keys(), clocked.queue.store
    for _ in range(0, size.lapsed, TURN_LIMIT):
        clocked.queue.add(list(islice(keys, TURN_LIMIT)))
        assert len(Consumer(store, claim_duration=CLAIM).turn(TURN_LIMIT)) == TURN_LIMIT
    alive = clocked.queue.consumer.session
    for _ in range(2 * CLAIM // 10):  # a call lets the clock of claims go on by ten seconds at most
        clocked.wait(10)
        clocked.timed(lambda: _heartbeat(store, alive))
    while store.connection.execute("ZCARD", store.key("processing")):
        clocked.wait(BETWEEN)
        clocked.timed(lambda: _heartbeat(store, alive))
    yield from clocked.rows(f"{size.lapsed:,} claims lapsed at once, taken back by heartbeats", size.lapsed)


def _sessions(server: Server, size: Size) -> Iterator[Row]:
    """Let processes begin, all beat, and end."""
    clocked = _Clocked(server)
    store = clocked.queue.store
    sessions = [clocked.timed(lambda: Consumer(store)).session for _ in range(size.sessions)]
    opening = list(clocked.took)
    for session in sessions:
        clocked.timed(partial(_heartbeat, store, session))
    for session in sessions:
        clocked.timed(partial(store.run, "close", session=session, worker="{}"))
    yield from clocked.rows(f"{size.sessions:,} sessions begin, beat once and end", size.sessions)
    yield _last_to_first(server, size, opening)


def _known(server: Server, size: Size) -> Iterator[Row]:
    """Let a leader hand over many objects of one watch, and the next leader read what is known of them."""
    clocked, keys, number = _Clocked(server), new_keys(), 0
    store = StreamStore(server.connection, "distq", "pods")
    for number in range(1, size.known // BATCH_LIMIT + 1):
        known = dict.fromkeys(islice(keys, BATCH_LIMIT), str(number))
        batch = Commit(new=str(number), known=known, epoch="1", batch=f"b{number}", after=f"b{number - 1}")
        if number == 1:
            batch = replace(batch, after="")
        clocked.timed(partial(store.commit, batch))
    yield from clocked.rows(f"{size.known:,} objects of a watch become known", size.known)
    began = server.cpu()
    found = sum(len(page) for page in store.known_pages())
    took = (server.cpu() - began) / found
    yield Row(f"{server.kind}: {found:,} objects of a watch are read again, each", took, "µs")
    used = server.connection.execute("MEMORY", "USAGE", "distq:{distq}:known:pods", "SAMPLES", 0)
    yield Row(f"{server.kind}: {size.known:,} objects of a watch: memory of each", used / size.known, "bytes")


def _last_to_first(server: Server, size: Size, opening: Sequence[float]) -> Row:
    tenth = size.sessions // 10
    first, last = median(opening[:tenth]), median(opening[-tenth:])
    what = f"{server.kind}: a session opened beside {size.sessions:,}, to one of the first"
    return Row(what, 1e3 * last, "µs", reference=1e3 * first)


def _heartbeat(store: QueueStore, session: str) -> Any:
    inputs: dict[str, Any] = {
        "claim_duration": 3_600_000_000,
        "max_clock_step": MAX_CLOCK_STEP,
        "worker": "{}",
    }
    return store.run("heartbeat", session=session, **inputs)


if __name__ == "__main__":
    main()
