"""Shares of a fair queue, and what it costs Redis: ``python -m benchmarks.fairness [--quick] [--json]``.

It starts servers of its own, of each kind that is installed. A plain queue, which is not fair, is driven
beside the fair one in the same way. Exit code 1 where a bar is missed.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from statistics import median

import click

from benchmarks import cycle, flow_limits, servers
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from benchmarks.subjects import Distq, fill

NAMESPACES = 200
"""Among how many namespaces the cost of an item is measured."""

COSTS = {1: (1.6, 1.3), 100: (2.0, 1.3), 1000: (2.0, None)}
"""For each size of a batch, the most that an add and a turn may cost, in those of a plain queue.

A worker's turn claims 250 items at most, so the last one has no bar for it."""


@dataclass(frozen=True)
class Size:
    """How much is played: ``waiting`` items of one namespace, ``flows`` namespaces, ``rounds`` of slices."""

    waiting: int
    flows: int
    rounds: int


@click.command()
@click.option("--quick", is_flag=True, help="Fewer rounds, fewer namespaces.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", type=click.Choice([*servers.KINDS, "all"]), default="all", show_default=True)
@click.option("--rounds", type=click.IntRange(1), help="Alternating slices of each measurement.")
@click.option("--waiting", type=click.IntRange(1000), default=100_000, help="Items of the heavy namespace.")
def main(quick: bool, as_json: bool, server: str, rounds: int | None, waiting: int) -> None:
    """Measure the shares of a fair queue, and its cost."""
    size = Size(waiting, 100 if quick else 500, rounds or (20 if quick else 60))
    rows, versions = servers.measure(server, lambda running: _rows(running, size))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions}))


def _rows(server: Server, size: Size) -> Iterator[Row]:
    yield from _late_comer(server, size)
    yield from _shares(server, size)
    for batch in COSTS:
        yield from _costs(server, size, batch)
    yield from flow_limits.rows(server, waiting=size.waiting, rounds=size.rounds, keys_of_each=_keys)


def _queue(server: Server, *, fair: bool = True) -> Distq:
    queue = Distq(server.connection, "fair" if fair else "plain")
    if fair:
        queue.store.share("namespace")
    return queue


def _late_comer(server: Server, size: Size) -> Iterator[Row]:
    """Let many items of one namespace wait, and find where one of another namespace is claimed."""
    for fair in (True, False):
        server.connection.execute("FLUSHALL")
        queue = _queue(server, fair=fair)
        fill(queue, (f"heavy/{number}" for number in count()), size.waiting)
        places = []
        for number in range(50):
            queue.turn(100)
            queue.add([f"light-{number}/one"])
            queue.turn(5)
            place = next((n for n, key in enumerate(queue.held, 1) if key.startswith(b"light")), 6)
            places.append(place)
        name = "fair" if fair else "plain, the next 5 have none where it is 6"
        yield Row(
            f"{server.kind}: {size.waiting:,} items of a namespace wait: place of another's item, {name}",
            max(places),
            "items",
            5 if fair else None,
        )


def _shares(server: Server, size: Size) -> Iterator[Row]:
    """Let namespaces have 50 to 2,050 items each, and compare their claims while all of them wait."""
    server.connection.execute("FLUSHALL")
    queue, chance = _queue(server), random.Random(3)
    sizes = {f"n{number}": int(50 + 2000 * chance.random() ** 6) for number in range(size.flows)}
    keys = [f"{namespace}/{number}" for namespace, items in sizes.items() for number in range(items)]
    chance.shuffle(keys)
    fill(queue, iter(keys), len(keys))
    claims, worst = Counter(dict.fromkeys(sizes, 0)), 0
    while all(claims[namespace] < items for namespace, items in sizes.items()):
        worst = max(worst, max(claims.values()) - min(claims.values()))
        queue.turn(97)
        claims.update(key.decode().partition("/")[0] for key in queue.held)
    what = f"{size.flows} namespaces, {len(keys):,} items: claims of any two differ by"
    yield Row(f"{server.kind}: {what}", worst, "items", 1)


def _costs(server: Server, size: Size, batch: int) -> Iterator[Row]:
    server.connection.execute("FLUSHALL")
    costs = cycle.measure(
        server,
        {"fair": _queue(server), "plain": _queue(server, fair=False)},
        depth={"fair": 10_000, "plain": 10_000},
        batch=batch,
        slices=size.rounds,
        items=max(1000, batch) if batch > 1 else 100,
        keys_of_each=_keys,
    )
    fair, plain = costs["fair"], costs["plain"]
    most_of_add, most_of_turn = COSTS[batch]
    how = f"{server.kind}: batches of {batch}" if batch > 1 else f"{server.kind}: one at a time"
    yield Row(f"{how}: add, fair against plain", median(fair.add), "µs", most_of_add, median(plain.add))
    if most_of_turn is not None:
        turn = median(fair.turn), "µs", most_of_turn, median(plain.turn)
        yield Row(f"{how}: settle and claim, fair against plain", *turn)


def _keys() -> Iterator[str]:
    """Yield keys of 20 bytes of many namespaces that were not there before."""
    return (f"team-{number % NAMESPACES:03}/pod-{number:07}" for number in count())


if __name__ == "__main__":
    main()
