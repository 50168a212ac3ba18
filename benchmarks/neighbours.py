"""How long others wait beside one busy namespace: ``python -m benchmarks.neighbours [--quick] [--json]``.

Workers run in processes of their own, and their reconciles take a while. One namespace creates thousands of
objects at once; ten others create one each now and then. How long the items of these ten wait for a worker is
compared with what they wait where the busy namespace is quiet, in a fair queue and in one that is not. Exit
code 1 where a bar is missed.
"""

import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median, quantiles

import click

from benchmarks import servers
from benchmarks.children import Child
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from benchmarks.timed_workers import BUSY, QUEUE
from distq.redisio.queue_store import QueueStore
from distq.workqueue.queue import Queue

WORKERS, OTHERS = 3, 10

PAUSE = 0.025
"""Seconds between two items of the others: so each of them has one every quarter of a second."""

FOR_EACH = 20
"""Items of the busy namespace for each of the others: so its backlog lasts longer than they come."""

WAIT = 3.0
"""The most that 99 of 100 items of the others may wait in a fair queue, as a multiple of a quiet one."""

TIMEOUT = 120.0


@click.command()
@click.option("--quick", is_flag=True, help="2,000 items of the busy namespace.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", type=click.Choice([*servers.KINDS, "all"]), default="redis7", show_default=True)
@click.option("--items", type=click.IntRange(100), help="Items of the busy namespace.  [default: 5000]")
def main(quick: bool, as_json: bool, server: str, items: int | None) -> None:
    """Measure how long the items of ten namespaces wait beside those of a busy one."""
    busy = items or (2000 if quick else 5000)
    rows, versions = servers.measure(server, lambda running: _rows(running, busy))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions}))


def _rows(server: Server, items: int) -> Iterator[Row]:
    samples = items // FOR_EACH
    quiet = _waits(server, 0, samples, fair=True)
    beside = f"{server.kind}: {OTHERS} namespaces beside {items:,} items of another"
    for name, fair, bar in ("fair", True, WAIT), ("not fair", False, None):
        waits = _waits(server, items, samples, fair=fair)
        yield Row(f"{beside}, {name}: p99 of their waiting", _p99(waits), "ms", bar, _p99(quiet))
        yield Row(f"{beside}, {name}: median", median(waits), "ms", None, median(quiet))


def _p99(waits: list[float]) -> float:
    return quantiles(waits, n=100, method="inclusive")[98]


def _waits(server: Server, items: int, samples: int, *, fair: bool) -> list[float]:
    """Let the busy namespace have so many items; return how long those of the others waited, ms."""
    server.connection.execute("FLUSHALL")
    url = f"redis://{server.connection.address}/0"
    queue, store = Queue(QUEUE, server.connection), QueueStore(server.connection, QUEUE)
    chance = random.Random(7)
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(url, fair=fair)) for _ in range(WORKERS)]
        while store.read(("ZCARD", "sessions"))[0] < WORKERS:
            time.sleep(0.01)
        queue.add(*(f"{BUSY}/object-{number:05}" for number in range(items)))
        for number in range(samples):
            queue.add(f"team-{chance.randrange(OTHERS)}/object-{number:05}")
            time.sleep(chance.uniform(0.5, 1.5) * PAUSE)
        if items and not store.read(("ZCARD", "ready"))[0]:
            raise click.ClickException("the backlog ended before the others did. Give more --items.")
        return _received(workers, samples)


def _worker(url: str, *, fair: bool) -> Child:
    command = [sys.executable, "-m", "benchmarks.timed_workers", url, "namespace" if fair else ""]
    return Child(command)


def _received(workers: list[Child], samples: int) -> list[float]:
    """Return how long each item waited, as soon as all have been claimed."""
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        waits = [wait for worker in workers for _, wait in worker.received()]
        if len(waits) >= samples:
            return waits
        time.sleep(0.05)
    raise click.ClickException(f"{len(waits)} of {samples} items were claimed in {TIMEOUT:g} s.")


if __name__ == "__main__":
    main()
