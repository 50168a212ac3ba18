"""What waiting costs, and how late it is: ``python -m benchmarks.waiting [--quick] [--json]``.

Consumers run in processes of their own; latencies are between clocks of one machine, from the call
that adds to the moment that the consumer has its item. Exit code 1 where a bar is missed.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from types import TracebackType
from typing import Self

import click

from benchmarks import servers
from benchmarks.consumers import FLOOR_WAKE, QUEUE
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from benchmarks.subjects import Floor
from distq.workqueue.queue import Queue

MANY = 2000
WAKE_UP = 2.0
"""The most that an idle wake-up may take at the median, as a multiple of a bare pop and the floor's claim."""

LATE, LATE_AS_BARE = 10.0, 2.0
"""ms that 99 of 100 due times may be missed by; or a multiple of what a bare sleep and the floor's claim are,
where a busy machine wakes no process in time."""

WAKE_UPS = 1.2
"""Consumers woken for each item that is added one by one."""

IDLE = 2.0
"""Percent of a core that Redis may need for many idle consumers, where a PING costs it PING µs."""

PING = 10.1

RECOVERY = 1250.0
"""ms until an item is claimed whose token died with its taker."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int
    samples: int
    dues: int
    idle_seconds: float
    losses: int


@click.command()
@click.option("--quick", is_flag=True, help="Fewer samples.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", type=click.Choice([*servers.KINDS, "all"]), default="redis7", show_default=True)
def main(quick: bool, as_json: bool, server: str) -> None:
    """Measure how idle consumers wait."""
    size = Size(4, 40, 150, 20, 6) if quick else Size(10, 100, 600, 60, 20)
    rows, versions = servers.measure(server, lambda running: _rows(running, size))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions}))


class Consumers:
    """A process of consumers; ended with the block."""

    def __init__(self, kind: str, server: Server, size: int) -> None:
        url = f"redis://{server.connection.address}/0"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.consumers", kind, url, str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def order(self, word: str) -> None:
        """Send them an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def read_words(self, word: str) -> list[str]:
        """Return what follows a word that they say next."""
        assert self._process.stdout is not None
        said = self._process.stdout.readline().split()
        assert said[:1] == [word], f"{said} and not {word}"
        return said[1:]

    def claimed_at(self) -> float:
        """Return when the next item was claimed."""
        return float(self.read_words("claimed")[1])


def _rows(server: Server, size: Size) -> Iterator[Row]:
    yield from _wake_ups(server, size)
    server.connection.execute("FLUSHALL")
    with Consumers("handles", server, 3) as few:
        _until_blocked(server, 3)
        yield from _due(server, few, size, 3)
    server.connection.execute("FLUSHALL")
    with Consumers("crowd", server, MANY) as many:
        many.read_words("ready")
        yield from _idle(server, size)
        yield from _adds_among_many(server, many, size)
        yield from _due(server, many, size, MANY)
        yield _lost(server, many, size)


def _until_blocked(server: Server, at_least: int) -> None:
    while int(server.info("clients")["blocked_clients"]) < at_least:
        time.sleep(0.01)


def _wake_ups(server: Server, size: Size) -> Iterator[Row]:
    """Compare a handle's get with a bare pop and the floor's claim, in turns."""
    took: dict[str, list[float]] = {"handles": [], "floor": []}
    queue, floor = Queue(QUEUE, server.connection), Floor(server.connection)

    def add(kind: str, key: str) -> None:
        if kind == "handles":
            queue.add(key)
        else:
            floor.add([key])
            server.connection.execute("RPUSH", FLOOR_WAKE, 1)

    with Consumers("handles", server, 1) as handles, Consumers("floor", server, 1) as bare:
        _until_blocked(server, 2)
        for number in range(size.rounds * size.samples):
            for kind, consumers in ("handles", handles), ("floor", bare):
                time.sleep(random.uniform(0.005, 0.015))
                _until_blocked(server, 2)
                began = time.time()
                add(kind, f"k{number}")
                took[kind].append(1000 * (consumers.claimed_at() - began))
    for name, which, bar in ("p50", 50, WAKE_UP), ("p99", 99, None):
        ours, theirs = (_percentile(took[kind], which) for kind in ("handles", "floor"))
        yield Row(f"{server.kind}: idle wake-up, {name}", ours, "ms", bar, theirs)


