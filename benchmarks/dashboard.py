"""What looking and repairing cost: ``python -m benchmarks.dashboard [--keys 1000000] [--json]``.

Pages of a queue with so many items against those of one with a thousand; what they ask of Redis; how long
others wait while all are requeued; and what a trace costs the turn, on and off. Exit code 1 where a bar is
missed.
"""

import dataclasses
import hashlib
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from statistics import median

import click

from benchmarks import cycle, servers
from benchmarks.pinger import Pinger
from benchmarks.report import Row, publish
from benchmarks.servers import Server
from benchmarks.subjects import Distq, fill, new_keys
from distq.dashboard import create_app
from distq.inspector import Inspector
from distq.redisio import trace
from distq.redisio.connection import Argument, Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.scripts import Script
from tests.support.monitored import commands_of

FEW = 1_000
GROWTH, COMMANDS, PING, OFF, ON = 2.0, 6, 15.0, 1.02, 1.5
PAGES = {
    "queues": "/",
    "first page": "/queues/{queue}?state=dead",
    "last page": "/queues/{queue}?state=dead&page={last}",
    "first page, last first": "/queues/{queue}?state=dead&sort=last",
    "search that finds": "/queues/{queue}?state=dead&match=default/pod-",
    "search that finds little": "/queues/{queue}?state=dead&match=*00000777",
    "item": "/queues/{queue}/items/default~2Fpod-00000777",
    "workers": "/workers",
    "informers": "/informers",
}


@click.command()
@click.option(
    "--keys", type=click.IntRange(FEW), default=1_000_000, show_default=True, help="Items of the queue."
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", type=click.Choice([*servers.KINDS, "all"]), default="redis7", show_default=True)
@click.option(
    "--rounds", type=click.IntRange(1), default=40, show_default=True, help="Times that each is measured."
)
def main(keys: int, as_json: bool, server: str, rounds: int) -> None:
    """Measure what the dashboard, its repairs and the trace cost."""
    rows, versions = servers.measure(server, lambda running: _rows(running, keys, rounds))
    sys.exit(publish(rows, as_json=as_json, facts={"servers": versions}))


def _rows(server: Server, keys: int, rounds: int) -> Iterator[Row]:
    yield from _pages(server, keys, rounds)
    yield from _requeue_all(server, keys)
    for batch in (100, 1):
        yield from _traced(server, rounds, batch)


def _pages(server: Server, keys: int, rounds: int) -> Iterator[Row]:
    """Compare pages of a queue with many dead and failing items with those of one with a thousand."""
    server.connection.execute("FLUSHALL")
    few, many = _dead(server.connection, "few", FEW), _dead(server.connection, "many", keys)
    browser = create_app(Inspector(server.connection)).test_client()
    for name, path in PAGES.items():
        took: dict[str, list[float]] = {few: [], many: []}
        most = 0
        for number in range(rounds + 1):
            for queue, size in ((few, FEW), (many, keys)):
                url = path.format(queue=queue, last=-(-size // 50))
                began = time.perf_counter()
                answer = browser.get(url)
                took[queue].append((time.perf_counter() - began) * 1e3)
                assert answer.status_code == 200, answer.text
                if number == 0:
                    most = max(most, _commands(server, lambda url=url: browser.get(url)))
        least, ours = (median(times[1:]) for times in took.values())
        kind = f"{server.kind}: page: {name}"
        if "{queue}" in path:
            yield Row(f"{kind}, {keys:,} items against {FEW:,}", ours, "ms", GROWTH, reference=least)
        else:
            yield Row(f"{kind}, with {keys:,} items", ours, "ms")
        yield Row(f"{kind}, commands", most, "commands", COMMANDS)


def _dead(connection: Connection, name: str, items: int) -> str:
    """Make a queue with so many dead items, each with its error; return its name."""
    subject = Distq(connection, name)
    fill(subject, new_keys(), items)
    Inspector(connection).park(name, state="ready", reason="by the benchmark")
    return name


def _commands(server: Server, look: object) -> int:
    assert callable(look)
    with commands_of(f"redis://{server.connection.address}/0", server.connection) as asked:
        look()
    return len(asked)


def _requeue_all(server: Server, keys: int) -> Iterator[Row]:
    """Requeue all dead items during pings; three times: a busy machine delays pings, too."""
    inspector = Inspector(server.connection)
    url = f"redis://{server.connection.address}/0"
    took, idle, busy = [], [], []
    for number in range(3):
        if number:
            inspector.park("many", state="ready", reason="by the benchmark")
        with Pinger(url) as pinger:
            time.sleep(3)
        idle.append(pinger.worst)
        with Pinger(url) as pinger:
            began = time.perf_counter()
            assert inspector.requeue("many", state="dead") == keys
            took.append(time.perf_counter() - began)
        busy.append(pinger.worst)
    yield Row(f"{server.kind}: requeue of {keys:,}", median(took), "s")
    yield Row(f"{server.kind}: longest step of it, CPU time of Redis", _longest_step(server), "ms", PING)
    yield Row(f"{server.kind}: worst PING in 3 s without it, the least of three", min(idle), "ms")
    yield Row(
        f"{server.kind}: worst PING while {keys:,} are requeued, the least of three", min(busy), "ms", PING
    )


def _longest_step(server: Server) -> float:
    """Return the CPU time of the longest step of a requeue, in ms: the machine's other work is not in it."""
    inspector, longest = Inspector(server.connection), 0.0
    inspector.park("many", state="ready", reason="by the benchmark")
    cursor: int | None = 0
    while cursor is not None:
        before = server.cpu()
        cursor = inspector.repair_some("requeue", "many", state="dead", cursor=cursor).cursor
        longest = max(longest, (server.cpu() - before) / 1e3)
    return longest


class _Untraced(QueueStore):
    """A queue whose scripts are what they would be if nothing could be traced."""

    def _bound(self, script: str, inputs: dict[str, object]) -> tuple[Script, list[Argument]]:
        loaded, arguments = super()._bound(script, inputs)
        return _untraced(loaded), arguments


@cache
def _untraced(loaded: Script) -> Script:
    header, _, rest = loaded.source.partition("\nlocal function run()\n")
    body = rest.partition("\nend\nlocal reply = run()\n")[0]
    assert body, "what writes the trace looks otherwise now"
    source = "\n".join([re.sub(r"(?m)^local traced = .*$", "local traced", header), body])
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return dataclasses.replace(loaded, source=source, sha=sha)


def _traced(server: Server, rounds: int, batch: int) -> Iterator[Row]:
    """Compare turns without the code of the trace, with it, and while it is on."""
    server.connection.execute("FLUSHALL")
    subjects: dict[str, Distq] = {
        "bare": Distq(server.connection, store=_Untraced(server.connection, "bare")),
        "off": Distq(server.connection, "off"),
        "on": Distq(server.connection, "on"),
    }
    trace.switch_on(subjects["on"].store, seconds=3600)
    items = 1_000 if batch > 1 else 200
    costs = cycle.measure(
        server, subjects, depth=dict.fromkeys(subjects, 1_000), batch=batch, slices=rounds, items=items
    )
    turns = {name: median(cost.turn) for name, cost in costs.items()}
    how = f"batches of {batch}" if batch > 1 else "one at a time"
    for name, bar in (("off", OFF), ("on", ON)):
        said = f"{server.kind}: turn, {how}, trace {name}"
        yield Row(said, turns[name], "µs an item", bar, reference=turns["bare"])


if __name__ == "__main__":
    main()
