"""Whole controllers on a real API server: ``python -m benchmarks.end_to_end [--quick] [--json]``.

On the cluster of KUBECONFIG, or a kube-apiserver of its own. distq, kopf and controller-runtime, which has no
limit of its own on requests here, take turns, in processes of their own: once with all objects there before
they start, once with objects that are created while they run. Exit code 1 where a bar is missed.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from benchmarks import controller_rows, observed, servers
from benchmarks.children import Child
from benchmarks.cluster import cluster, namespace
from benchmarks.controller_rows import Run, Runs
from benchmarks.observed import Load
from benchmarks.reconcilers import CONCURRENCY
from benchmarks.report import publish
from distq.client import Client
from distq.errors import DistqError
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.go.controllerruntime import MODULE

WORKERS = {"distq": 1, "distq, 3 workers": 3}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int
    items: int
    sets: int


@click.command()
@click.option("--quick", is_flag=True, help="One round of 1,000 items and 100 sets.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--rounds", type=click.IntRange(1), help="How often each takes its turn.  [default: 3]")
@click.option("--items", type=click.IntRange(2), help="Objects that get a status.  [default: 5000]")
@click.option("--sets", type=click.IntRange(0), help="Objects that get Pods, or none.  [default: 500]")
def main(*, quick: bool, as_json: bool, rounds: int | None, items: int | None, sets: int | None) -> None:
    """Measure whole controllers on a real API server."""
    size = Size(
        rounds or (1 if quick else 3),
        items or (1_000 if quick else 5_000),
        (100 if quick else 500) if sets is None else sets,
    )
    try:
        with cluster() as kubeconfig:
            runs = measure(kubeconfig, size)
    except DistqError as error:
        raise click.ClickException(str(error)) from None
    facts = {"items": size.items, "sets": size.sets, "rounds": size.rounds}
    sys.exit(publish(controller_rows.rows(runs), as_json=as_json, facts=facts))


def measure(kubeconfig: Path, size: Size) -> Runs:
    """Let each have its turn once a round, every other round in the opposite order."""
    client = Client(kubeconfig)
    observed.define(client, kubeconfig)
    runs = Runs(values=defaultdict(list), missing={})
    loads = {"items": size.items} | ({"sets": size.sets} if size.sets else {})
    for number in range(size.rounds):
        for kind, objects in loads.items():
            names = ["distq", "distq, 3 workers", "controller-runtime"] + (
                ["kopf"] if kind == "items" else []
            )
            for name in names if number % 2 == 0 else names[::-1]:
                click.echo(f"round {number + 1} of {size.rounds}: {objects} {kind}: {name}", err=True)
                with namespace(client) as inside:
                    turn = _Turn(kubeconfig, client, Load(client, inside, kind), name)
                    _note(runs, kind, name, turn, objects)
    return runs


def _note(runs: Runs, kind: str, name: str, turn: "_Turn", objects: int) -> None:
    if name in runs.missing:
        return
    if why := turn.missing():
        runs.missing[name] = why
        return
    try:
        runs.values[kind, "there already", name].append(turn.there_already(objects))
        if kind == "items":
            runs.values[kind, "created live", name].append(turn.live(objects))
    except DistqError as error:
        runs.missing[name] = str(error)


class _Turn:
    """What one contender does with one load."""

    def __init__(self, kubeconfig: Path, client: Client, load: Load, name: str) -> None:
        self._kubeconfig = kubeconfig
        self._client = client
        self._load = load
        self._name = name

    def missing(self) -> str:
        """Return why it cannot take part, empty where it can."""
        if self._name == "kopf" and find_spec("kopf") is None:
            return "not installed: pip install 'distq[bench]'"
        if self._name == "controller-runtime" and not MODULE.is_in(MODULE.cached()):
            return f"not built: python3 -m tests.go {MODULE.name}"
        return ""

    def there_already(self, objects: int) -> Run:
        """Create all objects, and start the controllers, whose start counts."""
        names = [f"before-{number:06}" for number in range(objects)]
        with self._load.watched() as done:
            self._load.create(names)
            asked = observed.requests(self._client)
            with self._redis() as redis:
                began = time.monotonic()
                with self._running(redis) as parts:
                    times = done.wait_for(objects, parts.values())
                    requests = observed.requests(self._client) - asked
                    return _run(began, times, _cpu(parts, redis), parts, requests)

    def live(self, objects: int) -> Run:
        """Start the controllers, let each do a first object, and create the others."""
        with self._load.watched() as done, self._redis() as redis, self._running(redis) as parts:
            self._load.create(["first"])
            done.wait_for(1, parts.values())
            time.sleep(1)
            asked, before = observed.requests(self._client), _cpu(parts, redis)
            began = time.monotonic()
            self._load.create([f"live-{number:06}" for number in range(objects)])
            times = done.wait_for(objects + 1, parts.values())[1:]
            requests = observed.requests(self._client) - asked - Counter(POST=objects)
            after = _cpu(parts, redis)
            used = {part: after[part] - before[part] for part in after}
            return _run(began, times, used, parts, requests)

    @contextmanager
    def _redis(self) -> Iterator[EmbeddedValkey | None]:
        """Give distq a server, whose CPU time counts."""
        if self._name not in WORKERS:
            yield None
            return
        with EmbeddedValkey(server=next(iter(servers.programs().values()), None)) as redis:
            yield redis

    @contextmanager
    def _running(self, redis: EmbeddedValkey | None) -> Iterator[Mapping[str, Child]]:
        """Start all processes at once."""
        with ExitStack() as stack:
            yield {part: stack.enter_context(child) for part, child in self._children(redis).items()}

    def _children(self, redis: EmbeddedValkey | None) -> Mapping[str, Child]:
        inside, kind, access = self._load.namespace, self._load.kind, str(self._kubeconfig)
        if self._name == "controller-runtime":
            flags = f"-access={access}", f"-namespace={inside}", f"-load={kind}", f"-workers={CONCURRENCY}"
            return {"controller": Child([MODULE.cached() / "controller", *flags])}
        environment = {**os.environ, "KUBECONFIG": access}
        url = redis.url if redis else "-"

        def child(part: str) -> Child:
            command = [sys.executable, "-m", "benchmarks.reconcilers", part, kind, access, inside, url]
            return Child(command, environment=environment)

        if self._name == "kopf":
            return {"operator": child("kopf")}
        workers = {f"worker {number + 1}": child("worker") for number in range(WORKERS[self._name])}
        return {"informer": child("informer"), **workers}


def _run(
    began: float,
    times: Sequence[float],
    cpu: Mapping[str, float],
    parts: Mapping[str, Child],
    requests: Counter[str],
) -> Run:
    memory = {part: child.peak() for part, child in parts.items()}
    return Run(len(times), times[0] - began, times[-1] - began, cpu, memory, requests)


def _cpu(parts: Mapping[str, Child], redis: EmbeddedValkey | None) -> dict[str, float]:
    used = {part: child.cpu() for part, child in parts.items()}
    return used | ({"Redis": Child.cpu_of(redis.pid)} if redis else {})


if __name__ == "__main__":
    main()
