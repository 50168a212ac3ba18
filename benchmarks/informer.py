"""What following Pods costs, beside client-go and others: ``python -m benchmarks.informer``.

On the cluster of KUBECONFIG, or a kube-apiserver of its own. Each subject is a process; they take turns, and
what is compared is the CPU time and memory of the processes, since the machine may be busy. Exit code 1 where
a bar is missed.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import click

from benchmarks import large_lists, latency
from benchmarks.children import Child, Usage, feeder, follower
from benchmarks.cluster import Backlog, Pods, cluster, namespace
from benchmarks.report import Row, publish
from distq.client import Client
from distq.errors import DistqError
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.go.clientgo import MODULE

SETTLE = 1.0
"""Seconds after the list, in which garbage is collected and threads come to rest."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    objects: int
    events: int
    rounds: int
    writes: int


@dataclass(frozen=True)
class Measured:
    """What the rounds of one subject gave, or why there were none."""

    usages: Sequence[Usage] = ()
    missing: str = ""

    def median(self, what: Callable[[Usage], float]) -> float:
        """Return the median of the rounds, 0 where there were none."""
        return median(map(what, self.usages)) if self.usages else 0.0


@click.command()
@click.option("--objects", type=click.IntRange(1), default=10_000, show_default=True, help="Pods.")
@click.option("--events", type=click.IntRange(1), help="Events of the backlog.  [default: 12000]")
@click.option("--rounds", type=click.IntRange(1), help="How often each subject has its turn.  [default: 5]")
@click.option("--quick", is_flag=True, help="Two rounds, 3,000 events, 250 writes.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(objects: int, events: int | None, rounds: int | None, quick: bool, as_json: bool) -> None:
    """Measure what an informer costs."""
    size = Size(
        objects,
        events=events or (3_000 if quick else 12_000),
        rounds=rounds or (2 if quick else 5),
        writes=min(events or 1000, 250 if quick else 1000),
    )
    try:
        with cluster() as kubeconfig:
            rows = list(measure(kubeconfig, size))
    except DistqError as error:
        raise click.ClickException(str(error)) from None
    facts = {"objects": objects, "events": size.events, "rounds": size.rounds}
    sys.exit(publish(rows, as_json=as_json, facts=facts))


def measure(kubeconfig: Path, size: Size) -> Iterator[Row]:
    """Fill a namespace, and yield what following it costs."""
    client = Client(kubeconfig)
    with namespace(client) as name:
        pods = Pods(client, name)
        _say(f"creating {size.objects} Pods ...")
        pods.create(size.objects)
        yield from _lists(_take_turns(_list_subjects(kubeconfig, pods), size.rounds))
        _say(f"changing Pods {size.events} times ...")
        backlog = pods.change(size.events)
        _say(f"{backlog.events} of {size.events} events can be watched")
        yield from _backlogs(kubeconfig, pods, backlog, size.rounds)
    _say(f"creating {large_lists.OBJECTS} Pods of {large_lists.BYTES / 1e6:g} MB ...")
    yield from large_lists.measure(kubeconfig, SETTLE)
    _say(f"changing Pods {latency.RATE} times a second ...")
    yield from _latencies(kubeconfig, size.writes)


# Lists


def _list_subjects(kubeconfig: Path, pods: Pods) -> Mapping[str, Child | str]:
    """Return the children to be measured, or why one is missing."""
    arguments = kubeconfig, pods.namespace, len(pods.names)
    return {
        "distq": follower("distq", *arguments),
        "client-go": _client_go(kubeconfig, pods.namespace),
        "distq, managedFields kept": follower("distq_whole", *arguments),
        "lightkube": _lightkube("lightkube", *arguments),
        "official": follower("official", *arguments),
    }


def _client_go(kubeconfig: Path, namespace: str) -> Child | str:
    if not MODULE.is_in(MODULE.cached()):
        return f"not built: python3 -m tests.go {MODULE.name}"
    flags = f"-kubeconfig={kubeconfig}", f"-namespace={namespace}", "-resource=v1/pods", "-typed"
    return Child([MODULE.cached() / "informer", *flags])


def _lightkube(subject: str, *arguments: object) -> Child | str:
    if find_spec("lightkube") is None:
        return "not installed: pip install 'distq[bench]'"
    return follower(subject, *arguments)


def _take_turns(subjects: Mapping[str, Child | str], rounds: int) -> dict[str, Measured]:
    """Let each begin once a round, the rounds in opposite orders."""
    usages: dict[str, list[Usage]] = {name: [] for name in subjects}
    missing: dict[str, str] = {name: child for name, child in subjects.items() if isinstance(child, str)}
    for number in range(rounds):
        names = list(subjects) if number % 2 == 0 else list(subjects)[::-1]
        for name in names:
            child = subjects[name]
            if name in missing or isinstance(child, str):
                continue
            _say(f"round {number + 1} of {rounds}: {name}")
            try:
                with child:
                    child.begin()
                    child.rest(SETTLE)
                    usages[name].append(child.usage())
            except DistqError as error:
                missing[name] = str(error)
    return {name: Measured(usages[name], missing.get(name, "")) for name in subjects}


def _lists(measured: Mapping[str, Measured]) -> Iterator[Row]:
    ours = measured["distq"]
    cpu, steady = ours.median(_cpu), ours.median(_steady)
    for peer, bar in (("client-go", 1.0), ("official", 0.1), ("lightkube", None)):
        yield _beside(Row(f"list: CPU, to {peer}", cpu, "s", bar), measured[peer], _cpu)
    for peer, bar in (("client-go", 0.5), ("official", None), ("lightkube", None)):
        yield _beside(Row(f"list: memory, to {peer}", steady, "MB", bar), measured[peer], _steady)
    yield Row("list: memory, peak to steady", ours.median(lambda usage: usage.peak), "MB", 1.2, steady)
    kept = measured["distq, managedFields kept"]
    yield Row("list: CPU, managedFields kept, to cut out", kept.median(_cpu), "s", reference=cpu)
    yield Row("list: memory, managedFields kept, to cut out", kept.median(_steady), "MB", reference=steady)
    for name, each in measured.items():
        if each.usages:
            yield Row(f"list: wall time, {name}", each.median(lambda usage: usage.wall), "s")


def _cpu(usage: Usage) -> float:
    return usage.cpu


def _steady(usage: Usage) -> float:
    return usage.steady


def _beside(row: Row, peer: Measured, what: Callable[[Usage], float]) -> Row:
    """Return a row that compares with a peer, or says that it is missing."""
    if peer.missing:
        return replace(row, missing=peer.missing)
    return replace(row, reference=peer.median(what))


# Backlogs


def _backlogs(kubeconfig: Path, pods: Pods, backlog: Backlog, rounds: int) -> Iterator[Row]:
    arguments = kubeconfig, pods.namespace, backlog.events, backlog.version
    yield Row("backlog: events", backlog.events, "events")
    measured = _take_turns(
        {
            "informer": follower("distq_backlog", *arguments),
            "watch": follower("distq_watch", *arguments),
            "lightkube": _lightkube("lightkube_backlog", *arguments),
        },
        rounds,
    )

    def a_second(usage: Usage) -> float:
        return backlog.events / usage.cpu

    for name, what in (("watch", "watch"), ("informer", "informer with a handler")):
        row = Row(
            f"backlog: {what}, to lightkube's watch",
            measured[name].median(a_second),
            "events/s CPU",
            bar=1.0,
            at_least=True,
        )
        yield _beside(row, measured["lightkube"], a_second)
    for name, each in measured.items():
        if each.usages:
            best = min(usage.wall for usage in each.usages)
            yield Row(f"backlog: best round, {name}", backlog.events / best, "events/s")
    versions = f"{backlog.version}-{pods.version}"
    from_to = kubeconfig, pods.namespace, versions
    yield from _into_queue(from_to, backlog.events, rounds)
    yield _into_two_queues(from_to, rounds)


def _into_queue(arguments: Sequence[object], events: int, rounds: int) -> Iterator[Row]:
    """Hand the backlog over to a queue, each round to a new server."""
    usages, servers = [], []
    for number in range(rounds):
        _say(f"round {number + 1} of {rounds}: into a queue")
        usage, server = _fed("stream", arguments)
        usages.append(usage)
        servers.append(server)
    rates = {
        "best round": ("events/s", events / min(usage.wall for usage in usages)),
        "leader": ("events/s CPU", events / median(usage.cpu for usage in usages)),
        "server": ("events/s CPU", events / median(servers)),
    }
    for name, (unit, rate) in rates.items():
        yield Row(f"backlog into a queue: {name}", rate, unit, 10_000, at_least=True)


def _into_two_queues(arguments: Sequence[object], rounds: int) -> Row:
    """Hand the backlog over to the queues of two controllers that watch alike."""
    cpu: dict[str, list[float]] = {"one_watch": [], "two_watches": []}
    for number in range(rounds):
        _say(f"round {number + 1} of {rounds}: into two queues")
        for subject, each in cpu.items():
            each.append(_fed(subject, arguments)[0].cpu)
    one, two = median(cpu["one_watch"]), median(cpu["two_watches"])
    return Row("backlog into two queues: CPU, one watch to two", one, "s", 1.0, reference=two)


def _fed(subject: str, arguments: Sequence[object]) -> tuple[Usage, float]:
    """Return what a feeder used, and the CPU time of its server."""
    with EmbeddedValkey() as valkey, feeder(subject, *arguments, valkey.url) as child:
        began = Child.cpu_of(valkey.pid)
        child.begin()
        return child.usage(), Child.cpu_of(valkey.pid) - began


COMMANDS = 5
"""Redis commands in whose time a key goes from its watch's line to its claim, where that is past the bar.

How long the API server takes, and how long sleepers take to wake, is not distq's.
"""


def _latencies(kubeconfig: Path, writes: int) -> Iterator[Row]:
    measured = latency.measure(kubeconfig, writes)
    for share, bar in ((0.5, 5.0), (0.99, 25.0)):
        claimable, line, command = (
            1000 * latency.percentile(values, share)
            for values in (measured.claimable, measured.watched, measured.commands)
        )
        percent = f"p{100 * share:.0f}"
        yield Row(f"write to key claimable, {percent}", claimable, "ms", max(bar, line + COMMANDS * command))
        yield Row(f"write to line of a watch, {percent}", line, "ms")
        yield Row(f"from the line to key claimable, {percent}", claimable - line, "ms")
        yield Row(f"a Redis command at that pace, {percent}", command, "ms")


def _say(what: str) -> None:
    click.echo(what, err=True)


if __name__ == "__main__":
    main()
