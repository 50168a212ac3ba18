"""What the queue costs Redis, against the floor: ``python -m benchmarks.floor [--quick] [--json]``.

Redis is one thread that a whole fleet shares, so its CPU time an item is what a queue is measured
by. It starts servers of its own, of each kind that is installed. Exit code 1 where a bar is missed.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import click

from benchmarks import cycle, longest, memory, servers
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from benchmarks.subjects import Distq, Floor, Subject

BATCHES = {"redis7": 1.25, "redis6": 1.25, "valkey9": 1.5}
SINGLY = {"redis7": 1.6, "redis6": 1.9, "valkey9": 1.9}
"""The most that add, claim and settle may cost, in batches of 100 and one at a time, in floors."""

BYTES = {"ready": 140, "delayed": 140, "processing": 300}
LONGEST = 5.0
"""ms"""

GROWTH = 1.2
"""The most that an item among a million may cost, as a multiple of one among ten thousand."""


@dataclass(frozen=True)
class Size:
    """How much is measured: slices of ``items`` items, and ``many`` items for memory."""

    rounds: int
    items: int
    many: int
    grows: bool


@click.command()
@click.option("--quick", is_flag=True, help="Fewer rounds, 100,000 items instead of a million.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", type=click.Choice([*servers.KINDS, "all"]), default="all", show_default=True)
@click.option("--rounds", type=click.IntRange(1), help="Alternating slices of each measurement.")
@click.option("--items", type=click.IntRange(100), help="Items a slice.")
def main(quick: bool, as_json: bool, server: str, rounds: int | None, items: int | None) -> None:
    """Measure what the queue costs Redis."""
    items = items or 1000
    size = Size(rounds or (20 if quick else 60), items, items * (100 if quick else 1000), grows=not quick)
    rows, versions = servers.measure(server, lambda running: _rows(running, size))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions}))


def _rows(server: Server, size: Size) -> Iterator[Row]:
    yield from _cycle(server, size, batch=100, crowded=False)
    yield from _cycle(server, size, batch=1, crowded=False)
    yield from _cycle(server, size, batch=100, crowded=True)
    yield from _cycle(server, size, batch=1, crowded=True)
    yield from _longest(server, size)
    for state, count in memory.measure(server, size.many).items():
        yield Row(f"{server.kind}: memory of an item {state}", count, "bytes", BYTES[state])
    if size.grows:
        yield from _growth(server, size)


def _cycle(server: Server, size: Size, *, batch: int, crowded: bool) -> Iterator[Row]:
    server.connection.execute("FLUSHALL")
    queue, floor = Distq(server.connection), Floor(server.connection)
    if crowded:
        queue.crowd()
    costs = cycle.measure(
        server,
        {"distq": queue, "floor": floor},
        depth={"distq": size.items, "floor": size.items},
        batch=batch,
        slices=size.rounds,
        items=size.items if batch > 1 else size.items // 10,
    )
    ours, least = costs["distq"], costs["floor"]
    bar = (SINGLY if batch == 1 else BATCHES)[server.kind]
    how = f"batches of {batch}" if batch > 1 else "one at a time"
    name = f"{server.kind}: {how}{', crowded' if crowded else ''}"
    yield Row(f"{name}: add", median(ours.add), "µs", reference=median(least.add))
    yield Row(f"{name}: settle and claim", median(ours.turn), "µs", reference=median(least.turn))
    yield Row(f"{name}: all three", ours.cycle, "µs", None if crowded else bar, reference=least.cycle)


def _longest(server: Server, size: Size) -> Iterator[Row]:
    rounds = longest.measure(server, min(size.rounds, 15), depth=10 * size.items)
    typical = {name: median(took[name] for took in rounds) for name in rounds[0]}
    for name in sorted(typical, key=typical.__getitem__)[-3:]:
        yield Row(f"{server.kind}: longest scripts: {name}", typical[name], "ms", LONGEST)


def _growth(server: Server, size: Size) -> Iterator[Row]:
    """Compare the cost of an item among a million with that among ten thousand."""
    server.connection.execute("FLUSHALL")
    subjects: dict[str, Subject] = {}
    for name in ("few", "many"):
        subjects[name] = Distq(server.connection, name)
        subjects[f"floor-{name}"] = Floor(server.connection, f"floor-{name}")
    depth = {name: size.many if "many" in name else size.items * 10 for name in subjects}
    costs = cycle.measure(server, subjects, depth=depth, batch=100, slices=size.rounds, items=size.items)
    few, many = costs["few"], costs["many"]
    yield Row(
        f"{server.kind}: an item of {depth['many']:,}: add, claim and settle, against {depth['few']:,}",
        many.cycle,
        "µs",
        GROWTH,
        reference=few.cycle,
    )
    floor = median(costs["floor-many"].add) / median(costs["floor-few"].add)
    yield Row(
        f"{server.kind}: an item of {depth['many']:,}: add, against {depth['few']:,}",
        median(many.add),
        "µs",
        max(floor, GROWTH),
        reference=median(few.add),
    )


if __name__ == "__main__":
    main()
