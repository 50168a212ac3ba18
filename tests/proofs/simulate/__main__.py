"""Plays seeded schedules, and prints how many broke a promise, and how many lost something.

Exit status 0 only if none did.
"""

import os
import sys

import click

from tests.proofs.simulate.controls import CONTROLS
from tests.proofs.simulate.kept import Kept, keep
from tests.proofs.simulate.playing import play, play_seeds, real_scripts, shrunk, world
from tests.proofs.simulate.schedule import Schedule, schedule_of
from tests.proofs.simulate.violation import Violation

SHOWN = 3
"""Failing seeds whose shrunk schedules are printed."""


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="How many.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="Play this one alone.")
@click.option("-v", "--verbose", is_flag=True, help="Print each step of --seed, or of what failed.")
@click.option("--control", type=click.Choice([each.name for each in CONTROLS]), help="Plant this mistake.")
@click.option("--jobs", default=os.cpu_count() or 1, help="Processes, one a processor unless said otherwise.")
@click.option("--keep", "keeps", is_flag=True, help="Add what failed, shrunk, to the kept schedules.")
def main(
    *, seeds: int, first: int, seed: int | None, verbose: bool, control: str | None, jobs: int, keeps: bool
) -> None:
    """Play schedules of leaders, workers and faults; print what broke a promise, with what it takes to."""
    name = control or ""
    if seed is not None:
        if verbose:
            _show(schedule_of(seed), name)
        first, seeds, jobs = seed, 1, 1
    found, seen = play_seeds(range(first, first + seeds), name, jobs)
    for each in found:
        click.echo(f"seed {each[0]}: {each[2]:.300}")
    for failed, promise, _, _ in found[:SHOWN]:
        with world(name), real_scripts(name) as real:
            schedule = shrunk(schedule_of(failed), promise, real=real)
        click.echo(f"\nseed {failed}, shrunk to {len(schedule.actions)} actions:")
        for action in schedule.actions:
            click.echo("  " + " ".join(map(str, action)))
        if verbose and seed is None:
            _show(schedule, name)
        if keeps:
            keep(Kept(failed, promise, name, schedule))
    click.echo(", ".join(f"{what}: {count}" for what, count in sorted(seen.items())))
    click.echo(f"seeds: {seeds}")
    click.echo(f"violations: {len(found)}")
    click.echo(f"lost: {sum(each[3] for each in found)}")
    sys.exit(bool(found))


def _show(schedule: Schedule, control: str) -> None:
    with world(control), real_scripts(control) as real:
        try:
            play(schedule, click.echo, real=real)
        except Violation as violation:
            click.echo(f"violated: {violation}")


if __name__ == "__main__":
    main()
