"""Plays seeded schedules of a cache on a server of its own, and prints how many broke what is promised.

Exit status 0 only if none did, or with ``--control`` only if one did.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial

import click

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.cache_model import joined_controls
from tests.proofs.cache_model.controls import CONTROLS, planted
from tests.proofs.cache_model.joined_world import JoinedWorld, in_step
from tests.proofs.cache_model.world import Violated, World
from tests.support.redis_servers import KINDS, server_of

_CHUNK = 100
_JOINED = [each.name for each in joined_controls.CONTROLS]


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="How many.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--joined", is_flag=True, help="Of two watches whose functions read each other's cache.")
@click.option("--server", type=click.Choice(KINDS), default=KINDS[0], show_default=True)
@click.option(
    "--control", type=click.Choice([*(each.name for each in CONTROLS), *_JOINED]), help="Plant this mistake."
)
@click.option("--jobs", default=os.cpu_count() or 1, help="Processes, one a processor unless said otherwise.")
def main(*, seeds: int, first: int, joined: bool, server: str, control: str | None, jobs: int) -> None:
    """Play schedules; print each seed that broke a promise, and the counts of events in all of them."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    joined = joined or control in _JOINED
    chunks = [range(at, min(at + _CHUNK, first + seeds)) for at in range(first, first + seeds, _CHUNK)]
    with ProcessPoolExecutor(jobs) as pool:
        for violations, counted in pool.map(partial(_play, joined, server, control), chunks):
            found += violations
            seen += counted
    for line in found[:10]:
        click.echo(line)
    click.echo(", ".join(f"{what}: {count}" for what, count in sorted(seen.items())))
    click.echo(f"seeds: {seeds}")
    click.echo(f"violations: {len(found)}")
    sys.exit(bool(found) is (control is None))


def _play(joined: bool, kind: str, control: str | None, seeds: range) -> tuple[list[str], Counter[str]]:
    """Play some seeds on a server of their own."""
    found, seen = [], Counter[str]()
    with EmbeddedValkey(server=server_of(kind)) as server, _planted(control, joined=joined) as mistakes:
        connection = Connection(server.url)
        for seed in seeds:
            world = JoinedWorld(connection, seed) if joined else World(connection, seed, mistakes)
            try:
                world.play()
            except Violated as violation:
                found.append(f"seed {seed}: {violation}")
            seen += world.seen
        connection.close()
    return found, seen


@contextmanager
def _planted(control: str | None, *, joined: bool) -> Iterator[frozenset[str]]:
    """Plant a mistake of either model."""
    if joined:
        with in_step(), joined_controls.planted(control):
            yield frozenset()
    else:
        with planted(next((each for each in CONTROLS if each.name == control), None)) as mistakes:
            yield mistakes


if __name__ == "__main__":
    main()
