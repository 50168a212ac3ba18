"""Shows that the history checker finds mistakes: ``python -m tests.check_controls``.

Each load runs as it is, where nothing may be found, and with each of its mistakes planted. Exit status 1
where one is missed, or the checker sees a mistake where none is.
"""

import logging
import sys

import click

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.history.controls import CONTROLS, Control
from tests.proofs.history.loads import LOADS


@click.command()
def main() -> None:
    """Print a row for each mistake: its name, what it breaks, whether that was found."""
    logging.disable(logging.CRITICAL)
    missed = 0
    with EmbeddedValkey() as server:
        connection = Connection(server.url)
        for load in LOADS:
            found = load(connection)
            click.echo(f"{load.__name__:<27} as it is   {'; '.join(map(str, found)) or 'nothing'}")
            missed += bool(found)
        for control in CONTROLS:
            missed += not _show(control, connection)
        connection.close()
    click.echo(f"missed controls: {missed}")
    sys.exit(1 if missed else 0)


def _show(control: Control, connection: Connection) -> bool:
    violations = control.violations(connection)
    caught = control.is_caught(violations)
    verdict = "caught    " if caught else "MISSED    "
    click.echo(f"{control.name:<27} {verdict} {violations[0] if violations else 'nothing'}"[:160])
    return caught


if __name__ == "__main__":
    main()
