"""How soon a follower leads whose leader was killed, or released: python -m benchmarks.takeover.

At the usual 15, 10 and 2 seconds, on many Leases at once, each with a leader and a follower that are
processes of their own. client-go's elector does the same beside ours, where it is built. A takeover ends
with the follower's first act.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import click

from benchmarks.cluster import cluster, namespace
from benchmarks.report import Row, publish
from distq.client import Client
from distq.errors import ConfigError
from tests.go.clientgo import MODULE
from tests.leaderelection.competitor import Competitor, Kind
from tests.support.eventually import eventually

TIMES = (15.0, 10.0, 2.0)
"""Seconds: lease duration, renew deadline, retry period."""

KILL = 15.5
"""Seconds that a takeover after kill -9 may take: a lease, and half a second."""

RELEASE = 0.2
"""Seconds that a takeover after a release may take."""

TIMEOUT = 120.0
STARTED_AT_ONCE = 4


class Pair:
    """A leader and its follower on a Lease of their own; times are seconds."""

    def __init__(self, make: Callable[[str], Competitor]) -> None:
        self._make = make
        self._leader = make("1")
        self._follower = make("2")
        self._number = 2
        self._began = 0

    def begin(self) -> None:
        """Let one lead, and the other follow."""
        self._leader.start()
        eventually(lambda: bool(self._leader.acts), timeout=TIMEOUT)
        self._follow()

    def begin_again(self) -> None:
        """Let the one that took over lead, and another follow."""
        self._number += 1
        self._leader, self._follower = self._follower, self._make(str(self._number))
        self._follow()

    def release(self) -> None:
        """Stop the leader."""
        self._began = time.monotonic_ns()
        self._leader.cancel()

    def kill(self) -> None:
        """Kill the leader."""
        self._began = time.monotonic_ns()
        self._leader.process.kill()

    def taken_over(self) -> float:
        """Return after how many seconds the follower acts."""
        eventually(lambda: bool(self._follower.acts), timeout=TIMEOUT)
        return (self._follower.acts[0] - self._began) / 1e9

    def _follow(self) -> None:
        self._follower.start()
        eventually(lambda: bool(self._follower.leaders), timeout=TIMEOUT)


@contextmanager
def pairs(kubeconfig: Path, namespace: str, kind: Kind, number: int) -> Iterator[list[Pair]]:
    """Give pairs of one kind that have yet to begin, and end all their processes afterwards."""
    with ExitStack() as ending:

        def make(lease: str) -> Callable[[str], Competitor]:
            def competitor(name: str) -> Competitor:
                made = Competitor(
                    kind,
                    f"{lease}-{name}",
                    kubeconfig=kubeconfig,
                    namespace=namespace,
                    lease=lease,
                    times=TIMES,
                )
                ending.callback(made.kill)
                return made

            return competitor

        yield [Pair(make(f"{kind}-{index}")) for index in range(number)]


def takeovers(all_pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """Return how long each pair takes after a kill, and after a release; about 20 s and the starts."""
    with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
        list(pool.map(Pair.begin, all_pairs))
        after_releases = []
        for pair in all_pairs:
            pair.release()
            after_releases.append(pair.taken_over())
        list(pool.map(Pair.begin_again, all_pairs))
    for pair in all_pairs:
        time.sleep(random.uniform(0, TIMES[2] / len(all_pairs)))  # renewals have their times, too
        pair.kill()
    return [pair.taken_over() for pair in all_pairs], after_releases


def measure(kubeconfig: Path, namespace: str, number: int) -> list[Row]:
    """Return the takeovers of ours with their bars, and of client-go's where it is built."""
    kinds: list[Kind] = ["ours", "client-go"] if MODULE.is_in(MODULE.cached()) else ["ours"]
    with ExitStack() as ending:
        scenes = [
            pair
            for kind in kinds
            for pair in ending.enter_context(pairs(kubeconfig, namespace, kind, number))
        ]
        kills, releases = takeovers(scenes)
    rows = []
    for index, kind in enumerate(kinds):
        for what, seconds, bar in (("kill -9", kills, KILL), ("a release", releases, RELEASE)):
            some = seconds[index * number : (index + 1) * number]
            name = f"takeover after {what}, {'distq' if kind == 'ours' else kind}"
            rows.append(Row(f"{name}, median", median(some), "s", bar if kind == "ours" else None))
            rows.append(Row(f"{name}, longest", max(some), "s"))
    return rows


@click.command()
@click.option("--quick", is_flag=True, help="Fewer Leases.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(quick: bool, as_json: bool) -> None:
    """Measure takeovers on the cluster of KUBECONFIG, or on an API server of its own."""
    try:
        with cluster() as kubeconfig, namespace(Client(kubeconfig)) as own:
            rows = measure(kubeconfig, own, 3 if quick else 8)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(publish(rows, as_json=as_json))


if __name__ == "__main__":
    main()
