"""Plays seeded schedules of a cache on a server of its own, and prints how many broke what is promised.

Exit status 0 only if none did, or with ``--control`` only if one did.
"""

import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import click

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.cache_model.controls import CONTROLS, planted
from tests.cache_model.world import Violated, World
from tests.support.redis_servers import KINDS, server_of

_CHUNK = 100


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="How many.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--server", type=click.Choice(KINDS), default=KINDS[0], show_default=True)
@click.option("--control", type=click.Choice([each.name for each in CONTROLS]), help="Plant this mistake.")
@click.option("--jobs", default=os.cpu_count() or 1, help="Processes, one a processor unless said otherwise.")
def main(*, seeds: int, first: int, server: str, control: str | None, jobs: int) -> None:
    """Play schedules; print each seed that broke a promise, and what came about in all of them."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    chunks = [range(at, min(at + _CHUNK, first + seeds)) for at in range(first, first + seeds, _CHUNK)]
    with ProcessPoolExecutor(jobs) as pool:
        for violations, counted in pool.map(partial(_play, server, control), chunks):
            found += violations
            seen += counted
    for line in found[:10]:
        click.echo(line)
    click.echo(", ".join(f"{what}: {count}" for what, count in sorted(seen.items())))
    click.echo(f"seeds: {seeds}")
    click.echo(f"violations: {len(found)}")
    sys.exit(bool(found) is (control is None))


def _play(kind: str, control: str | None, seeds: range) -> tuple[list[str], Counter[str]]:
    """Play some seeds on a server of their own."""
    mistake = next((each for each in CONTROLS if each.name == control), None)
    found, seen = [], Counter[str]()
    with EmbeddedValkey(server=server_of(kind)) as server, planted(mistake) as mistakes:
        connection = Connection(server.url)
        for seed in seeds:
            world = World(connection, seed, mistakes)
            try:
                world.play()
            except Violated as violation:
                found.append(f"seed {seed}: {violation}")
            seen += world.seen
        connection.close()
    return found, seen


if __name__ == "__main__":
    main()