def _due(server: Server, consumers: Consumers, size: Size, waiters: int) -> Iterator[Row]:
    """Add delayed items one by one, so that each is covered anew; in turns with a bare sleep as long."""
    queue, floor = Queue(QUEUE, server.connection), Floor(server.connection)
    late: list[float] = []
    bare_late: list[float] = []
    with Consumers("bare-sleep", server, 1) as bare:
        for number in range(size.dues):
            delay = random.uniform(0.02, 0.1)
            added = time.time()
            queue.add_after(f"due{number}", delay)
            late.append(1000 * (consumers.claimed_at() - added - delay))
            due = time.time() + delay
            floor.add([f"due{number}"])
            bare.order(repr(due))
            bare_late.append(1000 * (bare.claimed_at() - due))
    about = f"{server.kind}: due time missed by, {waiters} waiters"
    bare_p99 = _percentile(bare_late, 99)
    yield Row(f"{about}, p50", median(late), "ms")
    yield Row(f"{about}, p99", _percentile(late, 99), "ms", max(LATE, LATE_AS_BARE * bare_p99))
    yield Row(f"{about}, longest", max(late), "ms")
    yield Row(f"{server.kind}: a bare sleep and claim is late by, p50", median(bare_late), "ms")
    yield Row(f"{server.kind}: a bare sleep and claim is late by, p99", bare_p99, "ms")


def _idle(server: Server, size: Size) -> Iterator[Row]:
    begin, began = server.cpu(), time.monotonic()
    time.sleep(size.idle_seconds)
    share = (server.cpu() - begin) / 1e4 / (time.monotonic() - began)
    ping = min(_ping(server) for _ in range(20))  # the least favourable measure of how slow the machine is
    yield Row(f"{server.kind}: Redis CPU of {MANY} idle consumers", share, "% of a core")
    yield Row(f"{server.kind}: the same, were a PING {PING} µs", share * PING / ping, "% of a core", IDLE)
    yield Row(f"{server.kind}: a PING here", ping, "µs")


def _ping(server: Server) -> float:
    begin = server.cpu()
    for _ in range(200):
        server.connection.execute("PING")
    return (server.cpu() - begin) / 200


def _adds_among_many(server: Server, many: Consumers, size: Size) -> Iterator[Row]:
    queue = Queue(QUEUE, server.connection)
    many.order("count")
    many.read_words("turns")
    took, items = [], size.samples
    for number in range(items):
        began = time.time()
        queue.add(f"k{number}")
        took.append(1000 * (many.claimed_at() - began))
    time.sleep(0.1)
    many.order("count")
    by_token = int(many.read_words("turns")[0])
    yield Row(f"{server.kind}: wake-ups an add, {MANY} waiters", by_token / items, "", WAKE_UPS)
    yield Row(f"{server.kind}: idle wake-up, {MANY} waiters, p50", median(took), "ms")


def _lost(server: Server, many: Consumers, size: Size) -> Row:
    """Let the taker of a token die of it, and see when another looks."""
    queue = Queue(QUEUE, server.connection)
    took = []
    for number in range(size.losses):
        many.order("lose")
        time.sleep(0.2)
        began = time.time()
        queue.add(f"lost{number}")
        took.append(1000 * (many.claimed_at() - began))
    return Row(f"{server.kind}: lost token, {MANY} waiters, longest until claimed", max(took), "ms", RECOVERY)


def _percentile(values: Sequence[float], which: int) -> float:
    return quantiles(values, n=100)[which - 1]


if __name__ == "__main__":
    main()
